"""Training pictures: the published strokes, revealed exactly."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.prefixes import Augmentation, augment, prefixes, revealed_by_walk
from mnistpro_jax import data
from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.reader import native_counts
from mnistpro_jax.env import bitmap
from mnistpro_jax.env.outline import READABLE_HIGH, READABLE_LOW

EVEN = np.full((28, 28), 1 / 784, np.float32)
unpack = jax.jit(bitmap.unpack, static_argnums=1)
altered = jax.jit(augment, static_argnums=2)


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    test = data.load("mnist", "test")
    return test.images[:64], test.labels[:64].astype(np.int32)


def test_whole_canvases_are_the_published_ones() -> None:
    images, labels = digits()
    shares, drawn = prefixes(
        jax.random.key(0), jnp.asarray(images), jnp.asarray(labels), EVEN, batch=16, whole=1.0
    )
    assert (shares.shape, shares.dtype, drawn.dtype) == ((16, 28, 28, 2), jnp.float32, jnp.int32)
    np.testing.assert_array_equal(shares[..., 1], 1)
    known = {counts.tobytes(): label for counts, label in zip(native_counts(images), labels, strict=True)}
    for strokes, label in zip(np.asarray(shares[..., 0]), np.asarray(drawn), strict=True):
        assert known[np.round(strokes * 64).astype(np.uint8).tobytes()] == label


@pytest.mark.parametrize("num_digits", [1, 2])
def test_strokes_are_revealed_strokes(num_digits: int) -> None:
    images, labels = digits()
    shares, _ = prefixes(
        jax.random.key(1),
        jnp.asarray(images),
        jnp.asarray(labels),
        EVEN,
        batch=32,
        num_digits=num_digits,
        how=Augmentation(),
        whole=0.0,
    )
    strokes, revealed = np.asarray(shares[..., 0]), np.asarray(shares[..., 1])
    assert (strokes >= 0).all()
    assert (strokes <= revealed).all()
    assert (revealed <= 1).all()
    seen = revealed.reshape(-1, num_digits * 784).mean(axis=1) * num_digits
    assert seen.min() > 0.05  # the first window at least, less its outline
    assert revealed.mean() < 0.6


def test_walks_reveal_their_windows() -> None:
    geometry = Geometry()
    walk = jax.jit(functools.partial(revealed_by_walk, longest=9, geometry=geometry))
    start = jnp.asarray([33, 120], jnp.int32)
    no = jnp.asarray(False)
    first = np.asarray(unpack(walk(jax.random.key(0), start, jnp.int32(0), no, EVEN), 224))
    want = np.zeros((224, 224), np.uint8)
    want[120 + READABLE_LOW : 184 - READABLE_HIGH, 33 + READABLE_LOW : 97 - READABLE_HIGH] = 1
    np.testing.assert_array_equal(first, want)
    for informed in (False, True):
        grown = [
            np.asarray(unpack(walk(jax.random.key(2), start, jnp.int32(n), jnp.asarray(informed), EVEN), 224))
            for n in range(10)
        ]
        assert all((after >= before).all() for before, after in itertools.pairwise(grown))
        assert grown[-1].sum() > 2 * grown[0].sum()


def test_informed_walks_see_more_of_what_matters() -> None:
    """And reach both digits of a wide canvas."""
    geometry = Geometry(width=448, num_digits=2)
    walk = functools.partial(revealed_by_walk, longest=20, geometry=geometry)
    many = jax.jit(jax.vmap(walk, in_axes=(0, None, None, None, None)))
    keys = jax.random.split(jax.random.key(0), 64)
    centre = np.zeros((28, 28), np.float32)
    centre[8:20, 8:20] = 1 / 144
    seen = {}
    for informed in (False, True):
        start, moves = jnp.asarray([40, 80], jnp.int32), jnp.int32(20)
        masks = np.asarray(many(keys, start, moves, jnp.asarray(informed), jnp.asarray(centre)))
        pixels = np.stack([np.asarray(unpack(mask, 448)) for mask in masks])
        native = pixels.reshape(64, 28, 8, 2, 28, 8).mean(axis=(2, 5))
        seen[informed] = np.einsum("krnc,rc->kn", native, centre)
    assert seen[True][:, 0].mean() > seen[False][:, 0].mean() + 0.1
    assert seen[True][:, 1].mean() > 0.5 > seen[False][:, 1].mean()


def test_augmentation_keeps_a_digit() -> None:
    images, _ = digits()
    still = Augmentation(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    np.testing.assert_array_equal(altered(jax.random.key(0), images[0], still), images[0])
    moved = altered(jax.random.key(0), images[0], Augmentation())
    assert moved.dtype == jnp.uint8
    assert 0.5 < np.asarray(moved).sum() / images[0].sum() < 2
    assert not np.array_equal(moved, images[0])
