"""The written-out Threefry draws the bits that ``jax.random`` draws."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.env.random_bits import random_bits, threefry_2x32

ONE = jnp.int32(1)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_bits_are_those_of_jax(count: int) -> None:
    for seed in (0, 1, 2**31 - 1):
        key = jax.random.fold_in(jax.random.key(seed), 5)
        np.testing.assert_array_equal(
            random_bits(key, count, ONE), jax.random.bits(key, (count,), jnp.uint32)
        )


def test_bits_under_jit_and_vmap() -> None:
    keys = jax.random.split(jax.random.key(3), 9)
    drawn = jax.jit(jax.vmap(lambda key: random_bits(key, 2, ONE)))(keys)
    np.testing.assert_array_equal(drawn, jax.vmap(lambda key: jax.random.bits(key, (2,), jnp.uint32))(keys))
    assert drawn.dtype == jnp.uint32


@pytest.mark.parametrize("implementation", ["rbg", "unsafe_rbg"])
def test_other_keys_are_left_to_jax(implementation: str) -> None:
    key = jax.random.key(4, impl=implementation)
    np.testing.assert_array_equal(random_bits(key, 3, ONE), jax.random.bits(key, (3,), jnp.uint32))


def test_raw_keys_are_left_to_jax() -> None:
    key = jax.random.PRNGKey(4)
    np.testing.assert_array_equal(random_bits(key, 3, ONE), jax.random.bits(key, (3,), jnp.uint32))


def test_published_vectors() -> None:
    """Known answers that the authors' library, Random123, tests Threefry-2x32 (20 rounds) with."""
    for key, counter, expected in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        words = threefry_2x32(jnp.asarray(key, jnp.uint32), *(jnp.uint32(word) for word in counter))
        assert tuple(int(word) for word in words) == expected
