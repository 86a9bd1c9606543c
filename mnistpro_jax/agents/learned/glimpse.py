"""The recurrent glimpse agent: no canvas, what it remembers is the state of a GRU."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.learned.explorer import useful_moves
from mnistpro_jax.agents.learned.networks import RecurrentAttention
from mnistpro_jax.types import Action, Kind, Observation, pytree, static_field

CELL = 4  # canvas pixels along a side of what the glimpse network is shown as one number


def sensor(view: jax.Array) -> jax.Array:
    """The window at a quarter of its resolution: uint8 (64, 64) -> float32 (256,), 0..1."""
    rows, columns = view.shape[-2] // CELL, view.shape[-1] // CELL
    cells = view.reshape(*view.shape[:-2], rows, CELL, columns, CELL).astype(jnp.float32)
    return cells.mean(axis=(-3, -1)).reshape(*view.shape[:-2], rows * columns)


def location(geometry: Geometry, xy: jax.Array, step: jax.Array) -> jax.Array:
    """Where the window is, float32 (4,): x and y in -1..1, x in its digit in -1..1, and how late it is."""
    digit = geometry.width // geometry.num_digits
    middle = xy[0] + geometry.window // 2
    return jnp.stack(
        [
            2 * xy[0] / max(1, geometry.limit_x) - 1,
            2 * xy[1] / max(1, geometry.limit_y) - 1,
            2 * (middle % digit) / digit - 1,
            jnp.minimum(step, geometry.budget) / geometry.budget,
        ]
    ).astype(jnp.float32)


@pytree
class GlimpsePolicy:
    """Looks with the location network, answers with the action network once that is sure.

    params: of ``network``. confidence: float32 (), of the whole answer. max_moves: int32 ().
    """

    params: Any
    confidence: jax.Array
    max_moves: jax.Array
    geometry: Geometry = static_field(default=Geometry())
    network: RecurrentAttention = static_field(default=RecurrentAttention())
    observation: str = static_field(default="glimpse")

    def init(self, key: jax.Array) -> jax.Array:
        """An empty memory, float32 (core_size,)."""
        return jnp.zeros((self.network.core_size,), jnp.float32)

    def act(self, key: jax.Array, observation: Observation, carry: jax.Array) -> tuple[Action, jax.Array]:
        """See ``agents.base.Policy``."""
        where = location(self.geometry, observation.xy, observation.step)
        outputs: Any = self.network.apply(self.params, carry, sensor(observation.view), where)
        carry, answers, moves, _ = outputs
        confidence = jnp.prod(jnp.max(jax.nn.softmax(answers), axis=-1))
        answering = (
            (confidence >= self.confidence)
            | (observation.steps_left <= 1)
            | (observation.step >= self.max_moves)
        )
        useful = useful_moves(self.geometry, observation.xy)
        move = jnp.argmax(jnp.where(useful, moves, -jnp.inf))
        kind = jnp.where(answering, Kind.ANSWER, move).astype(jnp.int32)
        return Action(kind, jnp.argmax(answers, axis=-1).astype(jnp.int32)), carry
