"""What the windows of an episode saw of its canvas."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mnistpro_jax.env.outline import READABLE_HIGH, READABLE_LOW
from mnistpro_jax.render.checked import Pixels

Mask = npt.NDArray[np.bool_]
Corner = Sequence[int]


def seen_mask(shape: tuple[int, int], windows: Sequence[Corner], window: int, readable: bool = False) -> Mask:
    """The union of windows, bool ``shape``. readable: less the ring that the outline hides."""
    seen = np.zeros(shape, bool)
    low, high = (READABLE_LOW, READABLE_HIGH) if readable else (0, 0)
    for x, y in windows:
        seen[y + low : y + window - high, x + low : x + window - high] = True
    return seen


def coverage_along(canvas: Pixels, windows: Sequence[Corner], window: int) -> list[float]:
    """Share of the stroke inside the union of windows (as published), 0..1, after each of them."""
    hidden = canvas == 0
    total = int(hidden.sum())
    shares = []
    for x, y in windows:
        hidden[y : y + window, x : x + window] = False
        shares.append(1 - int(hidden.sum()) / total if total else 1.0)
    return shares
