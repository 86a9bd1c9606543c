"""Arithmetic that choices hang on, the same to the last bit on every machine.

A sum of floats depends on its order, and ``exp``, ``log`` and ``pow`` on the library and the instruction set; a choice
between two nearly equal values then differs from one machine to the next. Here are whole numbers instead. A float32
product or sum of whole numbers is exact in any order, with or without fused multiply-add, as long as no partial sum
passes 2 ** 24 (``EXACT``): matrix products stay fast. Whoever multiplies states why the bound holds.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.env.bank import scale

EXACT = 1 << 24  # float32 holds every whole number up to here
RATE_BITS = 12  # fraction bits of a rate: halvings of a weight per nat
_FRACTION = 15  # bits of the exponent's fraction that the polynomial sees
_COEFFICIENTS = (45340, 15200, 2632)  # 1 - 2 ** -f as c1 f - c2 f^2 + c3 f^3, in 2 ** -16; within 1e-4 of it


def product(subscripts: str, *operands: jax.Array) -> jax.Array:
    """``einsum`` of whole numbers of any dtype in float32: exact where the caller's bound holds."""
    floats = [operand.astype(jnp.float32) for operand in operands]
    # An accelerator's faster precisions would round the operands.
    made: jax.Array = jnp.einsum(subscripts, *floats, precision=jax.lax.Precision.HIGHEST)
    return made


def whole(floats: jax.Array) -> jax.Array:
    """Floats that hold whole numbers as int32."""
    return floats.astype(jnp.int32)


def halved(distance: jax.Array, rate: jax.Array, fraction_bits: int, bits: int) -> jax.Array:
    """2 ** (bits - distance * rate / 2 ** fraction_bits), rounded: int32, 0..2 ** bits.

    distance: int32, 0 or more. rate: int32, 1 to 2 ** (fraction_bits - 1). fraction_bits: static, 15 or more, with
    (bits + 2) << fraction_bits below 2 ** 31. bits: static, 1 to 22. The relative error is at most 2.5e-4; that of
    rounding, half a unit, comes on top.
    """
    # From half a halving before this on the weight rounds to nothing, so that it does not matter where exactly
    # distances are cut. In floats, because processors cannot divide many whole numbers at once.
    last = (bits + 2) << fraction_bits
    limit = (jnp.float32(last) / rate.astype(jnp.float32)).astype(jnp.int32)
    exponent = jnp.minimum(distance, limit) * rate
    whole_part = exponent >> fraction_bits
    fraction = (exponent >> (fraction_bits - _FRACTION)) & ((1 << _FRACTION) - 1)
    first, second, third = (jnp.int32(c) for c in _COEFFICIENTS)
    inner = second - ((third * fraction) >> _FRACTION)
    drop = ((first - ((inner * fraction) >> _FRACTION)) * fraction) >> _FRACTION  # in 2 ** -16
    drop = drop << (bits - 16) if bits >= 16 else drop >> (16 - bits)
    top = jnp.int32(1 << bits) - drop
    half = (jnp.int32(1) << whole_part) >> 1
    return (top + half) >> whole_part


@functools.cache
def log_table(size: int) -> tuple[NDArray[np.int32], int]:
    """(n * log2(n) for n of 0..size in fixed point, its fraction bits): int32 (size + 1,)."""
    largest = size * math.log2(max(size, 2))
    bits = min(12, 30 - math.ceil(math.log2(largest)))
    numbers = np.arange(size + 1, dtype=np.float64)
    return np.rint(numbers * np.log2(np.maximum(numbers, 1)) * 2.0**bits).astype(np.int32), bits


def draw(key: jax.Array, limit: Any) -> jax.Array:
    """A whole number in [0, limit), int32 (): from 32 random bits, so that the bias is at most limit / 2 ** 32."""
    return scale(jax.random.bits(key, (), jnp.uint32), jnp.asarray(limit, jnp.int32))


def on_grid(floats: jax.Array, bits: int) -> jax.Array:
    """floor(floats * 2 ** bits), int32: a power of two multiplies without rounding."""
    return jnp.floor(floats * jnp.float32(1 << bits)).astype(jnp.int32)


def powers(base: jax.Array, count: int) -> jax.Array:
    """base ** 0, ..., base ** (count - 1), float32 (count,), by one multiplication each: ``pow`` is approximate."""
    made = [jnp.ones((), jnp.float32)]
    while len(made) < count:
        made.append(made[-1] * base)
    return jnp.stack(made[:count])
