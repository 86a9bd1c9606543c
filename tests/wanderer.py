"""A policy whose episodes have very different lengths."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from mnistpro_jax.env.types import Action, Kind, Observation, pytree, static_field


@pytree
class Wanderer:
    """Random moves; answers a digit that it drew at the start with probability ``eagerness`` a step."""

    eagerness: jax.Array
    observation: str = static_field(default="packed")

    def init(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (1,), 0, 10, jnp.int32)

    def act(self, key: jax.Array, observation: Observation, carry: jax.Array) -> tuple[Action, jax.Array]:
        move_key, answer_key = jax.random.split(key)
        answer = jax.random.uniform(answer_key, (), jnp.float32) < self.eagerness
        move = jax.random.randint(move_key, (), 0, 4, jnp.int32)
        return Action(jnp.where(answer, Kind.ANSWER, move).astype(jnp.int32), carry), carry


def wanderer(eagerness: float) -> Wanderer:
    return Wanderer(jnp.asarray(eagerness, jnp.float32))
