"""Compile hints change where work is done, never its results."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from mnistpro_jax.env.compile_hints import materialised, where_needed
from tests.episodes import assert_trees_equal

# ---- where_needed ---------------------------------------------------------------------------------------------


def compute(arguments: Any, shared: Any) -> Any:
    """Draws, gathers and a typed key: what a reset is made of. Arguments: (key, int32 ())."""
    key, number = arguments
    table, offset = shared
    drawn = (jax.random.bits(key, (3,), jnp.uint32) >> jnp.uint32(8)).astype(jnp.int32)
    return {
        "drawn": drawn + table[number] + offset,
        "key": key,
        "flag": number % 2 == 0,
        "row": (table.astype(jnp.uint8)[:4], jnp.float32(0.5) * drawn[0].astype(jnp.float32)),
    }


def batch(size: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """(arguments, otherwise, shared): a batch of ``size``, and what is not batched."""
    rng = np.random.default_rng(seed)
    keys = jax.random.split(jax.random.key(seed), size)
    arguments = (keys, jnp.asarray(rng.integers(10, size=size), jnp.int32))
    otherwise = {
        "drawn": jnp.asarray(rng.integers(-9, 0, size=(size, 3)), jnp.int32),
        "key": jax.random.split(jax.random.key(seed + 1), size),
        "flag": jnp.asarray(rng.random(size) < 0.5),
        "row": (
            jnp.asarray(rng.integers(200, 256, size=(size, 4)), jnp.uint8),
            jnp.asarray(rng.random(size), jnp.float32),
        ),
    }
    return arguments, otherwise, (jnp.arange(10, 20, dtype=jnp.int32), jnp.int32(7))


def hinted(needed: Any, arguments: Any, otherwise: Any, shared: Any) -> Any:
    return where_needed(needed, compute, arguments, otherwise, shared)


def plain(needed: Any, arguments: Any, otherwise: Any, shared: Any) -> Any:
    return jax.tree.map(lambda new, old: jnp.where(needed, new, old), compute(arguments, shared), otherwise)


def data_of(tree: Any) -> Any:
    """Keys as their words, so that NumPy can compare them."""
    is_key = lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)  # noqa: E731
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if is_key(leaf) else leaf, tree)


def assert_same_results(needed: Any, arguments: Any, otherwise: Any, shared: Any, axes: Any) -> None:
    have = _mapped(hinted, axes)(needed, arguments, otherwise, shared)
    want = _mapped(plain, axes)(needed, arguments, otherwise, shared)
    assert jax.tree.map(lambda leaf: leaf.dtype, have) == jax.tree.map(lambda leaf: leaf.dtype, want)
    assert_trees_equal(data_of(have), data_of(want))


_programs: dict[Any, Any] = {}


def _mapped(function: Any, axes: Any) -> Any:
    """``jit(vmap(function))``, made once for each, so that masks of one size share a program."""
    return _programs.setdefault((function, axes), jax.jit(jax.vmap(function, in_axes=axes)))


ALL_BATCHED = (0, 0, 0, None)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 64, 65, 1000])
def test_random_masks(size: int) -> None:
    """Sizes around the edges of the batches that lanes are gathered into: 8 up to 64 lanes, a 32nd beyond."""
    rng = np.random.default_rng(size)
    arguments, otherwise, shared = batch(size)
    masks: list[NDArray[np.bool_]] = [np.zeros(size, bool), np.ones(size, bool)]
    masks += [rng.random(size) < density for density in (0.01, 0.1, 0.3, 0.5, 0.9) for _ in range(3)]
    for count in {1, 7, 8, 9, 16, 17, 31, 32, size - 1} - set(range(size, 40)) - {0}:
        masks.append(rng.permutation(np.arange(size) < count))
        masks += [np.arange(size) < count, np.arange(size) >= size - count]
    for mask in masks:
        assert_same_results(jnp.asarray(mask), arguments, otherwise, shared, ALL_BATCHED)


def test_every_mask_of_seven() -> None:
    arguments, otherwise, shared = batch(7)
    for mask in itertools.product([False, True], repeat=7):
        assert_same_results(jnp.asarray(mask), arguments, otherwise, shared, ALL_BATCHED)


@pytest.mark.parametrize("flag", [False, True])
def test_one_flag_without_vmap(flag: bool) -> None:
    arguments, otherwise, shared = jax.tree.map(lambda leaf: leaf[0], batch(1)[:2]) + (batch(1)[2],)
    have = jax.jit(hinted)(jnp.asarray(flag), arguments, otherwise, shared)
    want = plain(jnp.asarray(flag), arguments, otherwise, shared)
    assert_trees_equal(data_of(have), data_of(want))
    assert_trees_equal(data_of(hinted(jnp.asarray(flag), arguments, otherwise, shared)), data_of(want))


FIRST = (0, None)  # the key is batched, the number is not
AXES = {
    "one flag for all": (None, 0, 0, None),
    "arguments not batched": (0, None, 0, None),
    "otherwise not batched": (0, 0, None, None),
    "flags alone": (0, None, None, None),
    "arguments partly batched": (0, FIRST, 0, None),
    "shared batched": (0, 0, 0, 0),
    "shared partly batched": (0, 0, 0, (None, 0)),
    "one flag, shared batched": (None, 0, 0, (0, None)),
    "flags on another axis": (0, (0, 0), {"drawn": 1, "key": 0, "flag": 0, "row": (1, 0)}, None),
}


@pytest.mark.parametrize("case", AXES)
def test_batched_and_unbatched_arguments(case: str) -> None:
    size = 20
    arguments, otherwise, shared = batch(size)
    axes = AXES[case]
    first = lambda leaf: leaf[0]  # noqa: E731
    needed = jnp.asarray(np.random.default_rng(1).random(size) < 0.4)
    needed = jnp.asarray(True) if axes[0] is None else needed
    if axes[1] is None:
        arguments = jax.tree.map(first, arguments)
    if axes[1] == FIRST:
        arguments = (arguments[0], arguments[1][0])
    if axes[2] is None:
        otherwise = jax.tree.map(first, otherwise)
    if isinstance(axes[2], dict):
        otherwise = otherwise | {
            "drawn": otherwise["drawn"].T,
            "row": (otherwise["row"][0].T, otherwise["row"][1]),
        }
    tables = shared[0] + jnp.arange(size, dtype=jnp.int32)[:, None]
    offsets = shared[1] + jnp.arange(size, dtype=jnp.int32)
    shared_axes = axes[3] if isinstance(axes[3], tuple) else (axes[3], axes[3])
    shared = tuple(
        many if axis == 0 else one
        for axis, many, one in zip(shared_axes, (tables, offsets), shared, strict=True)
    )
    mapped = [jax.jit(jax.vmap(function, in_axes=axes)) for function in (hinted, plain)]
    have, want = (program(needed, arguments, otherwise, shared) for program in mapped)
    assert_trees_equal(data_of(have), data_of(want))


@pytest.mark.parametrize("inner", [3, 70])
def test_nested_vmap(inner: int) -> None:
    """A grid of lanes, and rows that need different numbers of batches: none, one, all."""
    rows = 4
    arguments, otherwise, shared = batch(rows * inner)
    grid = jax.tree.map(lambda leaf: leaf.reshape(rows, inner, *leaf.shape[1:]), (arguments, otherwise))
    density = np.array([0.0, 0.2, 0.6, 1.0])[:, None]
    needed = jnp.asarray(np.random.default_rng(0).random((rows, inner)) < density)
    have, want = (
        jax.jit(jax.vmap(jax.vmap(function, ALL_BATCHED), ALL_BATCHED))(needed, *grid, shared)
        for function in (hinted, plain)
    )
    assert_trees_equal(data_of(have), data_of(want))


def test_nested_vmap_over_shared_values() -> None:
    """Params swept outside, lanes inside: shared for a row, different between rows."""
    size = 20
    arguments, otherwise, (table, _) = batch(size)
    needed = jnp.asarray(np.random.default_rng(2).random(size) < 0.4)
    offsets = jnp.asarray([1, 20, 300], jnp.int32)
    have, want = (
        jax.jit(
            jax.vmap(
                lambda offset, function=function: jax.vmap(function, ALL_BATCHED)(
                    needed, arguments, otherwise, (table, offset)
                )
            )
        )(offsets)
        for function in (hinted, plain)
    )
    assert_trees_equal(data_of(have), data_of(want))


def test_inside_scan_and_cond() -> None:
    size, turns = 12, 9
    arguments, otherwise, shared = batch(size)
    masks = jnp.asarray(np.random.default_rng(3).random((turns, size)) < 0.3)

    def run(function: Any) -> Any:
        def body(carry: Any, mask: jax.Array) -> Any:
            step = jax.vmap(function, ALL_BATCHED)
            after = jax.lax.cond(
                jnp.any(mask), lambda: step(mask, (carry["key"], arguments[1]), carry, shared), lambda: carry
            )
            return after, after["drawn"]

        return jax.jit(lambda carry: jax.lax.scan(body, carry, masks))(otherwise)

    assert_trees_equal(data_of(run(hinted)), data_of(run(plain)))


def test_nothing_shared() -> None:
    size = 11
    needed = jnp.arange(size) % 3 == 0
    values = jnp.arange(size, dtype=jnp.float32)
    result = jax.vmap(lambda n, v: where_needed(n, lambda v, _: 2 * v, v, -v, ()))(needed, values)
    np.testing.assert_array_equal(result, np.where(needed, 2 * values, -values))


# ---- materialised ---------------------------------------------------------------------------------------------


def outcome(x: jax.Array) -> Any:
    return {"sum": x + jnp.int32(1), "bits": (x.astype(jnp.uint32) << jnp.uint32(2), x > 3), "none": ()}


@pytest.mark.parametrize("one", [1, 2, 5])
def test_materialised_is_the_computation(one: int) -> None:
    x = jnp.arange(6, dtype=jnp.int32)
    program = jax.jit(lambda x, one: materialised(lambda: outcome(x), one))
    assert_trees_equal(program(x, jnp.int32(one)), outcome(x))
    assert_trees_equal(materialised(lambda: outcome(x), jnp.int32(one)), outcome(x))


def test_materialised_under_vmap() -> None:
    x = jnp.arange(6, dtype=jnp.int32)
    for axis, one in ((None, jnp.int32(1)), (0, jnp.arange(1, 7, dtype=jnp.int32))):
        mapped = jax.jit(jax.vmap(lambda x, one: materialised(lambda: outcome(x), one), in_axes=(0, axis)))
        assert_trees_equal(mapped(x, one), jax.vmap(outcome)(x))
