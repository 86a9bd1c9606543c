"""The JAX agents of this package as models: they see their own observations, not the messages."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from mnistpro_jax.agents.base import Policy
from mnistpro_jax.env.types import Kind
from mnistpro_jax.host.contract import ANSWER, MOVES, Decision, HostPolicy, Status, Turn
from mnistpro_jax.host.world import episode_keys


class AgentPolicy(HostPolicy):
    """A JAX policy, with the keys that ``rollouts.rollout`` would give it: the same seed plays the same episodes."""

    def __init__(self, policy: Policy[Any], seed: int) -> None:
        self.observation = policy.observation
        self._policy = policy
        self._seed = seed
        self._memories: dict[int, tuple[jax.Array, Any]] = {}

    async def act(self, turn: Turn) -> Decision:
        """The policy's action."""
        return self._act(turn)

    def remember(self, turn: Turn, decision: Decision) -> None:
        """Play the turn again for the memory that it leaves."""
        self._act(turn)

    def forget(self, episode: int) -> None:
        """Drop the episode's memory."""
        self._memories.pop(episode, None)

    def _act(self, turn: Turn) -> Decision:
        if turn.step == 0 or turn.episode not in self._memories:
            memory_key, action_key = episode_keys(self._seed, turn.episode)
            self._memories[turn.episode] = (action_key, _init(self._policy, memory_key))
        key, memory = self._memories[turn.episode]
        action, memory = _act(self._policy, key, turn.observation, memory)
        self._memories[turn.episode] = (key, memory)
        kind, digits = int(action.kind), np.asarray(action.digits)
        if kind == Kind.ANSWER:
            return Decision(Status.OK, ANSWER, tuple(int(digit) for digit in digits))
        if 0 <= kind < len(MOVES):
            return Decision(Status.OK, MOVES[kind])
        return Decision(Status.UNPARSEABLE, problem=f"action of kind {kind}")


@jax.jit
def _init(policy: Policy[Any], key: jax.Array) -> Any:
    return policy.init(key)


@jax.jit
def _act(policy: Policy[Any], key: jax.Array, observation: Any, memory: Any) -> Any:
    return policy.act(jax.random.fold_in(key, observation.step), observation, memory)
