"""Banks made anew in every update, of augmented digits, so that a policy sees no canvas twice."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp

from baselines.prefixes import Augmentation, augment
from mnistpro_jax.env import bitmap, pipeline
from mnistpro_jax.env.bank import Bank, block_ends

_FACTOR = 8


def augmented_bank(
    key: jax.Array, images: jax.Array, labels: jax.Array, count: int, level: int, how: Augmentation | None
) -> Bank:
    """A bank of ``count`` random digits, each mapped at random; scenes of ``level`` of them, without seams.

    images: uint8 (N, 28, 28). labels: int32 (N,). Without seams the strokes of touching digits do not join: at most
    eight columns of the canvas differ from the exact one.
    """
    pick_key, augment_key = jax.random.split(key)
    chosen = jax.random.randint(pick_key, (count,), 0, images.shape[0], jnp.int32)
    digits = images[chosen]
    if how is not None:
        keys = jax.random.split(augment_key, count)
        digits = jax.vmap(functools.partial(augment, how=how))(keys, digits)
    words = pipeline.packed_strokes(digits, _FACTOR)
    row_ends = jnp.cumsum(bitmap.popcount(words, axis=1), axis=-1, dtype=jnp.int32)
    return Bank(
        tiles=jnp.pad(words, ((0, 0), (0, 1), (0, 0))),
        row_ends=row_ends,
        block_ends=block_ends(row_ends),
        stroke_totals=row_ends[:, -1:],
        answers=labels[chosen][:, None].astype(jnp.int32),
        indices=chosen[:, None],
        seams=None,
        episodes=None,
        tile_width=pipeline.NATIVE * _FACTOR,
        tiles_per_scene=level,
        num_classes=10,
        native_factor=_FACTOR,
    )
