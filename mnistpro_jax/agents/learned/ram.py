"""RAM as published (Mnih et al. 2014): a retina-like sensor that jumps anywhere over a grey picture.

Not an agent of MNIST-PRO: its pictures are the paper's own, and its moves are continuous. Names are the paper's:
glimpse sensor, glimpse network, core network, location network, action network, baseline.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn


def glimpse_sensor(picture: jax.Array, location: jax.Array, size: int, scales: int) -> jax.Array:
    """The retina: ``scales`` square patches around a location, each twice as wide, all shown as size x size.

    picture: float32 (H, W), 0..1. location: float32 (2,), (x, y) of the centre in -1..1 (the picture's edges).
    Outside the picture is 0. Returns float32 (scales, size, size), finest first.
    """
    height, width = picture.shape
    widest = size << (scales - 1)
    padded = jnp.pad(picture, widest)
    extent = jnp.asarray([width, height], jnp.float32)
    centre = jnp.round((location + 1) / 2 * extent).astype(jnp.int32)
    patches = []
    for scale in range(scales):
        side = size << scale
        corner = jnp.clip(centre - side // 2 + widest, 0, jnp.asarray([width, height]) + 2 * widest - side)
        patch = jax.lax.dynamic_slice(padded, (corner[1], corner[0]), (side, side))
        patches.append(patch.reshape(size, 1 << scale, size, 1 << scale).mean(axis=(1, 3)))
    return jnp.stack(patches)


class RecurrentAttentionModel(nn.Module):
    """One step of RAM. Sizes as in section 4 of the paper: 128 and 128 -> 256, a core of 256 rectified units."""

    num_classes: int = 10
    glimpse_hidden: int = 128
    location_hidden: int = 128
    core_size: int = 256

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
        mean = nn.tanh(
            nn.Dense(2, name="location_network")(nn.relu(nn.Dense(128, name="location_hidden")(state)))
        )
        baseline = nn.Dense(1, name="baseline")(state)[..., 0]
        return core, logits, mean, baseline
