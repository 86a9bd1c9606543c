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


def published_picture(
    words: jax.Array, xy: jax.Array, window: int, height: int, width: int, outline: bool
) -> jax.Array:
    """The picture of one window, uint8 (height, width, 3).

    words: the canvas's stroke bitmap, uint32 (ceil(width / 32), height). xy: int32 (2,), the window's corner.
    """
    x, y = jnp.arange(width, dtype=jnp.int32) - xy[0], jnp.arange(height, dtype=jnp.int32) - xy[1]
    strokes = bitmap.unpack(words, width)
    columns, rows = (x >= 0) & (x < window), (y >= 0) & (y < window)
    shown = rows[:, None] & columns[None, :]
    grey = jnp.where(shown, (strokes - jnp.uint8(1)), jnp.uint8(HIDDEN))
    picture = jnp.broadcast_to(grey[..., None], (height, width, 3))
    if not outline:
        return picture
    outer = ((y >= 0) & (y <= window))[:, None] & ((x >= 0) & (x <= window))[None, :]
    inside = [(axis >= OUTLINE_WIDTH) & (axis <= window - OUTLINE_WIDTH) for axis in (y, x)]
    ring = outer & ~(inside[0][:, None] & inside[1][None, :])
    return jnp.where(ring[..., None], jnp.asarray(np.array(OUTLINE, np.uint8)), picture)
