"""What an episode saw, counted again from its windows and its canvas alone.

For episodes that others stored, and for what changes along an episode. Definitions: ``mnistpro_jax.metrics``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax.picture import READABLE_HIGH, READABLE_LOW

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


def canvases(records: Sequence[dict[str, Any]], at_once: int = 64) -> Iterator[tuple[dict[str, Any], Pixels]]:
    """Each record with its canvas, uint8 (224, 224 n), made again from its images.

    Raises DataError where the data set has other images or labels than a record names.
    """
    from mnistpro_jax import data
    from mnistpro_jax.analysis.pictures import check_images
    from mnistpro_jax.worlds.published import canvas_of

    loaded: dict[tuple[str, str], data.Dataset] = {}
    for first in range(0, len(records), at_once):
        block = records[first : first + at_once]
        for record in block:
            home = record["source"], record["split"]
            if home not in loaded:
                loaded[home] = data.load(*home)
            check_images(record, loaded[home])
        # One drawing for all of one kind, as they nearly always are.
        kinds = [(record["source"], record["split"], record["level"]) for record in block]
        drawn: dict[int, Pixels] = {}
        for source, split, level in set(kinds):
            numbers = [number for number, kind in enumerate(kinds) if kind == (source, split, level)]
            images = loaded[source, split].images[
                np.asarray([block[number]["indices"] for number in numbers])
            ]
            drawn.update(zip(numbers, canvas_of(images), strict=True))
        for number, record in enumerate(block):
            yield record, drawn[number]


def _per_digit(mask: Mask, level: int) -> list[int]:
    """Pixels of a mask in each digit's part of the width."""
    return [int(part.sum()) for part in np.split(mask, level, axis=1)]
