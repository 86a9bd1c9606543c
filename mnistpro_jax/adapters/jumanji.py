"""Jumanji's functional interface: ``state, timestep = env.step(state, action)``.

Only the specifications need Jumanji; resets and steps work without it. As Jumanji's environments do, this one ends
and does not begin anew: Jumanji's ``AutoResetWrapper`` (or Stoix', or a trainer's own) does that, with the key that
the state holds.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.adapters.optional import missing
from mnistpro_jax.env import bitmap, spaces
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, Observation, pytree
from mnistpro_jax.env.types import State as EnvState
from mnistpro_jax.registration import make as make_world
from mnistpro_jax.render.published import published_picture
from mnistpro_jax.rollouts.features import features, num_features

FIRST, MID, LAST = 0, 1, 2


@pytree
class State:
    """key: for a reset by a wrapper; steps and observations do not depend on it. env: a ``mnistpro_jax.State``."""

    key: jax.Array
    env: EnvState


@pytree
class TimeStep:
    """``jumanji.types.TimeStep``: the same fields and methods.

    step_type: int8 (), FIRST 0, MID 1, LAST 2. reward: float32 (). discount: float32 (), 0 where the agent answered or
    acted invalidly (terminated), else 1: a LAST step with discount 1 is a truncation. observation: an ``Observation``
    or, flattened, float32 (D,). extras: "terminated", "truncated", bool (), and the episode's "statistics".
    """

    step_type: jax.Array
    reward: jax.Array
    discount: jax.Array
    observation: Any
    extras: dict[str, Any]

    def first(self) -> jax.Array:
        """Whether an episode has just begun, bool ()."""
        return self.step_type == FIRST

    def mid(self) -> jax.Array:
        """Neither first nor last, bool ()."""
        return self.step_type == MID

    def last(self) -> jax.Array:
        """Whether the episode has ended, bool ()."""
        return self.step_type == LAST


class JumanjiEnv:
    """``jumanji.Environment``, for one episode; ``jax.vmap`` for a batch.

    The params are held by the environment, as Jumanji expects, so that a jitted function that uses it compiles the
    bank in; ``reset_with`` and ``step_with`` take them as an argument. flatten: see ``TimeStep``.
    """

    def __init__(self, env: Environment, params: EnvParams, *, flatten: bool = False) -> None:
        self.env, self.params, self.flatten = env, params, flatten

    def reset(self, key: jax.Array) -> tuple[State, TimeStep]:
        """Start a random episode."""
        return self.reset_with(key, self.params)

    def step(self, state: State, action: jax.Array | Action) -> tuple[State, TimeStep]:
        """One step. After the end nothing changes: the time step is LAST again, with reward 0."""
        return self.step_with(state, action, self.params)

    def reset_with(self, key: jax.Array, params: EnvParams) -> tuple[State, TimeStep]:
        """``reset`` with the params as an argument."""
        start_key, key = jax.random.split(key)
        observation, inner = self.env.reset_env(start_key, params)
        no = jnp.zeros((), jnp.bool_)
        extras = {"terminated": no, "truncated": no, "statistics": self.env.statistics(inner, params)}
        step_type, one = jnp.asarray(FIRST, jnp.int8), jnp.ones((), jnp.float32)
        shown = self._show(observation, params)
        return State(key, inner), TimeStep(step_type, jnp.zeros((), jnp.float32), one, shown, extras)

    def step_with(
        self, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[State, TimeStep]:
        """``step`` with the params as an argument."""
        observation, inner, reward, terminated, truncated, info = self.env.step_env(
            state.key, state.env, action, params
        )
        step_type = jnp.where(terminated | truncated, jnp.int8(LAST), jnp.int8(MID))
        discount = jnp.where(terminated, jnp.float32(0), jnp.float32(1))
        extras = {"terminated": terminated, "truncated": truncated, "statistics": info["statistics"]}
        shown = self._show(observation, params)
        return State(state.key, inner), TimeStep(step_type, reward, discount, shown, extras)

    def _show(self, observation: Observation, params: EnvParams) -> Any:
        return features(self.env, observation, params) if self.flatten else observation

    @functools.cached_property
    def observation_spec(self) -> Any:
        """Jumanji's specification of the observation; ImportError without Jumanji."""
        specs = _specs()
        if self.flatten:
            return specs.BoundedArray((num_features(self.env),), jnp.float32, 0.0, 1.0, "observation")
        return _spec(specs, self.env.observation_space(self.params), "observation")

    @functools.cached_property
    def action_spec(self) -> Any:
        """``DiscreteArray`` for one and two digits, else the specification of ``mnistpro_jax.Action``."""
        space = self.env.action_space(self.params)
        specs = _specs()
        if isinstance(space, spaces.Discrete):
            return specs.DiscreteArray(space.num_values, jnp.int32, "action")
        return _spec(specs, space, "action")

    @functools.cached_property
    def reward_spec(self) -> Any:
        """float32 ()."""
        return _specs().Array((), jnp.float32, "reward")

    @functools.cached_property
    def discount_spec(self) -> Any:
        """float32 () in 0..1."""
        return _specs().BoundedArray((), jnp.float32, 0.0, 1.0, "discount")

    @property
    def unwrapped(self) -> JumanjiEnv:
        """Itself."""
        return self

    def render(self, state: State) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The published picture of one state, uint8 (height, width, 3)."""
        canvas = np.asarray(bitmap.unpack(self.params.bank.canvas(state.env.scene), self.env.width))
        black = np.where(canvas != 0, 0, 255).astype(np.uint8)
        return published_picture(black, np.asarray(state.env.xy), self.env.window)

    def close(self) -> None:
        """Nothing to do."""


def make(env_id: str, *, flatten: bool = False, **overrides: Any) -> JumanjiEnv:
    """``mnistpro_jax.make`` as a Jumanji environment."""
    return JumanjiEnv(*make_world(env_id, **overrides), flatten=flatten)


def _specs() -> Any:
    try:
        from jumanji import specs
    except ImportError as error:
        raise missing("jumanji", "jumanji") from error
    return specs


def _spec(specs: Any, space: Any, name: str) -> Any:
    if isinstance(space, spaces.Tree):
        parts = {part: _spec(specs, inner, part) for part, inner in space.fields}
        return specs.Spec(space.node, f"{space.node.__name__}Spec", **parts)
    if isinstance(space, spaces.Discrete):
        return specs.DiscreteArray(space.num_values, jnp.int32, name)
    return specs.BoundedArray(space.shape, space.dtype, space.low, space.high, name)
