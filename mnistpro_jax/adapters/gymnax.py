"""The five-tuple of gymnax 0.x, for rejax, PureJaxRL and other trainers that were written for it.

    env, params = mnistpro_jax.adapters.gymnax.make("MnistPro-L1-v0", observation="canvas")
    obs, state = env.reset(key, params)
    obs, state, reward, done, info = env.step(key, state, action, params)

``step`` begins the next episode by itself, as gymnax does. ``info`` keeps what ``done`` merges.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.env import spaces
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, Observation, State
from mnistpro_jax.registration import make as make_world
from mnistpro_jax.rollouts.features import features, num_features

StepResult = tuple[Any, State, jax.Array, jax.Array, dict[str, Any]]


@dataclasses.dataclass(frozen=True, eq=False)
class GymnaxEnv:
    """``Environment`` with gymnax 0.x's ``reset`` and ``step``; static and hashable.

    Two are equal where all fields are, the default params being the same object: a program compiled for one of them
    holds its default params.

    env: the environment. default_params: its params. flatten: show one float32 vector (``features``), which
    the trainers' networks take, instead of an ``Observation``. keep_final_observation: whether ``info`` has
    "final_observation"; a trainer that stacks ``info`` over all steps, as PureJaxRL does, keeps every one of them in
    memory, so that it may have to go without.
    """

    env: Environment
    default_params: EnvParams = dataclasses.field(repr=False)
    flatten: bool = True
    keep_final_observation: bool = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GymnaxEnv) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        # Arrays cannot be hashed; while this object lives, no other params have this id.
        return self.env, id(self.default_params), self.flatten, self.keep_final_observation

    def reset(self, key: jax.Array, params: EnvParams | None = None) -> tuple[Any, State]:
        """Start a random episode: (observation, state)."""
        params = self._params(params)
        observation, state = self.env.reset(key, params)
        return self._show(observation, params), state

    def step(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams | None = None
    ) -> StepResult:
        """One step, and the next episode's start where this one ends.

        Returns (observation, state, reward float32 (), done bool (), info). info: "terminated" and "truncated",
        bool (), of which ``done`` is either; "discount", float32 (), 0 where terminated and else 1;
        "final_observation", what the episode shows after this step; "statistics", its ``EpisodeStatistics``.
        """
        params = self._params(params)
        return self._five(self.env.step(key, state, action, params), params)

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[Any, State]:
        """As ``reset``."""
        return self.reset(key, params)

    def step_env(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> StepResult:
        """As ``step``, without reset: after the end nothing changes, and the reward is 0."""
        return self._five(self.env.step_env(key, state, action, params), params)

    def action_space(self, params: EnvParams | None = None) -> Any:
        """A discrete space: gymnax's own where gymnax is installed, because trainers ask for its type."""
        number = self.num_actions
        try:
            from gymnax.environments import spaces as theirs
        except ImportError:
            return Discrete(number)
        return theirs.Discrete(number)

    def observation_space(self, params: EnvParams | None = None) -> Any:
        """The box of the float32 vector, gymnax's own where it is installed; not flattened, the environment's space."""
        if not self.flatten:
            return self.env.observation_space(params)
        shape = (num_features(self.env),)
        try:
            from gymnax.environments import spaces as theirs
        except ImportError:
            return Box(0.0, 1.0, shape, jnp.float32)
        return theirs.Box(0.0, 1.0, shape, jnp.float32)

    @property
    def num_actions(self) -> int:
        """Flat actions: four moves, then the answers. TypeError for more than two digits."""
        space = self.env.action_space()
        if not isinstance(space, spaces.Discrete):
            raise TypeError(
                f"{self.env.num_digits} digits have no flat actions, which gymnax's trainers need; use one or two"
            )
        return space.num_values

    @property
    def name(self) -> str:
        """Such as "MnistPro-L1"."""
        return f"MnistPro-L{self.env.num_digits}"

    def _params(self, params: EnvParams | None) -> EnvParams:
        return self.default_params if params is None else params

    def _show(self, observation: Observation, params: EnvParams) -> Any:
        return features(self.env, observation, params) if self.flatten else observation

    def _five(self, result: tuple[Any, ...], params: EnvParams) -> StepResult:
        observation, state, reward, terminated, truncated, info = result
        kept = {
            "terminated": terminated,
            "truncated": truncated,
            "discount": jnp.where(terminated, jnp.float32(0), jnp.float32(1)),
            "statistics": info["statistics"],
        }
        if self.keep_final_observation:
            kept["final_observation"] = self._show(info["final_observation"], params)
        return self._show(observation, params), state, reward, terminated | truncated, kept


@dataclasses.dataclass(frozen=True)
class Discrete:
    """Whole numbers 0 .. n - 1, with gymnax's names."""

    n: int
    shape: tuple[int, ...] = ()
    dtype: Any = jnp.int32

    def sample(self, key: jax.Array) -> jax.Array:
        """A uniform element, int32 ()."""
        return spaces.Discrete(self.n).sample(key)

    def contains(self, value: Any) -> bool:
        """Whether ``value`` is such a number."""
        return spaces.Discrete(self.n).contains(value)


@dataclasses.dataclass(frozen=True)
class Box:
    """Floats between two bounds, with gymnax's names."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: Any

    def sample(self, key: jax.Array) -> jax.Array:
        """A uniform element."""
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)

    def contains(self, value: Any) -> bool:
        """Whether ``value`` has this shape and dtype and lies within the bounds."""
        array = jnp.asarray(value)
        fits = array.shape == self.shape and array.dtype == self.dtype
        return fits and bool(jnp.all((array >= self.low) & (array <= self.high)))


def make(
    env_id: str, *, flatten: bool = True, keep_final_observation: bool = True, **overrides: Any
) -> tuple[GymnaxEnv, EnvParams]:
    """``mnistpro_jax.make`` in this shape: (env, params), as ``gymnax.make`` returns them."""
    env, params = make_world(env_id, **overrides)
    return GymnaxEnv(env, params, flatten, keep_final_observation), params
