"""Brax's ``Env`` and ``State``, for trainers that take those. Nothing of Brax is needed to use it.

Brax's own wrappers would spoil this environment: its auto-reset puts an ended environment back to its *first* state,
which here would be the same digit for ever, and its time limit is a second one. This environment resets itself, to a
new episode, and fills in what those wrappers add; pass ``wrap`` as the trainer's ``wrap_env_fn``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Kind
from mnistpro_jax.registration import make as make_world
from mnistpro_jax.rollouts.features import features, num_features


@struct.dataclass
class State:
    """``brax.envs.base.State``: the same fields and methods.

    pipeline_state: a ``mnistpro_jax.State``. obs: float32 (D,) (``features``). reward, done: float32 (), done
    1 where the last step ended an episode (``obs`` then belongs to the next one). metrics: "correct", float32 (), 1 on
    a right answer.

    info: "terminated" and "truncation", float32 (); "final_obs", what the episode showed after the last step; "steps",
    its steps; "episode_done" and "episode_metrics" (sum_reward, length, correct), as Brax's EpisodeWrapper keeps them;
    "rng", the key of the next episode (Brax gives ``step`` none, so that it must be here).
    """

    pipeline_state: Any
    obs: jax.Array
    reward: jax.Array
    done: jax.Array
    metrics: dict[str, jax.Array] = dataclasses.field(default_factory=dict)
    info: dict[str, Any] = dataclasses.field(default_factory=dict)


class BraxEnv:
    """``brax.envs.Env``, for one episode; ``jax.vmap`` or ``wrap`` for a batch.

    Actions: float (``action_size``,), scores of which the largest chooses the flat action, because Brax's trainers are
    made for continuous actions; or an integer (), the flat action itself. For one and two digits.

    The params are held by the environment, as Brax expects, so that a jitted function that uses it compiles the bank
    in; ``reset_with`` and ``step_with`` take them as an argument.
    """

    def __init__(self, env: Environment, params: EnvParams) -> None:
        if env.num_digits > 2:
            raise TypeError(f"{env.num_digits} digits have no flat actions; use one or two")
        self.env, self.params = env, params

    def reset(self, rng: jax.Array) -> State:
        """Start a random episode."""
        return self.reset_with(rng, self.params)

    def step(self, state: State, action: jax.Array) -> State:
        """One step, and the next episode's start where this one ends."""
        return self.step_with(state, action, self.params)

    def reset_with(self, rng: jax.Array, params: EnvParams) -> State:
        """``reset`` with the params as an argument."""
        start_key, rng = jax.random.split(rng)
        observation, inner = self.env.reset(start_key, params)
        obs = features(self.env, observation, params)
        zero = jnp.zeros((), jnp.float32)
        info = {
            "terminated": zero,
            "truncation": zero,
            "final_obs": obs,
            "steps": zero,
            "episode_done": zero,
            "episode_metrics": {"sum_reward": zero, "length": zero, "correct": zero},
            "rng": rng,
        }
        return State(inner, obs, zero, zero, {"correct": zero}, info)

    def step_with(self, state: State, action: jax.Array, params: EnvParams) -> State:
        """``step`` with the params as an argument."""
        next_key, rng = jax.random.split(state.info["rng"])
        observation, inner, reward, terminated, truncated, info = self.env.step(
            next_key, state.pipeline_state, self._flat(action), params
        )
        statistics = info["statistics"]
        done = (terminated | truncated).astype(jnp.float32)
        correct = statistics.correct.astype(jnp.float32)
        length = statistics.steps.astype(jnp.float32)
        ours = {
            "terminated": terminated.astype(jnp.float32),
            "truncation": truncated.astype(jnp.float32),
            "final_obs": features(self.env, info["final_observation"], params),
            "steps": length,
            "episode_done": done,
            "episode_metrics": {
                "sum_reward": statistics.episode_return,
                "length": length,
                "correct": correct,
            },
            "rng": rng,
        }
        # What wrappers and trainers have put into ``info`` and ``metrics`` stays.
        return state.replace(  # type: ignore[attr-defined]
            pipeline_state=inner,
            obs=features(self.env, observation, params),
            reward=reward,
            done=done,
            metrics={**state.metrics, "correct": correct},
            info={**state.info, **ours},
        )

    def _flat(self, action: jax.Array) -> jax.Array:
        action = jnp.asarray(action)
        if jnp.issubdtype(action.dtype, jnp.integer) and action.shape == ():
            return action
        if jnp.issubdtype(action.dtype, jnp.floating) and action.shape == (self.action_size,):
            # A score that is not a number must not choose an action: the invalid one ends the episode.
            best = jnp.argmax(action).astype(jnp.int32)
            return jnp.where(jnp.any(jnp.isnan(action)), jnp.int32(Kind.NONE), best)
        raise TypeError(
            f"action has shape {action.shape} and dtype {action.dtype}; expected float ({self.action_size},) scores "
            "or an integer () (use jax.vmap for a batch)"
        )

    @property
    def observation_size(self) -> int:
        """D, the length of ``obs``."""
        return num_features(self.env)

    @property
    def action_size(self) -> int:
        """Flat actions: four moves, then the answers."""
        return int(4 + self.env.num_classes**self.env.num_digits)

    @property
    def backend(self) -> str:
        """There is no physics: "mnistpro_jax"."""
        return "mnistpro_jax"

    @property
    def unwrapped(self) -> BraxEnv:
        """Itself."""
        return self


class BatchedBraxEnv(BraxEnv):
    """``BraxEnv`` over a leading axis: keys (N,), states and actions with a leading N."""

    def reset_with(self, rng: jax.Array, params: EnvParams) -> State:
        """N random episodes."""
        states: State = jax.vmap(super().reset_with, in_axes=(0, None))(rng, params)
        return states

    def step_with(self, state: State, action: jax.Array, params: EnvParams) -> State:
        """One step of N episodes."""
        states: State = jax.vmap(super().step_with, in_axes=(0, 0, None))(state, action, params)
        return states


def wrap(
    env: BraxEnv, episode_length: int = 0, action_repeat: int = 1, randomization_fn: Any = None
) -> BatchedBraxEnv:
    """The batched environment, in the signature of Brax's ``wrap_env_fn``.

    episode_length: not used, the budget is in the params. action_repeat: must be 1. randomization_fn: must be None.
    """
    del episode_length
    if action_repeat != 1 or randomization_fn is not None:
        raise ValueError(
            f"action_repeat is {action_repeat} and randomization_fn is {randomization_fn!r}; expected 1 and None"
        )
    return BatchedBraxEnv(env.env, env.params)


def make(env_id: str, **overrides: Any) -> BraxEnv:
    """``mnistpro_jax.make`` as a Brax environment."""
    return BraxEnv(*make_world(env_id, **overrides))
