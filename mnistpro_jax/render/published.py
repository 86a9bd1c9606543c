"""The pictures that a model is shown: the published picture of a window, and the visual-memory canvas.

Written with numpy slices; they equal the Pillow drawing of the published study (arXiv 2608.31022 and its public
reference code) byte for byte, for windows of 2 px and more.

Canvas means the full canvas everywhere in this package: uint8 (H, W), 0 stroke and 255 background. Windows are
top-left corners (x, y) in pixels, x to the right and y down.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mnistpro_jax.env.outline import OUTLINE_WIDTH
from mnistpro_jax.render.checked import Pixels, checked_canvas, checked_windows

Colour = tuple[int, int, int]

GREY: Colour = (128, 128, 128)
CYAN: Colour = (0, 229, 255)
PALETTE: tuple[Colour, ...] = (GREY, (0, 0, 0), (255, 255, 255), CYAN)
"""The four colours of these pictures."""


def published_picture(
    canvas: npt.ArrayLike, xy: npt.ArrayLike, window: int = 64, outline: bool = True
) -> Pixels:
    """The published observation: uint8 (H, W, 3), grey but for the window.

    canvas: uint8 (H, W) of 0 and 255. xy: (x, y), with the window inside the canvas. window: side in pixels.
    outline: draw the cyan outline, 2 px wide and with the far corner inclusive, as published; it covers the
    outer pixels of the window, of which columns and rows 2..window-2 stay readable.

    Raises ValueError for a canvas or a window position that is not as described.
    """
    return composite_picture(canvas, np.asarray(xy)[None], window, outline)


def composite_picture(
    canvas: npt.ArrayLike, windows: npt.ArrayLike, window: int = 64, outline: bool = False
) -> Pixels:
    """The visual-memory canvas: uint8 (H, W, 3), grey but for all windows (K, 2) shown at once.

    Arguments as in ``published_picture``. Outlines, if asked for, lie over all windows. K may be 0.
    Raises ValueError for a canvas or a window position that is not as described.
    """
    canvas = checked_canvas(canvas)
    # one number for all channels: thrice as fast
    picture = np.full((*canvas.shape, 3), GREY[0], dtype=np.uint8)
    corners = checked_windows(windows, window, canvas)
    return _show(picture, canvas[..., None], corners, window, CYAN if outline else None)


def composite_numbers(
    canvas: npt.ArrayLike, windows: npt.ArrayLike, window: int = 64, outline: bool = False
) -> Pixels:
    """``composite_picture`` as numbers of colours: uint8 (H, W), indices into ``PALETTE``.

    Raises ValueError as it does.
    """
    canvas = checked_canvas(canvas)
    corners = checked_windows(windows, window, canvas)
    # 0 and 255 to 1 and 2; grey is 0 and cyan 3.
    return _show(
        np.zeros_like(canvas), (canvas & np.uint8(1)) + np.uint8(1), corners, window, 3 if outline else None
    )


def _show(
    picture: Pixels,
    revealed: Pixels,
    corners: list[tuple[int, int]],
    window: int,
    ring: int | tuple[int, int, int] | None,
) -> Pixels:
    """Write what the windows reveal into a picture, and then their outlines where ``ring`` is a colour."""
    for x, y in corners:
        inside = slice(y, y + window), slice(x, x + window)
        picture[inside] = revealed[inside]
    if ring is not None:
        for x, y in corners:
            _draw_outline(picture, x, y, window, ring)
    return picture


def _draw_outline(picture: Pixels, x: int, y: int, window: int, colour: int | tuple[int, int, int]) -> None:
    """Draw a ring from (x, y) to (x + window, y + window), both included, clipped at the borders."""
    rows, columns = slice(y, y + window + 1), slice(x, x + window + 1)
    for near in range(OUTLINE_WIDTH):
        far = window - near
        picture[y + near : y + near + 1, columns] = colour
        picture[y + far : y + far + 1, columns] = colour
        picture[rows, x + near : x + near + 1] = colour
        picture[rows, x + far : x + far + 1] = colour
