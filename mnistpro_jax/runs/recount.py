"""What an episode saw, counted again from its windows and its canvas alone.

For episodes that others stored. Definitions: ``mnistpro_jax.rollouts.metrics``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mnistpro_jax.render.checked import Pixels
from mnistpro_jax.render.seen import Corner, Mask, seen_mask


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


def _per_digit(mask: Mask, level: int) -> list[int]:
    """Pixels of a mask in each digit's part of the width."""
    return [int(part.sum()) for part in np.split(mask, level, axis=1)]
