"""RAM as published (Mnih et al. 2014): a retina-like sensor that jumps anywhere over a grey picture.

Not an agent of MNIST-PRO: its pictures are the paper's own, and its moves are continuous. Names are the paper's:
glimpse sensor, glimpse network, core network, location network, action network, baseline.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn


def box_means(pictures: jax.Array, scales: int) -> jax.Array:
    """Means over boxes of 1, 2, 4, ... pixels a side at every offset that touches a picture: made once, seen often.

    pictures: float32 (B, S, S). Returns float32 (B, L): the scales one after the other, flattened; the boxes of side w
    start at -w, ..., S, so that the first and the last row and column are outside the picture, that is 0.
    """
    side = pictures.shape[1]
    means = []
    for scale in range(scales):
        width = 1 << scale
        count = side + width + 1
        # The barriers keep XLA from computing the padding anew in every term of the sums.
        padded = jax.lax.optimization_barrier(jnp.pad(pictures, ((0, 0), (width, width), (width, width))))
        rows = functools.reduce(jnp.add, [padded[:, at : at + count] for at in range(width)])
        rows = jax.lax.optimization_barrier(rows)
        boxes = functools.reduce(jnp.add, [rows[:, :, at : at + count] for at in range(width)])
        means.append((boxes / width**2).reshape(len(pictures), -1))
    return jnp.concatenate(means, axis=1)


def glimpse_sensor(means: jax.Array, location: jax.Array, side: int, size: int, scales: int) -> jax.Array:
    """The retina: ``scales`` square patches around a location, each twice as wide, all shown as size x size.

    means: of ``box_means``. location: float32 (B, 2), (x, y) of the centre in -1..1 (the picture's edges). side: of the
    pictures. Outside a picture is 0. Returns float32 (B, scales * size * size), finest first, row by row.
    """
    batch, length = means.shape
    centre = jnp.round((location + 1) / 2 * side).astype(jnp.int32)
    places = []
    first = jnp.arange(batch, dtype=jnp.int32)[:, None, None] * length
    for scale in range(scales):
        width = 1 << scale
        count = side + width + 1
        starts = centre[:, :, None] - size * width // 2 + jnp.arange(size, dtype=jnp.int32) * width
        at = jnp.clip(starts, -width, side) + width
        places.append((first + at[:, 1, :, None] * count + at[:, 0, None, :]).reshape(batch, -1))
        first = first + count**2
    # Without the barrier the places are computed for each element alone, several times slower.
    index = jax.lax.optimization_barrier(jnp.concatenate(places, axis=1))
    return means.reshape(-1).at[index].get(mode="promise_in_bounds")


class RecurrentAttentionModel(nn.Module):
    """One step of RAM. Sizes as in section 4 of the paper: 128 and 128 -> 256, a core of 256 rectified units.

    aims_by_sight: the location network reads the glimpse and its location beside the core, which is not in the paper:
    a core that is trained to name the digit forgets where it was.
    """

    num_classes: int = 10
    glimpse_hidden: int = 128
    location_hidden: int = 128
    core_size: int = 256
    aims_by_sight: bool = False

    @nn.compact
    def __call__(
        self, core: jax.Array, glimpse: jax.Array, location: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """(core (..., core_size), class logits (..., C), mean of the next location (..., 2), baseline (...)).

        core: float32 (..., core_size). glimpse: float32 (..., P), the sensor's patches flattened. location: float32
        (..., 2). The location network and the baseline see the core through a stopped gradient.
        """
        what = nn.relu(nn.Dense(self.glimpse_hidden, name="glimpse_hidden")(glimpse))
        where = nn.relu(nn.Dense(self.location_hidden, name="place_hidden")(location))
        seen = nn.relu(
            nn.Dense(self.core_size, name="glimpse_what")(what)
            + nn.Dense(self.core_size, name="glimpse_where")(where)
        )
        core = nn.relu(
            nn.Dense(self.core_size, name="core_core")(core)
            + nn.Dense(self.core_size, name="core_glimpse")(seen)
        )
        logits = nn.Dense(self.num_classes, name="action_network")(core)
        state = jax.lax.stop_gradient(core)
        sight = jnp.concatenate([state, glimpse, location], axis=-1) if self.aims_by_sight else state
        mean = nn.tanh(
            nn.Dense(2, name="location_network")(nn.relu(nn.Dense(128, name="location_hidden")(sight)))
        )
        baseline = nn.Dense(1, name="baseline")(state)[..., 0]
        return core, logits, mean, baseline
