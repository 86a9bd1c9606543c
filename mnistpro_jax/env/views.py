"""What an observation shows, by mode: the window, or all that was seen. ``picture`` draws the published one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.env import bitmap, spaces
from mnistpro_jax.env.outline import READABLE_HIGH, READABLE_LOW
from mnistpro_jax.env.types import FusedCanvas

OBSERVATIONS = {
    "packed": "the window, one bit a pixel: uint32 (ceil(window / 32), window), 1 = stroke (see bitmap)",
    "glimpse": "the window: uint8 (window, window), 1 = stroke",
    "canvas": "FusedCanvas at native resolution: uint8 (28, 28 n) counts of pixels per native cell",
    "canvas_full": "FusedCanvas at full resolution: uint8 (height, width), 0 or 1",
    "published": "the published picture: uint8 (height, width, 3), grey outside the window",
}


def ring(window: int, outline: bool) -> tuple[int, int]:
    """Pixels at the near and at the far sides of a window that the outline hides."""
    if not outline:
        return 0, 0
    if window < READABLE_LOW + READABLE_HIGH + 1:
        return window, 0  # nothing of so small a window is readable
    return READABLE_LOW, READABLE_HIGH


def space(observation: str, height: int, width: int, window: int, native_factor: int) -> Any:
    """The space of ``Observation.view`` in a mode of ``OBSERVATIONS``."""
    if observation == "packed":
        return spaces.Box(0, 2**32 - 1, (bitmap.num_words(window), window), jnp.uint32)
    if observation == "glimpse":
        return spaces.Box(0, 1, (window, window), jnp.uint8)
    if observation == "published":
        return spaces.Box(0, 255, (height, width, 3), jnp.uint8)
    factor = native_factor if observation == "canvas" else 1
    box = spaces.Box(0, factor**2, (height // factor, width // factor), jnp.uint8)
    return spaces.Tree(FusedCanvas, (("stroke", box), ("revealed", box)))


def window(words: jax.Array, size: int, outline: bool, *, packed: bool) -> jax.Array:
    """A window's bitmap, uint32 (ceil(size / 32), size), as it is shown: packed, or uint8 (size, size), 1 = stroke."""
    if outline:
        low, high = ring(size, outline)
        readable = np.zeros((size, size), np.bool_)
        readable[low : size - high, low : size - high] = True
        words = words & bitmap.pack_constant(readable)
    return words if packed else bitmap.unpack(words, size)


def fused_canvas(canvas: jax.Array, seen: jax.Array, width: int, factor: int) -> FusedCanvas:
    """All that was seen, per ``factor`` x ``factor`` cell. canvas, seen: bitmaps uint32 (words, height)."""

    def cells(words: jax.Array) -> jax.Array:
        return bitmap.unpack(words, width) if factor == 1 else bitmap.pool(words, width, factor)

    return FusedCanvas(cells(canvas & seen), cells(seen))
