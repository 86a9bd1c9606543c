"""The contract under settings of JAX that people turn on: strict promotion, gradients, no transfers.

Meshes with explicit axes are in ``tests.rollouts.eight_devices``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import mnistpro_jax
from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.registry import make_agent
from mnistpro_jax.env.environment import OBSERVATIONS, Environment, EnvParams
from mnistpro_jax.env.types import Action, Kind, State
from mnistpro_jax.registration import with_observation
from mnistpro_jax.rollouts.features import features
from tests.episodes import assert_trees_equal, edge_digits, world

SMALL = {"size": 56, "window": 16, "stride": 8}
OVER_EPISODES = (0, 0, 0, None)


@pytest.fixture
def strict() -> Iterator[None]:
    with ExitStack() as settings:
        settings.enter_context(jax.numpy_dtype_promotion("strict"))
        settings.enter_context(jax.numpy_rank_promotion("raise"))
        yield


def everything(env: Environment, keys: jax.Array, params: EnvParams) -> Any:
    """What the contract offers, mapped over a batch; what does not depend on the observation with packed ones alone."""
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
    moves = jnp.arange(len(keys), dtype=jnp.int32)
    seen = (
        jax.vmap(env.step, in_axes=OVER_EPISODES)(keys, state, moves, params),
        jax.vmap(features, in_axes=(None, 0, None))(env, observation, params),
    )
    if env.observation != "packed":
        return seen
    done = jnp.ones(len(keys), jnp.bool_)
    return (
        seen,
        jax.vmap(env.step_env, in_axes=OVER_EPISODES)(keys, state, moves, params),
        jax.vmap(env.final_statistics, in_axes=(0, 0, None))(done, state, params),
        jax.vmap(env.reset_to, in_axes=(0, 0, None))(state.scene, state.xy, params),
        jax.vmap(env.draw_start, in_axes=(0, 0, None))(keys, state.scene, params),
        jax.vmap(lambda move: env.flat_action(env.structured_action(move)))(moves),
    )


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    ("level", "outline", "observation"), [*((1, True, name) for name in OBSERVATIONS), (2, False, "packed")]
)
def test_nothing_is_promoted(level: int, outline: bool, observation: str) -> None:
    """Traced only, which is where a promotion is refused."""
    env, params = world(level, outline=outline)
    env = with_observation(env, observation)
    jax.eval_shape(
        lambda keys, params: everything(env, keys, params), jax.random.split(jax.random.key(0), 3), params
    )


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("level", [1, 2])
def test_banks_and_episodes_under_strict_promotion(level: int) -> None:
    """From pictures to the end of an episode."""
    given = SMALL if level == 1 else {}  # the second has seams
    env, params = mnistpro_jax.make(f"MnistPro-L{level}-v0", dataset=edge_digits(), **given)
    _, state = env.reset(jax.random.key(0), params)
    answer = env.flat_action(Action(jnp.int32(Kind.ANSWER), params.bank.label(state.scene)))
    assert env.step(jax.random.key(1), state, answer, params)[2] == 10


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(
    "name", ["random-walk", "serpentine", "coverage", "observer", "glimpse", "planner", "canvas"]
)
def test_agents_promote_nothing(name: str) -> None:
    env, params = world(2, outline=True)
    few = {"particles": 4} if name == "observer" else {}
    policy = make_agent(name, Geometry.of(env), edge_digits(), **few)
    env = with_observation(env, policy.observation)

    def turn(key: jax.Array, params: EnvParams) -> Any:
        observation, _ = env.reset(key, params)
        return policy.act(key, observation, policy.init(key))

    jax.eval_shape(turn, jax.random.key(0), params)


def test_rewards_have_gradients_through_steps() -> None:
    """A step pays the reward of a move: its derivative is one, forward and in reverse, alone and over a batch."""
    env, params = world(1, **SMALL)
    key = jax.random.key(0)
    _, state = env.reset(key, params)

    def paid(move_reward: jax.Array, method: Any) -> jax.Array:
        return method(key, state, jnp.int32(1), params.replace(move_reward=move_reward))[2]  # type: ignore[attr-defined]

    def of_batch(move_reward: jax.Array) -> jax.Array:
        keys = jax.random.split(key, 3)
        _, states = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
        own = params.replace(move_reward=move_reward)  # type: ignore[attr-defined]
        return jnp.sum(
            jax.vmap(env.step, in_axes=OVER_EPISODES)(keys, states, jnp.zeros(3, jnp.int32), own)[2]
        )

    def of_episode(move_reward: jax.Array) -> jax.Array:
        own = params.replace(move_reward=move_reward)  # type: ignore[attr-defined]

        def turn(state: State, key: jax.Array) -> tuple[State, jax.Array]:
            _, state, reward, *_ = env.step(key, state, jnp.int32(1), own)
            return state, reward

        return jnp.sum(jax.lax.scan(turn, state, jax.random.split(key, 5))[1])

    at = jnp.float32(-0.1)
    assert jax.jit(jax.grad(paid), static_argnums=1)(at, env.step_env) == 1
    assert jax.jit(jax.jacfwd(of_episode))(at) == 5
    both = jax.jit(lambda at: (jax.grad(of_batch)(at), jax.grad(of_episode)(at)))(at)
    assert both == (3, 5)


def test_after_the_first_call_nothing_is_transferred() -> None:
    env, params = world(1, **SMALL)
    params = jax.device_put(params)
    keys, moves = jax.random.split(jax.random.key(0), 3), jnp.arange(3, dtype=jnp.int32)
    key, move = keys[0], moves[0]

    def play() -> Any:
        _, states = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
        _, state = env.reset(key, params)
        return (
            jax.vmap(env.step, in_axes=OVER_EPISODES)(keys, states, moves, params),
            env.step(key, state, move, params),
            env.statistics(state, params),
        )

    first = play()
    with jax.transfer_guard("disallow"):
        again = jax.block_until_ready(play())
    assert_trees_equal(first, again)
