"""Many pictures as one, row by row."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mnistpro_jax.render.checked import Pixels
from mnistpro_jax.render.published import Colour, published_picture

SEPARATOR: Colour = (40, 44, 52)


def grid(pictures: npt.ArrayLike, columns: int, separator: int = 2) -> Pixels:
    """A batch of equal pictures as one, row by row: uint8 (N, H, W[, 3]) -> (H', W'[, 3]).

    columns: pictures a row, >= 1. separator: width in pixels of the dark lines between pictures, >= 0. Cells
    that stay empty in the last row are dark too.

    Raises ValueError for an empty batch, another shape or dtype, or a bad number of columns or separator
    width.
    """
    batch = np.asarray(pictures)
    if batch.dtype != np.uint8 or batch.ndim not in (3, 4) or (batch.ndim == 4 and batch.shape[3] != 3):
        raise ValueError(
            f"pictures must be uint8 of shape (N, H, W) or (N, H, W, 3); got {batch.dtype} {batch.shape}"
        )
    if len(batch) == 0 or columns < 1 or separator < 0:
        raise ValueError(
            "a grid needs at least one picture, columns >= 1 and separator >= 0; "
            f"got {len(batch)} pictures, columns {columns}, separator {separator}"
        )
    number, height, width = batch.shape[:3]
    columns = min(columns, number)
    rows = math.ceil(number / columns)
    dark = SEPARATOR if batch.ndim == 4 else SEPARATOR[1]
    shape = (rows * (height + separator) - separator, columns * (width + separator) - separator)
    sheet = np.full(shape + batch.shape[3:], dark, dtype=np.uint8)
    for index, picture in enumerate(batch):
        top, left = (index // columns) * (height + separator), (index % columns) * (width + separator)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def states_grid(
    canvases: npt.ArrayLike,
    xys: npt.ArrayLike,
    window: int = 64,
    columns: int | None = None,
    outline: bool = True,
) -> Pixels:
    """Many states at a glance: the published pictures of a batch as one grid, uint8 (H', W', 3).

    canvases: uint8 (N, H, W) of 0 and 255. xys: (N, 2), the window of each. columns: pictures a row; by
    default as many as make the grid about square.

    Raises ValueError where the batch sizes differ, or for what ``published_picture`` and ``grid`` refuse.
    """
    canvases, xys = np.asarray(canvases), np.asarray(xys)
    if canvases.ndim != 3 or xys.shape != (len(canvases), 2):
        raise ValueError(
            f"expected canvases (N, H, W) and windows (N, 2) of the same N; "
            f"got {canvases.shape} and {xys.shape}"
        )
    pictures = np.empty((*canvases.shape, 3), dtype=np.uint8)
    for index, (canvas, xy) in enumerate(zip(canvases, xys, strict=True)):
        pictures[index] = published_picture(canvas, xy, window, outline)
    if columns is None:
        number, height, width = canvases.shape
        columns = max(1, round(math.sqrt(number * height / width)))
    return grid(pictures, columns)
