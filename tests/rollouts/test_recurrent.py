"""When a recurrent policy forgets: the previous step's done, and what the other flag would do."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.rollouts.recurrent import first_flags, reset_where, unroll
from tests.episodes import world

TURNS, LANES = 20, 6


def remember(memory: Any, view: jax.Array) -> tuple[Any, jax.Array]:
    """A cell whose memory is all that it was shown: how many windows, and the sum of their bits."""
    seen, total = memory
    seen, total = seen + 1, total + view
    return (seen, total), jnp.stack([seen.astype(jnp.float32), jnp.sum(total, axis=-1)], axis=-1)


def test_memory_of_an_episode_is_of_that_episode_alone() -> None:
    """Played with auto-reset, and unrolled from what was stored: equal, and never older than the episode."""
    env: Environment
    params: EnvParams
    env, params = world(1, size=112, window=32, stride=5)
    actions = np.random.default_rng(0).choice([0, 1, 2, 3, 7], (TURNS, LANES), p=[0.2, 0.2, 0.2, 0.2, 0.2])
    empty = (jnp.zeros((), jnp.int32), jnp.zeros(32, jnp.float32))

    def play(key: jax.Array, actions: jax.Array, params: EnvParams) -> Any:
        start, *keys = jax.random.split(key, 1 + TURNS)
        observation, state = jax.vmap(env.reset, (0, None))(jax.random.split(start, LANES), params)
        memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (LANES, *leaf.shape)), empty)

        def turn(carry: Any, inputs: Any) -> Any:
            observation, state, memory, done = carry
            view = jax.lax.population_count(observation.view[:, 0]).astype(jnp.float32)
            memory, output = remember(reset_where(done, memory, empty), view)
            key, action = inputs
            following, state, _, terminated, truncated, _ = jax.vmap(env.step, (0, 0, 0, None))(
                jax.random.split(key, LANES), state, action, params
            )
            stored = (view, observation.step, terminated | truncated, output)
            return (following, state, memory, terminated | truncated), stored

        first = jnp.ones(LANES, jnp.bool_)
        stored = jax.lax.scan(turn, (observation, state, memory, first), (jnp.stack(keys), actions))[1]
        views, _, done, _ = stored
        right = unroll(remember, memory, views, first_flags(done, first), empty)[1]
        wrong = unroll(remember, memory, views, done, empty)[1]
        return stored, right, wrong

    (_, step, done, output), right, wrong = jax.jit(play)(
        jax.random.key(0), jnp.asarray(actions, jnp.int32), params
    )
    assert np.asarray(done).sum() > LANES
    # The first window of an episode has step 0: the memory then holds that one window.
    np.testing.assert_array_equal(output[..., 0], np.asarray(step) + 1)
    np.testing.assert_array_equal(right, output)
    assert not np.array_equal(wrong, output)


def test_reset_where_keeps_shapes_and_dtypes() -> None:
    done = jnp.asarray([[True, False, True], [False, False, True]])
    memory = {"h": jnp.ones((2, 3, 4), jnp.bfloat16), "count": jnp.full((2, 3), 7, jnp.int32)}
    initial = {"h": jnp.zeros(4, jnp.float32), "count": jnp.zeros((), jnp.int32)}
    result = reset_where(done, memory, initial)
    assert result["h"].dtype == jnp.bfloat16 and result["count"].dtype == jnp.int32
    np.testing.assert_array_equal(result["count"], np.where(done, 0, 7))
    np.testing.assert_array_equal(result["h"][..., 0].astype(jnp.float32), np.where(done, 0, 1))
    batched = {"h": jnp.zeros((2, 3, 4)), "count": jnp.zeros((2, 3), jnp.int32)}
    again = reset_where(done, memory, batched)
    np.testing.assert_array_equal(again["count"], result["count"])


def test_first_flags() -> None:
    done = jnp.asarray([[False, True], [True, False], [False, False]])
    flags = first_flags(done, jnp.asarray([True, False]))
    assert flags.tolist() == [[True, False], [False, True], [True, False]]
    assert first_flags(done[:0], jnp.asarray([True, False])).shape == (0, 2)


def test_what_does_not_fit_is_refused() -> None:
    done = jnp.zeros(3, jnp.bool_)
    with pytest.raises(TypeError, match="done has dtype float32"):
        reset_where(done.astype(jnp.float32), jnp.zeros(3), jnp.zeros(()))
    with pytest.raises(TypeError, match="done has dtype int32"):
        reset_where(1, jnp.zeros(3), jnp.zeros(3))  # type: ignore[arg-type]
    for memory, initial in ((jnp.zeros((2, 4)), jnp.zeros(4)), (jnp.zeros((3, 4)), jnp.zeros(5))):
        with pytest.raises(ValueError, match="expected leaves that begin with the axes of done"):
            reset_where(done, memory, initial)
    with pytest.raises(ValueError, match=r"expected \(T, ...\)"):
        first_flags(jnp.zeros((5, 3), jnp.bool_), jnp.zeros(4, jnp.bool_))
    with pytest.raises(TypeError, match="expected bool"):
        first_flags(jnp.zeros((5, 3)), done)
