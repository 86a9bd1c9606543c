"""Canvases without digits."""

from __future__ import annotations

import numpy as np

from tests.reference import Pixels


def noise(height: int, width: int, seed: int = 0) -> Pixels:
    """A canvas of random pixels."""
    bits = np.random.default_rng(seed).integers(2, size=(height, width), dtype=np.uint8)
    return bits * np.uint8(255)
