"""How well a policy plays while it is trained: whole episodes of the test split, inside a jitted program."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.rollouts.features import features

Act = Callable[[jax.Array, jax.Array], jax.Array]
"""(features of a batch, float32 (B, D); key) -> flat actions, int32 (B,)."""


def played(
    act: Act, env: Environment, params: EnvParams, key: jax.Array, episodes: int = 512, budget: int = 36
) -> tuple[jax.Array, jax.Array]:
    """(share of right answers, average steps) of so many episodes, float32 (). budget: steps until all have ended."""
    reset_key, play_key = jax.random.split(key)
    show = jax.vmap(features, in_axes=(None, 0, None))
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(reset_key, episodes), params)

    def turn(carry: tuple[jax.Array, object], key: jax.Array) -> tuple[tuple[jax.Array, object], None]:
        shown, state = carry
        action = act(shown, key)
        keys = jax.random.split(key, episodes)  # moves and answers draw nothing from them
        observation, state, *_ = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))(keys, state, action, params)
        return (show(env, observation, params), state), None

    first = (show(env, observation, params), state)
    (_, state), _ = jax.lax.scan(turn, first, jax.random.split(play_key, budget))
    statistics = jax.vmap(env.statistics, in_axes=(0, None))(state, params)
    right = jnp.mean(statistics.correct, dtype=jnp.float32)
    return right, jnp.mean(statistics.steps, dtype=jnp.float32)
