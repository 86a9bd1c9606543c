"""Without jit: the environment's functions compile themselves once, and give what a program that calls them gives."""

from __future__ import annotations

import warnings

import jax
import jax.monitoring
import jax.numpy as jnp
import pytest

from mnistpro_jax.env import lifted
from mnistpro_jax.env.environment import Environment
from tests.episodes import assert_trees_equal, world

COMPILED = "/jax/core/compile/backend_compile_duration"


def test_eager_steps_compile_once_and_are_those_of_a_program() -> None:
    env, params = world(1, size=56, window=16, stride=8)
    keys = jax.random.split(jax.random.key(0), 8)
    moves = jnp.arange(8, dtype=jnp.int32) % 4
    axes = (0, 0, 0, None)
    _, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
    first = jax.vmap(env.step, in_axes=axes)(keys, state, moves, params)
    assert_trees_equal(first, jax.jit(jax.vmap(env.step, in_axes=axes))(keys, state, moves, params))

    heard: list[str] = []
    listener = lambda event, seconds, **_: heard.append(event)  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        for _ in range(3):
            # Bound anew, and an equal environment: as a loop that was never thought of as a program.
            same = Environment(**{name: getattr(env, name) for name in env.__dataclass_fields__})
            state = jax.vmap(same.step, in_axes=axes)(keys, state, moves, params)[1]
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    assert COMPILED not in heard


def test_no_two_leaves_of_a_first_state_share_a_buffer() -> None:
    """Else it cannot be donated."""
    env, params = world(1, size=56, window=16, stride=8)
    keys = jax.random.split(jax.random.key(0), 8)
    axes = (0, 0, 0, None)
    _, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
    buffers = [leaf.unsafe_buffer_pointer() for leaf in jax.tree.leaves(state)]
    assert len(set(buffers)) == len(buffers)
    moves = jnp.arange(8, dtype=jnp.int32) % 4
    following = jax.jit(jax.vmap(env.step, in_axes=axes), donate_argnums=1)(keys, state, moves, params)[1]
    assert (following.step == 1).all()


def test_params_that_a_program_closes_over_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    env, params = world(1, size=56, window=16, stride=8)
    monkeypatch.setattr(lifted, "LARGE", 0)
    key, keys = jax.random.key(0), jax.random.split(jax.random.key(0), 3)
    with pytest.warns(UserWarning, match=r"make them an argument.*jax\.jit\(train\)\(key, params\)"):
        jax.eval_shape(lambda key: env.reset(key, params), key)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jax.eval_shape(env.reset, key, params)
        jax.vmap(env.reset, in_axes=(0, None))(keys, params)  # mapped, but no program
        monkeypatch.setattr(lifted, "LARGE", params.bank.nbytes + 1)
        jax.eval_shape(lambda key: env.reset(key, params), key)
