"""The bits of ``jax.random.bits``, without the loop that JAX compiles for them on a CPU.

JAX's Threefry is a loop of five rounds of many small operations there. For the few bits that a reset draws in a
small batch, starting those operations costs far more than the arithmetic: a quarter of the whole simulation.
Written out they are one fused pass. The bits are the same, which a test holds.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mnistpro_jax.env.compile_hints import materialised, on_cpu

# Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", table 2 (Threefry-2x32) and section 3.2.
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_GROUPS = 5  # of four rounds, each followed by an injection of the key


def random_bits(key: jax.Array, count: int, one: jax.Array) -> jax.Array:
    """``jax.random.bits(key, (count,), jnp.uint32)``. one: see ``compile_hints.materialised``."""
    if not (on_cpu() and _is_partitionable_threefry(key)):
        return jax.random.bits(key, (count,), jnp.uint32)
    words = jax.random.key_data(key)
    counters = jnp.arange(count, dtype=jnp.uint32)

    def draw() -> jax.Array:
        first, second = threefry_2x32(words, jnp.zeros_like(counters), counters)
        return first ^ second

    return materialised(draw, one)


def threefry_2x32(key: jax.Array, first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The block cipher of 20 rounds: uint32 (2,) key and two uint32 counters of one shape."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    first, second = first + schedule[0], second + schedule[1]
    for group in range(_GROUPS):
        for rotation in _ROTATIONS[group % 2]:
            first = first + second
            second = (second << jnp.uint32(rotation)) | (second >> jnp.uint32(32 - rotation))
            second = first ^ second
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return first, second


def _is_partitionable_threefry(key: jax.Array) -> bool:
    """Whether bit number i is a function of the key and i in the way that is written out here."""
    if not jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        return False  # a raw key: its kind is a setting
    name = str(jax.random.key_impl(key))
    return name == "threefry2x32" and bool(jax.config.jax_threefry_partitionable)  # type: ignore[attr-defined]
