"""The pictures that an agent is shown, as PNG files and data URLs."""

from __future__ import annotations

import base64
import hashlib
import io

import numpy as np
import numpy.typing as npt

from mnistpro_jax import render

Pixels = npt.NDArray[np.uint8]

_PALETTE = (render.GREY, (0, 0, 0), (255, 255, 255), render.CYAN)
_NUMBER = np.full(256, 255, np.uint8)
_NUMBER[[colour[1] for colour in _PALETTE]] = range(len(_PALETTE))


def glimpse_png(canvas: Pixels, xy: tuple[int, int], window: int, outline: bool, enlarge: int = 1) -> bytes:
    """The published picture of a window, as PNG (``render.published_picture``)."""
    return png(render.published_picture(canvas, np.asarray(xy), window, outline), enlarge)


def fused_png(canvas: Pixels, windows: list[tuple[int, int]], window: int, enlarge: int = 1) -> bytes:
    """The fused canvas of all windows so far, without outlines, as PNG (``render.composite_picture``)."""
    return png(render.composite_picture(canvas, np.asarray(windows).reshape(-1, 2), window), enlarge)


def full_png(canvas: Pixels, enlarge: int = 1) -> bytes:
    """The whole canvas, as PNG in colour like the others."""
    return png(np.repeat(canvas[..., None], 3, axis=-1), enlarge)


def png(pixels: Pixels, enlarge: int = 1) -> bytes:
    """uint8 (H, W, 3) in the four colours of the protocol as PNG, every pixel a square of ``enlarge`` pixels.

    Four colours make a palette: a fifth of the bytes and of the time of three channels, and the same picture.
    Raises ValueError for another colour.
    """
    from PIL import Image

    if enlarge < 1:
        raise ValueError(f"enlarge is {enlarge}; expected a whole factor, 1 or more")
    # The green channel alone tells the colours apart.
    numbers = _NUMBER[pixels[..., 1]]
    if numbers.max() >= len(_PALETTE):
        raise ValueError("a picture of the protocol holds grey, black, white and cyan alone")
    if enlarge > 1:
        numbers = numbers.repeat(enlarge, axis=0).repeat(enlarge, axis=1)
    image = Image.frombytes("P", numbers.shape[::-1], numbers.tobytes())
    image.putpalette([channel for colour in _PALETTE for channel in colour])
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def data_url(picture: bytes) -> str:
    """A PNG file as a data URL."""
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")


def name_of(picture: bytes) -> str:
    """The name of a picture in the folder of pictures: SHA-256 of the file, 64 hexadecimal digits."""
    return hashlib.sha256(picture).hexdigest()
