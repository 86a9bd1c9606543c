"""gymnax's interface with flat observations, for trainers whose networks take one vector.

    env, params = mnistpro_jax.adapters.gymnax.make("MnistPro-L1-v0", observation="canvas")
    obs, state = env.reset(key, params)
    obs, state, reward, done, info = env.step(key, state, action, params)

That is gymnax 0.x, for which rejax and PureJaxRL were written: ``GymnaxEnv``. Its ``info`` keeps what ``done`` merges.
With ``version=1`` (``Gymnax1Env``) ``step`` returns the six values of gymnax 1.x, for its wrappers. The environment
itself has that shape already, with observations as a pytree. ``step`` begins the next episode by itself in all of them.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp

from mnistpro_jax.env import spaces
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.gymnax_names import GymnaxNames
from mnistpro_jax.env.types import Action, Observation, State
from mnistpro_jax.registration import make as make_world
from mnistpro_jax.rollouts.features import features, num_features

FiveTuple = tuple[Any, State, jax.Array, jax.Array, dict[str, Any]]
SixTuple = tuple[Any, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]


@dataclasses.dataclass(unsafe_hash=True)
class _Flat(GymnaxNames):
    """What both versions share. Not frozen, because gymnax's vector wrapper puts its own functions on a copy."""

    env: Environment
    default_params: EnvParams = dataclasses.field(repr=False)
    flatten: bool = True
    keep_final_observation: bool = True

    @property
    def num_digits(self) -> int:  # type: ignore[override]
        """Digits of an answer."""
        return self.env.num_digits

    def reset(self, key: jax.Array, params: EnvParams | None = None) -> tuple[Any, State]:
        """Start a random episode: (observation, state)."""
        return _reset(self.env, self.flatten, key, self._params(params))

    def reset_env(self, key: jax.Array, params: EnvParams) -> tuple[Any, State]:
        """As ``reset``."""
        return self.reset(key, params)

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
        return self.env.num_actions

    def _params(self, params: EnvParams | None) -> EnvParams:
        return self.default_params if params is None else params

    @property
    def _how(self) -> tuple[Environment, bool, bool]:
        return self.env, self.flatten, self.keep_final_observation


@dataclasses.dataclass(unsafe_hash=True)
class GymnaxEnv(_Flat):
    """``Environment`` with gymnax 0.x's ``reset`` and ``step``; static and hashable.

    Two are equal where all fields are, the default params too: a program compiled for one of them holds its default
    params.

    env: the environment. default_params: its params. flatten: show one float32 vector (``features``), which
    the trainers' networks take, instead of an ``Observation``. keep_final_observation: whether ``info`` has
    "final_observation"; a trainer that stacks ``info`` over all steps, as PureJaxRL does, keeps every one of them in
    memory, so that it may have to go without.
    """

    def step(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams | None = None
    ) -> FiveTuple:
        """One step, and the next episode's start where this one ends.

        Returns (observation, state, reward float32 (), done bool (), info). info: "terminated" and "truncated",
        bool (), of which ``done`` is either; "discount", float32 (), 0 where terminated and else 1;
        "final_observation", what the episode shows after this step; "statistics", its ``EpisodeStatistics``.
        """
        return _five(_step(*self._how, "step", key, state, action, self._params(params)))

    def step_env(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> FiveTuple:
        """As ``step``, without reset: after the end nothing changes, and the reward is 0."""
        return _five(_step(*self._how, "step_env", key, state, action, params))


@dataclasses.dataclass(unsafe_hash=True)
class Gymnax1Env(_Flat):
    """``Environment`` with gymnax 1.x's ``reset`` and ``step`` and flat observations, for its wrappers. Fields and
    ``info`` as of ``GymnaxEnv``."""

    def step(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams | None = None
    ) -> SixTuple:
        """One step, and the next episode's start where this one ends.

        Returns (observation, state, reward float32 (), terminated bool (), truncated bool (), info).
        """
        return _step(*self._how, "step", key, state, action, self._params(params))

    def step_env(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> SixTuple:
        """As ``step``, without reset: after the end nothing changes, and the reward is 0."""
        return _step(*self._how, "step_env", key, state, action, params)


@functools.partial(jax.jit, static_argnums=(0, 1), inline=True)
def _reset(env: Environment, flatten: bool, key: jax.Array, params: EnvParams) -> tuple[Any, State]:
    observation, state = env.reset(key, params)
    return _shown(env, flatten, observation, params), state


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3), inline=True)
def _step(
    env: Environment,
    flatten: bool,
    keep_final_observation: bool,
    method: str,
    key: jax.Array,
    state: State,
    action: jax.Array | Action,
    params: EnvParams,
) -> SixTuple:
    result = getattr(env, method)(key, state, action, params)
    observation, state, reward, terminated, truncated, info = result
    kept = {
        "terminated": terminated,
        "truncated": truncated,
        "discount": jnp.where(terminated, jnp.float32(0), jnp.float32(1)),
        "statistics": info["statistics"],
    }
    if keep_final_observation:
        kept["final_observation"] = _shown(env, flatten, info["final_observation"], params)
    return _shown(env, flatten, observation, params), state, reward, terminated, truncated, kept


def _shown(env: Environment, flatten: bool, observation: Observation, params: EnvParams) -> Any:
    return features(env, observation, params) if flatten else observation


def _five(result: SixTuple) -> FiveTuple:
    observation, state, reward, terminated, truncated, info = result
    return observation, state, reward, terminated | truncated, info


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


@overload
def make(
    env_id: str,
    *,
    version: Literal[0] = 0,
    flatten: bool = True,
    keep_final_observation: bool = True,
    **overrides: Any,
) -> tuple[GymnaxEnv, EnvParams]: ...
@overload
def make(
    env_id: str,
    *,
    version: Literal[1],
    flatten: bool = True,
    keep_final_observation: bool = True,
    **overrides: Any,
) -> tuple[Gymnax1Env, EnvParams]: ...
def make(
    env_id: str,
    *,
    version: int = 0,
    flatten: bool = True,
    keep_final_observation: bool = True,
    **overrides: Any,
) -> tuple[Any, EnvParams]:
    """``mnistpro_jax.make`` in this shape: (env, params), as ``gymnax.make`` returns them.

    version: 0 for a ``GymnaxEnv``, 1 for a ``Gymnax1Env``; ValueError for another. overrides: of ``mnistpro_jax.make``.
    """
    if version not in (0, 1):
        raise ValueError(f"version is {version!r}; expected gymnax's major version, 0 or 1")
    env, params = make_world(env_id, **overrides)
    shape = Gymnax1Env if version else GymnaxEnv
    return shape(env, params, flatten, keep_final_observation), params
