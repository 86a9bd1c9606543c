"""The pictures that an agent is shown, as PNG files and data URLs."""

from __future__ import annotations

import base64
import io

import numpy as np
import numpy.typing as npt

from mnistpro_jax.render.published import PALETTE, composite_numbers

Pixels = npt.NDArray[np.uint8]


def glimpse_png(canvas: Pixels, xy: tuple[int, int], window: int, outline: bool, enlarge: int = 1) -> bytes:
    """The published picture of a window, as PNG (``render.published.published_picture``)."""
    return png(composite_numbers(canvas, np.asarray(xy)[None], window, outline), enlarge)


def fused_png(canvas: Pixels, windows: list[tuple[int, int]], window: int, enlarge: int = 1) -> bytes:
    """The fused canvas of all windows so far, without outlines, as PNG (``render.published.composite_picture``)."""
    return png(composite_numbers(canvas, windows, window), enlarge)


def full_png(canvas: Pixels, enlarge: int = 1) -> bytes:
    """The whole canvas, as PNG in colour like the others."""
    return png(np.where(canvas == 0, np.uint8(1), np.uint8(2)), enlarge)


def png(numbers: Pixels, enlarge: int = 1) -> bytes:
    """Numbers of ``render.published.PALETTE``, uint8 (H, W), as PNG: every pixel a square of ``enlarge`` pixels.

    A file of four colours has a fifth of the bytes of one of three channels, takes a fifth of the time, and shows the
    same picture. Raises ValueError for another number.
    """
    from PIL import Image

    if enlarge < 1:
        raise ValueError(f"enlarge is {enlarge}; expected a whole factor, 1 or more")
    if numbers.max() >= len(PALETTE):
        raise ValueError("a picture of the protocol holds grey, black, white and cyan alone")
    if enlarge > 1:
        numbers = numbers.repeat(enlarge, axis=0).repeat(enlarge, axis=1)
    image = Image.frombytes("P", numbers.shape[::-1], numbers.tobytes())
    image.putpalette([channel for colour in PALETTE for channel in colour])
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def data_url(picture: bytes) -> str:
    """A PNG file as a data URL."""
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")
