"""The published picture in JAX: grey, the window's pixels, and the cyan outline (specification section 2).

``render`` draws the same pictures on the host for people; tests hold the two and Pillow equal.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax import bitmap

HIDDEN = 128  # grey, all channels
OUTLINE = (0, 229, 255)  # cyan
OUTLINE_WIDTH = 2
# The rectangle's far corner is inclusive, so that its far sides lie half outside the window: of the window's
# columns, two are hidden at the near side and one at the far side.
READABLE_LOW = OUTLINE_WIDTH
READABLE_HIGH = OUTLINE_WIDTH - 1


def drawn_rows(y: jax.Array, window: int, height: int) -> tuple[jax.Array, int]:
    """The rows that a window at ``y`` or its outline touches: (first, how many)."""
    count = min(window + 1, height)
    return jnp.minimum(y, height - count), count


def published_picture(
    rows: jax.Array, xy: jax.Array, window: int, height: int, width: int, outline: bool
) -> jax.Array:
    """The picture of one window, uint8 (height, width, 3).

    rows: the canvas's stroke bitmap in ``drawn_rows``, uint32 (ceil(width / 32), count). xy: int32 (2,), the
    window's corner.
    """
    first, count = drawn_rows(xy[1], window, height)
    # Drawn as rows of bytes, three to a pixel: loops over a last axis of three do not vectorise.
    y = jnp.arange(count, dtype=jnp.int32) + (first - xy[1])
    x = jnp.asarray(np.arange(3 * width, dtype=np.int32) // 3) - xy[0]
    white = ~_mask(_bytes(rows, width) != 0)
    in_rows, in_columns = (y >= 0) & (y < window), (x >= 0) & (x < window)
    hidden, side = jnp.uint8(HIDDEN), jnp.uint8(HIDDEN)
    if outline:
        cyan = jnp.asarray(np.tile(np.array(OUTLINE, np.uint8), width))
        side = jnp.where((x >= 0) & (x <= window), cyan, hidden)
        outer_rows = (y >= 0) & (y <= window)
        in_rows, in_columns = (
            (axis >= OUTLINE_WIDTH) & (axis <= window - OUTLINE_WIDTH) for axis in (y, x)
        )
        beside = jnp.where(outer_rows[:, None], side, hidden)
    else:
        beside = jnp.broadcast_to(hidden, (count, 3 * width))
    through = jnp.where(in_columns, jnp.uint8(0), side)
    drawn = jnp.where(in_rows[:, None], through | (white & _mask(in_columns)), beside)
    # One grey row more, which every row outside the drawn ones shows.
    drawn = jnp.concatenate([drawn, jnp.full((1, 3 * width), HIDDEN, jnp.uint8)])
    row = jnp.arange(height, dtype=jnp.int32) - first
    shown = jnp.where((row >= 0) & (row < count), row, count)
    return drawn[shown].reshape(height, width, 3)


def _mask(flags: jax.Array) -> jax.Array:
    return jnp.where(flags, jnp.uint8(255), jnp.uint8(0))


def _bytes(words: jax.Array, width: int) -> jax.Array:
    """Each pixel's bit three times, as non-zero bytes: uint8 (rows, 3 width)."""
    octets = jax.lax.bitcast_convert_type(words, jnp.uint8)  # (words, rows, 4)
    octets = jnp.swapaxes(octets, 0, 1).reshape(words.shape[1], -1)
    wide = jnp.broadcast_to(octets[:, :, None], (*octets.shape, 24)).reshape(octets.shape[0], -1)
    bits = np.tile(np.repeat(1 << np.arange(8), 3), octets.shape[1]).astype(np.uint8)
    return (wide & bits)[:, : 3 * width]
