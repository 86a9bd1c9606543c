"""Canvases and window positions as pictures take them: checked, with one clear message."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]


def checked_canvas(canvas: npt.ArrayLike) -> Pixels:
    """The canvas, uint8 (H, W). Raises ValueError for another shape or dtype, or values beside 0 and 255."""
    array = np.asarray(canvas)
    if array.ndim != 2 or array.dtype != np.uint8 or not ((array == 0) | (array == 255)).all():
        raise ValueError(
            "canvas must be uint8 of shape (H, W), 0 stroke and 255 background and nothing else; "
            f"got {array.dtype} {array.shape} with values {np.unique(array)[:4]}"
        )
    return array


def checked_windows(windows: npt.ArrayLike, window: int, canvas: Pixels) -> list[tuple[int, int]]:
    """The corners as Python integers, each with its window inside the canvas.

    windows: integers (K, 2), K >= 0. window: side in pixels. Raises ValueError for others.
    """
    array = np.asarray(windows)
    if array.size == 0:
        array = array.reshape(0, 2).astype(np.int32)
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"window positions must be integer pairs (x, y); got {array.dtype} {array.shape}")
    height, width = canvas.shape
    if not 1 <= window <= min(height, width):
        raise ValueError(
            f"window must be 1..{min(height, width)} to fit the canvas {canvas.shape}; got {window}"
        )
    limit = np.array([width - window, height - window])
    outside = ((array < 0) | (array > limit)).any(axis=1)
    if outside.any():
        raise ValueError(
            f"window {window} at (x, y) = {tuple(array[outside][0].tolist())} leaves the canvas of "
            f"{width} x {height}: expected 0..{limit[0]} and 0..{limit[1]}"
        )
    return [(int(x), int(y)) for x, y in array]
