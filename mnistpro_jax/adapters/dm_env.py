"""``dm_env.Environment``: one episode at a time, numpy in and out."""

from __future__ import annotations

from typing import Any

import numpy as np

from mnistpro_jax.adapters.host import HostBatch, action_ranges
from mnistpro_jax.adapters.optional import missing
from mnistpro_jax.adapters.world import checked_world, load_world
from mnistpro_jax.env import spaces
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.rollouts.features import num_features

try:
    import dm_env
    from dm_env import specs
except ImportError as error:
    raise missing("dm_env", "dm-env") from error


class MnistProDmEnv(dm_env.Environment):  # type: ignore[misc]
    """MNIST-PRO with ``dm_env``'s ``TimeStep``.

    The discount is 0 where the agent answered or acted invalidly (terminated), and 1 where the budget ran out
    (truncated), so that ``timestep.last()`` with discount 1 is a truncation. As dm_env asks for, a step after the last
    one of an episode, or before the first reset, ignores its action and begins an episode.

    env, params: from ``mnistpro_jax.make``. seed: whole number >= 0, names the sequence of episodes; None for a random
    one. flatten: one float32 vector (``features``) instead of a dictionary of arrays.
    """

    def __init__(
        self, env: Environment, params: EnvParams, *, seed: int | None = None, flatten: bool = False
    ) -> None:
        world = checked_world(env, params)
        self._batch = HostBatch(world.env, world.params, 1, autoreset="disabled", flatten=flatten)
        self._seed = seed
        self._over = True

    def reset(self) -> dm_env.TimeStep:
        """Begin the next episode."""
        # The seed is used once; later episodes are the next ones of the same seed.
        observation = self._batch.reset(None if self._batch.started else [self._seed])
        self._over = False
        return dm_env.restart(_single(observation))

    def step(self, action: Any) -> dm_env.TimeStep:
        """action: a whole number as ``action_spec`` says; anything else raises and changes nothing."""
        if self._over:
            return self.reset()
        turn = self._batch.step_one(action)
        reward, observation = turn.reward[0], _single(turn.observation)
        self._over = bool(turn.terminated[0] | turn.truncated[0])
        # Made by hand: dm_env's helpers give a discount of another dtype than the specification's.
        discount = np.float32(0 if turn.terminated[0] else 1)
        kind = dm_env.StepType.LAST if self._over else dm_env.StepType.MID
        return dm_env.TimeStep(kind, reward, discount, observation)

    def observation_spec(self) -> Any:
        """A dictionary of ``BoundedArray``, scalars of shape (1,); flattened, one of float32."""
        env, budget = self._batch.env, int(self._batch.params.budget)
        if self._batch.flatten:
            return specs.BoundedArray((num_features(env),), np.float32, 0.0, 1.0, "observation")
        ours = env.observation_space(self._batch.params)
        last = ours["last_action"]
        return {
            "view": _spec(ours["view"], "view"),
            "xy": _spec(ours["xy"], "xy"),
            "step": specs.BoundedArray((1,), np.int32, 0, budget, "step"),
            "steps_left": specs.BoundedArray((1,), np.int32, 0, budget, "steps_left"),
            "last_action": specs.BoundedArray((1,), np.int32, last.low, last.high, "last_action"),
        }

    def action_spec(self) -> Any:
        """``DiscreteArray`` for one and two digits, else a ``BoundedArray`` (kind, digits)."""
        ranges = action_ranges(self._batch.env).astype(np.int64)
        if len(ranges) == 1:
            return specs.DiscreteArray(int(ranges[0]), np.int32, "action")
        return specs.BoundedArray(ranges.shape, np.int32, 0, ranges - 1, "action")

    def reward_spec(self) -> Any:
        """float32 ()."""
        return specs.Array((), np.float32, "reward")

    def discount_spec(self) -> Any:
        """float32 () in 0..1."""
        return specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")

    def statistics(self) -> dict[str, Any]:
        """``EpisodeStatistics`` of the episode so far, by name."""
        return {name: values[0] for name, values in self._batch.statistics().items()}


def make(env_id: str, *, seed: int | None = None, flatten: bool = False, **overrides: Any) -> MnistProDmEnv:
    """``mnistpro_jax.make`` as a dm_env environment."""
    world = load_world(env_id, overrides)
    return MnistProDmEnv(world.env, world.params, seed=seed, flatten=flatten)


def _spec(space: Any, name: str) -> Any:
    if isinstance(space, spaces.Tree):
        return {part: _spec(inner, part) for part, inner in space.fields}
    return specs.BoundedArray(space.shape, np.dtype(space.dtype), space.low, space.high, name)


def _single(observation: Any) -> Any:
    if isinstance(observation, dict):
        return {name: _single(part) for name, part in observation.items()}
    return observation[0]
