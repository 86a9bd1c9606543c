"""The outline that frames a window in the published picture, in numbers: without JAX, for those who only draw."""

from __future__ import annotations

OUTLINE_WIDTH = 2
# The rectangle's far corner is inclusive, so that its far sides lie half outside the window: of the window's
# columns, two are hidden at the near side and one at the far side.
READABLE_LOW = OUTLINE_WIDTH
READABLE_HIGH = OUTLINE_WIDTH - 1
