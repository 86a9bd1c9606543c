"""Checkpoints and exported programs: what comes back is what went, value for value."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
import pytest
from flax import serialization
from jax import export

import mnistpro_jax
from mnistpro_jax.env.environment import Environment, EnvParams
from tests.episodes import assert_trees_equal, edge_digits, world

Kept = dict[str, Any]


@pytest.fixture(scope="module")
def kept() -> Kept:
    """A state, what it shows, its counts, and params whose bank has seams."""
    env, params = mnistpro_jax.make("MnistPro-L2-v0", dataset=edge_digits(), observation="canvas")
    keys = jax.random.split(jax.random.key(0), 3)
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
    counts = jax.vmap(env.statistics, in_axes=(0, None))(state, params)
    return {"state": state, "observation": observation, "statistics": counts, "params": params}


def through_flax(tree: Any, _: Path) -> Any:
    blank = jax.tree.map(jnp.zeros_like, tree)
    return serialization.from_bytes(blank, serialization.to_bytes(tree))


def through_pickle(tree: Any, _: Path) -> Any:
    return pickle.loads(pickle.dumps(tree))


def through_orbax(tree: Any, folder: Path) -> Any:
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder / "kept", tree)
        checkpointer.wait_until_finished()
        return checkpointer.restore(folder / "kept", jax.tree.map(jnp.zeros_like, tree))


@pytest.mark.parametrize("through", [through_flax, through_pickle, through_orbax])
def test_what_is_kept_comes_back(kept: Kept, through: Callable[[Any, Path], Any], tmp_path: Path) -> None:
    back = through(kept, tmp_path)
    assert_trees_equal(back, kept)
    assert jax.tree.structure(back) == jax.tree.structure(kept)


def test_flax_refuses_what_does_not_fit(kept: Kept) -> None:
    stored = serialization.to_bytes(kept["state"])
    with pytest.raises(ValueError, match=r"stored Observation.*xy"):
        serialization.from_bytes(kept["observation"], stored)


def test_an_exported_step_takes_a_batch_of_any_size() -> None:
    env, params = world(1, size=56, window=16, stride=8)
    mnistpro_jax.register_serialization()

    def play(keys: jax.Array, actions: jax.Array, params: EnvParams) -> Any:
        """Typed keys do not go into an exported program: their words do."""
        keys = jax.random.wrap_key_data(keys)
        _, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
        return jax.vmap(env.step, in_axes=(0, 0, 0, None))(keys, state, actions, params)[:5]

    (size,) = export.symbolic_shape("batch")
    arguments = (
        jax.ShapeDtypeStruct((size, 2), jnp.uint32),
        jax.ShapeDtypeStruct((size,), jnp.int32),
        jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params),
    )
    stored = export.export(jax.jit(play))(*arguments).serialize()
    program = export.deserialize(bytearray(stored))
    keys = jax.random.key_data(jax.random.split(jax.random.key(0), 5))
    actions = jnp.arange(5, dtype=jnp.int32)  # the last answers, so that another episode begins
    expected = jax.jit(play)(keys, actions, params)
    for lanes in (slice(0, 5), slice(3, 5)):
        played = program.call(keys[lanes], actions[lanes], params)
        assert_trees_equal(played, jax.tree.map(lambda leaf: leaf[lanes], expected))


def test_environments_are_pickled_by_value() -> None:
    env, _ = world(1, size=56, window=16, stride=8)
    again: Environment = pickle.loads(pickle.dumps(env))
    assert again == env and hash(again) == hash(env)
