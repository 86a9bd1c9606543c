"""The exact pair canvas: what enlarging does where two digits touch.

Enlarging digits side by side mixes the last column of the left digit with the first column of the right one
over ``factor`` canvas columns around the border (the *seam*). Elsewhere the canvas of several digits is their
single canvases side by side, so a bank can hold single digits and draw any pair, given the seam's strip. A
strip depends on the two outer columns alone, and in MNIST almost every outer column is empty: all different
strips fit in a small table. Sources with ink at the edges (clothes, for example) compute the strip instead.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.env import bitmap, pipeline
from mnistpro_jax.env.types import pytree, static_field

TABLE_BYTES = 64 * 2**20  # a table larger than this is not built


def strip(left: jax.Array, right: jax.Array, factor: int) -> jax.Array:
    """Stroke bits of the seam between outer columns ``left`` and ``right``, uint8 (..., 28) each.

    Returns uint32 (..., 28 factor): bit k of a row is the canvas column k - factor / 2 from the border.
    """
    stroke = pipeline.strokes(jnp.stack([left, right], axis=-1), factor)
    return bitmap.pack(stroke[..., factor // 2 : factor // 2 + factor])[..., 0, :]


def _corrections(left: jax.Array, right: jax.Array, factor: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(strip, running count of strokes gained by row, strokes gained by the left and by the right digit)."""
    joint = strip(left, right, factor)
    half = jnp.uint32((1 << (factor // 2)) - 1)
    halves = (half, half << jnp.uint32(factor // 2))
    gained = [
        jax.lax.population_count(joint & mask).astype(jnp.int32)
        - jax.lax.population_count(strip(alone, alone, factor) & mask).astype(jnp.int32)
        for mask, alone in zip(halves, (left, right), strict=True)
    ]
    running = jnp.cumsum(gained[0] + gained[1], axis=-1, dtype=jnp.int32)
    return joint, running, jnp.stack([jnp.sum(part, axis=-1, dtype=jnp.int32) for part in gained], axis=-1)


@pytree
class SeamTable:
    """Strips of every pair of different outer columns.

    strips: (R, L, H), the narrowest unsigned type that holds ``factor`` bits. row_ends: int32 (R, L, H),
    strokes gained in the rows up to each one. gained: int32 (R, L, 2), by the left and the right digit.
    right_edge, left_edge: int32 (T,), number of the tile's last and first column in the table.
    """

    strips: jax.Array
    row_ends: jax.Array
    gained: jax.Array
    right_edge: jax.Array
    left_edge: jax.Array
    factor: int = static_field()

    def _at(self, left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array]:
        return self.right_edge[left], self.left_edge[right]

    def rows(self, left: jax.Array, right: jax.Array, y: jax.Array, height: int) -> jax.Array:
        """The strip between tiles ``left`` and ``right`` in rows y to y + height: uint32 (height,)."""
        first, second = self._at(left, right)
        cut = jax.lax.dynamic_slice(self.strips, (first, second, y), (1, 1, height))
        return cut[0, 0].astype(jnp.uint32)

    def counts(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """Strokes that the seam adds in rows 0 to y, for every y: int32 (H,)."""
        return self.row_ends[self._at(left, right)]

    def stroke_gain(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """Strokes that the left and the right digit gain, int32 (2,)."""
        return self.gained[self._at(left, right)]


@pytree
class SeamEdges:
    """Outer columns of every tile, from which strips are computed when needed.

    right_edge, left_edge: uint8 (T, 28), ink of the tile's last and first native column.
    """

    right_edge: jax.Array
    left_edge: jax.Array
    factor: int = static_field()

    def _at(self, left: jax.Array, right: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        return _corrections(self.right_edge[left], self.left_edge[right], self.factor)

    def rows(self, left: jax.Array, right: jax.Array, y: jax.Array, height: int) -> jax.Array:
        """As ``SeamTable.rows``."""
        joint = strip(self.right_edge[left], self.left_edge[right], self.factor)
        return jax.lax.dynamic_slice_in_dim(joint, y, height)

    def counts(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """As ``SeamTable.counts``."""
        return self._at(left, right)[1]

    def stroke_gain(self, left: jax.Array, right: jax.Array) -> jax.Array:
        """As ``SeamTable.stroke_gain``."""
        return self._at(left, right)[2]


def seams(images: NDArray[np.uint8], factor: int, table_bytes: int = TABLE_BYTES) -> SeamTable | SeamEdges:
    """Seams for tiles made of uint8 (T, 28, 28) ``images``: a table where it fits in ``table_bytes``."""
    right, right_edge = np.unique(images[:, :, -1], axis=0, return_inverse=True)
    left, left_edge = np.unique(images[:, :, 0], axis=0, return_inverse=True)
    narrow = jnp.uint8 if factor <= 8 else jnp.uint16 if factor <= 16 else jnp.uint32
    row_bytes = jnp.dtype(narrow).itemsize + 4
    if len(right) * len(left) * pipeline.NATIVE * factor * row_bytes > table_bytes:
        return SeamEdges(jnp.asarray(images[:, :, -1]), jnp.asarray(images[:, :, 0]), factor)
    pairs = (jnp.asarray(right)[:, None], jnp.asarray(left)[None, :])
    shape = (len(right), len(left), pipeline.NATIVE)
    grids = [jnp.broadcast_to(edges, shape) for edges in pairs]
    strips, row_ends, gained = jax.jit(_corrections, static_argnums=2)(*grids, factor)
    return SeamTable(
        strips.astype(narrow),
        row_ends,
        gained,
        jnp.asarray(right_edge.reshape(-1), jnp.int32),
        jnp.asarray(left_edge.reshape(-1), jnp.int32),
        factor,
    )
