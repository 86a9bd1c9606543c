"""The recurrent glimpse agent: no canvas, what it remembers is a recurrent state for each digit."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.learned.explorer import beside_doubts, digit_under, log_doubt
from mnistpro_jax.agents.learned.networks import RecurrentAttention
from mnistpro_jax.env.types import Action, Kind, Observation, pytree, static_field

CELL = 4  # canvas pixels along a side of what the glimpse network is shown as one number


@pytree
class Memory:
    """What is remembered of each digit: core, float32 (n, core_size), and answers, its logits, float32 (n, C)."""

    core: jax.Array
    answers: jax.Array

    @property
    def confidences(self) -> jax.Array:
        """Probability of the likeliest class of each digit, float32 (n,)."""
        return jnp.max(jax.nn.softmax(self.answers), axis=-1)


def empty(geometry: Geometry, network: RecurrentAttention) -> Memory:
    """Nothing was seen yet, and every class is equally likely."""
    return Memory(
        jnp.zeros((geometry.num_digits, network.core_size), jnp.float32),
        jnp.zeros((geometry.num_digits, network.num_classes), jnp.float32),
    )


def sensor(geometry: Geometry, view: jax.Array, xy: jax.Array) -> jax.Array:
    """The window at a quarter of its resolution: uint8 (64, 64) -> float32 (256,), 0..1.

    What it shows of other digits than the one under its centre is left out.
    """
    rows, columns = view.shape[0] // CELL, view.shape[1] // CELL
    cells = view.reshape(rows, CELL, columns, CELL).astype(jnp.float32).mean(axis=(1, 3))
    x = xy[0] + CELL * jnp.arange(columns, dtype=jnp.int32) + CELL // 2
    own = x // (geometry.width // geometry.num_digits) == digit_under(geometry, xy)
    return jnp.where(own, cells, jnp.float32(0)).reshape(rows * columns)


def location(geometry: Geometry, xy: jax.Array, step: jax.Array) -> jax.Array:
    """Where the window's centre is in its digit, (x, y) in -1..1, and how late it is: float32 (3,)."""
    width = geometry.width // geometry.num_digits
    x = xy[0] + geometry.window // 2 - digit_under(geometry, xy) * width
    return jnp.stack(
        [
            2 * x / width - 1,
            2 * (xy[1] + geometry.window // 2) / geometry.height - 1,
            jnp.minimum(step, 100) / 36,
        ]
    ).astype(jnp.float32)


def look(
    network: RecurrentAttention, params: Any, geometry: Geometry, memory: Memory, observation: Observation
) -> tuple[Memory, jax.Array, jax.Array]:
    """One glimpse: (what is remembered after it, logits of the four moves (4,), baseline ()).

    The glimpse goes to the memory of the digit under the window's centre; the others are as they were. Nothing here
    depends on the number of digits.
    """
    xy = observation.xy
    digit = digit_under(geometry, xy)
    beside = log_doubt(beside_doubts(jnp.float32(1) - memory.confidences, digit))
    outputs: Any = network.apply(
        params,
        memory.core[digit],
        sensor(geometry, observation.view, xy),
        location(geometry, xy, observation.step),
        beside,
    )
    core, answer, moves, baseline = outputs
    own = (jnp.arange(geometry.num_digits, dtype=jnp.int32) == digit)[:, None]
    memory = Memory(jnp.where(own, core, memory.core), jnp.where(own, answer, memory.answers))
    return memory, jnp.where(geometry.useful_moves(xy), moves, jnp.float32(-1e9)), baseline


@pytree
class GlimpsePolicy:
    """Looks with the location network, answers with the action network once that is sure.

    params: of ``network``. confidence: float32 (), of the whole answer. max_moves: int32 (). remembers: otherwise all
    is forgotten before every glimpse.
    """

    params: Any
    confidence: jax.Array
    max_moves: jax.Array
    geometry: Geometry = static_field(default=Geometry())
    network: RecurrentAttention = static_field(default=RecurrentAttention())
    remembers: bool = static_field(default=True)
    observation: str = static_field(default="glimpse")

    def init(self, key: jax.Array) -> Memory:
        """An empty memory."""
        return empty(self.geometry, self.network)

    def act(self, key: jax.Array, observation: Observation, carry: Memory) -> tuple[Action, Memory]:
        """See ``agents.base.Policy``."""
        if not self.remembers:
            carry = empty(self.geometry, self.network)
        carry, moves, _ = look(self.network, self.params, self.geometry, carry, observation)
        answering = (
            (jnp.prod(carry.confidences) >= self.confidence)
            | (observation.steps_left <= 1)
            | (observation.step >= self.max_moves)
        )
        kind = jnp.where(answering, Kind.ANSWER, jnp.argmax(moves)).astype(jnp.int32)
        return Action(kind, jnp.argmax(carry.answers, axis=-1).astype(jnp.int32)), carry
