"""Policies: an explorer that looks, a reader that believes, and a rule for when to answer."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.explorers import Explorer, Sight
from mnistpro_jax.agents.reader import Reader
from mnistpro_jax.env.types import Action, Kind, Observation, pytree, static_field


@pytree
class UniformRandom:
    """A uniform choice among the four moves and all C ** n answers, blind to what it is shown."""

    num_digits: int = static_field(default=1)
    num_classes: int = static_field(default=10)
    observation: str = static_field(default="packed")

    def init(self, key: jax.Array) -> tuple[()]:
        """No memory."""
        return ()

    def act(self, key: jax.Array, observation: Observation, carry: Any) -> tuple[Action, Any]:
        """See ``base.Policy``."""
        kind_key, move_key, digits_key = jax.random.split(key, 3)
        # In whole numbers: floats would not hold the share of 4 among very many.
        moves = (4 << 32) // (4 + self.num_classes**self.num_digits)
        moving = jax.random.bits(kind_key, (), jnp.uint32) < jnp.uint32(moves)
        move = jax.random.randint(move_key, (), 0, 4, jnp.int32)
        digits = jax.random.randint(digits_key, (self.num_digits,), 0, self.num_classes, jnp.int32)
        return Action(jnp.where(moving, move, Kind.ANSWER).astype(jnp.int32), digits), carry


@pytree
class ReadingPolicy:
    """Looks around with an explorer and answers with the reader's best guess.

    It answers as soon as the reader's probability of a wholly right answer reaches ``confidence``, after
    ``max_moves`` moves, or on the last step of the budget, whichever comes first.

    confidence: float32 (); above 1 it never stops early. max_moves: int32 ().
    """

    explorer: Explorer
    reader: Reader
    confidence: jax.Array
    max_moves: jax.Array
    observation: str = static_field(default="canvas")

    def init(self, key: jax.Array) -> Any:
        """The explorer's memory."""
        return self.explorer.init(key)

    def act(self, key: jax.Array, observation: Observation, carry: Any) -> tuple[Action, Any]:
        """See ``base.Policy``."""
        posterior = self.reader.posterior(observation.view)
        sure = posterior.confidence >= self.confidence
        answering = sure | (observation.steps_left <= 1) | (observation.step >= self.max_moves)
        sight = Sight(observation, self.reader, posterior, self.confidence)
        direction, carry = self.explorer.direction(key, sight, carry)
        kind = jnp.where(answering, Kind.ANSWER, direction).astype(jnp.int32)
        return Action(kind, posterior.digits), carry
