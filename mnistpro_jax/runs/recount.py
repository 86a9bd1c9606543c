"""What an episode saw, counted again from its windows and its canvas alone.

For episodes that others stored, and for what changes along an episode. Definitions: ``mnistpro_jax.rollouts.metrics``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax.env.picture import READABLE_HIGH, READABLE_LOW

Pixels = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
Corner = Sequence[int]


def seen_mask(shape: tuple[int, int], windows: Sequence[Corner], window: int, readable: bool = False) -> Mask:
    """The union of windows, bool ``shape``. readable: less the ring that the outline hides."""
    seen = np.zeros(shape, bool)
    low, high = (READABLE_LOW, READABLE_HIGH) if readable else (0, 0)
    for x, y in windows:
        seen[y + low : y + window - high, x + low : x + window - high] = True
    return seen


def counted(canvas: Pixels, windows: Sequence[Corner], window: int, level: int) -> dict[str, Any]:
    """The coverages and revisits of an episode record.

    canvas: uint8 (H, W), 0 stroke. windows: every corner shown, in order. window: pixels. level: digits.
    """
    stroke = canvas == 0
    whole, readable = (seen_mask(stroke.shape, windows, window, ring) for ring in (False, True))
    totals = _per_digit(stroke, level)
    corners = [tuple(corner) for corner in windows]

    def shares(mask: Mask) -> list[float]:
        parts = zip(_per_digit(mask, level), totals, strict=True)
        return [part / total if total else 1.0 for part, total in parts]

    def share(mask: Mask) -> float:
        return float(mask.sum() / stroke.sum()) if stroke.any() else 1.0

    return {
        "revisits": len(corners) - len(set(corners)),
        "stroke_coverage": share(stroke & whole),
        "stroke_coverage_readable": share(stroke & readable),
        "area_coverage": float(whole.mean()),
        "area_coverage_readable": float(readable.mean()),
        "digit_stroke_coverage": shares(stroke & whole),
        "digit_stroke_coverage_readable": shares(stroke & readable),
    }


def coverage_along(canvas: Pixels, windows: Sequence[Corner], window: int) -> list[float]:
    """Stroke coverage (windows) after each observation, 0..1."""
    hidden = canvas == 0
    total = int(hidden.sum())
    shares = []
    for x, y in windows:
        hidden[y : y + window, x : x + window] = False
        shares.append(1 - int(hidden.sum()) / total if total else 1.0)
    return shares


def _per_digit(mask: Mask, level: int) -> list[int]:
    """Pixels of a mask in each digit's part of the width."""
    return [int(part.sum()) for part in np.split(mask, level, axis=1)]
