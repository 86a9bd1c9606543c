"""The whole-number arithmetic against slow references in Python's integers and float64."""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.agents import exact
from mnistpro_jax.agents.likelihood import FLOOR, PER_NAT
from mnistpro_jax.agents.reader import TEMPERATURE, TEMPERATURE_EXPONENT


@pytest.mark.parametrize(("fraction_bits", "bits"), [(26, 22), (26, 12), (24, 10)])
def test_halved_is_a_power_of_two(fraction_bits: int, bits: int) -> None:
    rng = np.random.default_rng(0)
    distance = np.r_[0, 1, rng.integers(0, 1 << 25, 20_000)].astype(np.int32)
    rate = np.r_[1, 1, rng.integers(1, 1 << rng.integers(1, 17, 20_000))].astype(np.int32)
    halve = jax.jit(exact.halved, static_argnums=(2, 3))
    got = np.asarray(halve(jnp.asarray(distance), jnp.asarray(rate), fraction_bits, bits))
    true = 2.0 ** (bits - distance.astype(np.float64) * rate / 2.0**fraction_bits)
    assert (np.abs(got - true) <= 2.5e-4 * true + 1.01).all() and got[0] == 1 << bits
    far = np.asarray(distance, np.float64) * rate / 2.0**fraction_bits > bits + 1.6
    assert far.any() and not got[far].any()


def reference(distance: int, rate: int, fraction_bits: int, bits: int) -> int:
    """``halved`` in Python's unbounded integers: a wrapped product would differ."""
    exponent = min(distance, ((bits + 2) << fraction_bits) // rate) * rate
    fraction = (exponent >> (fraction_bits - 15)) & 0x7FFF
    drop = ((45340 - ((15200 - ((2632 * fraction) >> 15)) * fraction >> 15)) * fraction) >> 15
    top = (1 << bits) - (drop << (bits - 16) if bits >= 16 else drop >> (16 - bits))
    return (top + ((1 << (exponent >> fraction_bits)) >> 1)) >> (exponent >> fraction_bits)


def test_halved_never_wraps() -> None:
    rng = np.random.default_rng(1)
    cases = [
        (int(d), int(r))
        for d, r in zip(rng.integers(0, 1 << 25, 500), rng.integers(1, 1 << 17, 500), strict=True)
    ]
    cases += [((1 << 31) - 1, 1), ((1 << 31) - 1, 1 << 17), (0, 1 << 17)]
    distance, rate = (jnp.asarray(column, jnp.int32) for column in zip(*cases, strict=True))
    got = jax.jit(exact.halved, static_argnums=(2, 3))(distance, rate, 26, 22)
    assert got.tolist() == [reference(d, r, 26, 22) for d, r in cases]


@pytest.mark.parametrize("size", [1, 64, 1 << 14, 1 << 16])
def test_logs(size: int) -> None:
    table, bits = exact.log_table(size)
    assert table.dtype == np.int32 and len(table) == size + 1 and table.min() == 0
    for number in {1, size // 2, size // 3, size} - {0}:
        assert abs(table[number] - number * math.log2(number) * 2**bits) <= 0.5


def test_draws_are_uniform() -> None:
    draw = jax.jit(jax.vmap(exact.draw, in_axes=(0, None)))
    counts = np.bincount(draw(jax.random.split(jax.random.key(0), 6000), jnp.int32(3)), minlength=3)
    np.testing.assert_allclose(counts / 6000, 1 / 3, atol=0.03)


def test_powers_are_products_from_left_to_right() -> None:
    base = np.float32(0.7)
    expected = functools.reduce(
        lambda made, _: [*made, np.float32(made[-1] * base)], range(11), [np.float32(1)]
    )
    np.testing.assert_array_equal(exact.powers(jnp.asarray(base), 12), expected)


def test_products_of_whole_numbers_are_exact() -> None:
    rng = np.random.default_rng(2)
    left, right = rng.integers(-64, 65, (7, 3000)), rng.integers(-80, 80, (3000, 5))
    got = exact.product("ab,bc->ac", jnp.asarray(left, jnp.int32), jnp.asarray(right, jnp.int32))
    np.testing.assert_array_equal(np.asarray(got, np.int64), left @ right)


def test_tables_are_far_from_the_middle_between_whole_numbers() -> None:
    """Logarithms and powers of another library differ in the last bit: it cannot round them to other whole numbers."""
    share = [FLOOR + (1 - 2 * FLOOR) * level / 1024 for level in range(1025)]
    unrounded = [per_nat * (math.log(p) - math.log1p(-p)) for p in share for per_nat in (PER_NAT, 128)]
    unrounded += [per_nat * math.log1p(-p) for p in share for per_nat in (PER_NAT, 128)]
    table, bits = exact.log_table(1 << 14)
    unrounded += [number * math.log2(number) * 2**bits for number in range(1, len(table))]
    seen = (np.arange(4097) + 0.5) / 4096
    unrounded += list(TEMPERATURE / math.log(2) * np.maximum(seen, 0.02) ** -TEMPERATURE_EXPONENT * 4096)
    apart = np.abs(np.modf(np.abs(unrounded))[0] - 0.5)
    assert apart.min() > 1e-8
