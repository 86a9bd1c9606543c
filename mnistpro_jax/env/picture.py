"""The published picture in JAX: grey, the window's pixels, and the cyan outline (arXiv 2608.31022).

``render`` draws the same pictures on the host for people; tests hold the two and Pillow equal.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.env.compile_hints import materialised
from mnistpro_jax.env.outline import OUTLINE_WIDTH

HIDDEN = 128  # grey, all channels
OUTLINE = (0, 229, 255)  # cyan


def drawn_rows(y: jax.Array, window: int, height: int) -> tuple[jax.Array, int]:
    """The rows that a window at ``y`` or its outline touches: (first, how many)."""
    count = min(window + 1, height)
    return jnp.minimum(y, height - count), count


def published_picture(
    rows: jax.Array, xy: jax.Array, window: int, height: int, width: int, outline: bool, one: jax.Array
) -> jax.Array:
    """The picture of one window, uint8 (height, width, 3).

    rows: the canvas's stroke bitmap in ``drawn_rows``, uint32 (ceil(width / 32), count). xy: int32 (2,), the
    window's corner. one: see ``compile_hints.materialised``.
    """
    count = drawn_rows(xy[1], window, height)[1]

    # Drawn as rows of bytes, three to a pixel: loops over a last axis of three do not vectorise. What all
    # pixels of a row or a column share is made first.
    def parts() -> tuple[jax.Array, ...]:
        first = drawn_rows(xy[1], window, height)[0]
        y = jnp.arange(count, dtype=jnp.int32) + (first - xy[1])
        x = jnp.asarray(np.arange(3 * width, dtype=np.int32) // 3) - xy[0]
        low, high = (OUTLINE_WIDTH, window - OUTLINE_WIDTH) if outline else (0, window - 1)
        in_rows, in_columns = ((axis >= low) & (axis <= high) for axis in (y, x))
        if outline:
            cyan = jnp.asarray(np.tile(np.array(OUTLINE, np.uint8), width))
            beside = jnp.where((x >= 0) & (x <= window), cyan, jnp.uint8(HIDDEN))
            outer_rows = (y >= 0) & (y <= window)
        else:
            beside = jnp.full((3 * width,), HIDDEN, jnp.uint8)
            outer_rows = jnp.zeros((count,), jnp.bool_)
        row = jnp.arange(height, dtype=jnp.int32) - first
        shown = jnp.where((row >= 0) & (row < count), row, count)
        return _octets(rows), beside, _mask(in_columns), _mask(in_rows), _mask(outer_rows), shown

    octets, beside, in_columns, in_rows, outer_rows, shown = materialised(parts, one)
    wide = jnp.broadcast_to(octets[:, :, None], (*octets.shape, 24)).reshape(count, -1)[:, : 3 * width]
    bits = np.tile(np.repeat(1 << np.arange(8), 3), octets.shape[1]).astype(np.uint8)[: 3 * width]
    white = ~_mask((wide & bits[None, :]) != 0)
    through = (beside & ~in_columns)[None, :] | (white & in_columns[None, :])
    outer = jnp.where(outer_rows[:, None] != 0, beside[None, :], jnp.uint8(HIDDEN))
    drawn = jnp.where(in_rows[:, None] != 0, through, outer)
    # One grey row more, which every row outside the drawn ones shows.
    drawn = jnp.concatenate([drawn, jnp.full((1, 3 * width), HIDDEN, jnp.uint8)])
    return drawn[shown].reshape(height, width, 3)


def _mask(flags: jax.Array) -> jax.Array:
    return jnp.where(flags, jnp.uint8(255), jnp.uint8(0))


def _octets(words: jax.Array) -> jax.Array:
    """Eight pixels a byte, uint8 (rows, 4 words)."""
    octets = jax.lax.bitcast_convert_type(words, jnp.uint8)  # (words, rows, 4)
    return jnp.swapaxes(octets, 0, 1).reshape(words.shape[1], -1)
