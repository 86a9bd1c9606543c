"""A batch of episodes stepped from Python: numpy in, numpy out, one jitted call a step.

What Gymnasium's and dm_env's adapters share. Each lane has a seed of its own, and episode number e of a lane
follows from (seed, e) alone: not from the batch, the other lanes, or the mode of reset.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.compile_hints import where_needed
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, EpisodeStatistics, Observation, State, pytree
from mnistpro_jax.render.published import published_picture
from mnistpro_jax.rollouts.features import shown_as

AutoReset = Literal["same_step", "next_step", "disabled"]


@pytree
class Lanes:
    """What lives on the device between steps, N lanes.

    state: the episodes. words: uint32 (N, 2), a lane's random words, from its seed. episode: uint32 (N,), number of
    the lane's episode since it was seeded. ended: bool (N,), over and waiting for a reset.
    """

    state: State
    words: jax.Array
    episode: jax.Array
    ended: jax.Array


@dataclasses.dataclass(frozen=True)
class Turn:
    """What a step gives, N lanes.

    observation: see ``HostBatch``. reward: float32 (N,). terminated, truncated: bool (N,).

    ``final_observation`` and ``statistics`` are fetched when they are called for.
    """

    observation: Any
    reward: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    _final_observation: Any
    _statistics: EpisodeStatistics

    def final_observation(self) -> Any:
        """What each lane's episode shows after this step, as ``observation``; only in the mode "same_step"."""
        return _fetch(self._final_observation, copy=True)

    def statistics(self) -> dict[str, NDArray[Any]]:
        """Fields of ``EpisodeStatistics`` by name, (N, ...); all zero in lanes whose episode goes on."""
        names = [field.name for field in dataclasses.fields(EpisodeStatistics)]
        return {name: _fetch(getattr(self._statistics, name), copy=True) for name in names}


class HostBatch:
    """N lanes with one environment.

    Observations are dictionaries by the fields of ``mnistpro_jax.Observation`` with a leading N, scalars as (N, 1)
    (a view of "canvas" is a dictionary again: stroke, revealed); with ``flatten`` one float32 (N, D) (``features``).

    autoreset: "same_step": the step that ends an episode already shows the next one. "next_step": it shows the end,
    and the lane's next step ignores its action and shows the next episode, with reward 0. "disabled": ended lanes
    must be reset before the next step. copy: whether arrays belong to the caller; else they may be read-only views
    of the device's memory, which never change.
    """

    def __init__(
        self,
        env: Environment,
        params: EnvParams,
        num_envs: int,
        *,
        autoreset: AutoReset = "same_step",
        flatten: bool = False,
        copy: bool = True,
    ) -> None:
        if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise ValueError(f"num_envs is {num_envs!r}; expected a whole number, 1 or more")
        self.env, self.params, self.num_envs = env, params, int(num_envs)
        self.autoreset, self.flatten, self.copy = autoreset, flatten, copy
        self._ranges = action_ranges(env)
        self._action_shape = (
            (self.num_envs,) if len(self._ranges) == 1 else (self.num_envs, len(self._ranges))
        )
        self._lanes: Lanes | None = None
        self._shown: Any = None  # the last observation on the device, for lanes that a reset leaves alone
        self._ended: NDArray[np.bool_] = np.zeros(self.num_envs, np.bool_)

    @property
    def started(self) -> bool:
        """Whether there are episodes."""
        return self._lanes is not None

    @property
    def state(self) -> State:
        """The states of all lanes, on the device. The next step gives their memory back: copy what should stay."""
        return self._running().state

    def reset(self, seeds: Sequence[int | None] | None = None, mask: NDArray[np.bool_] | None = None) -> Any:
        """Begin new episodes; returns the observation of all lanes.

        seeds: one a lane, whole numbers >= 0; a lane with None goes on with the next episode of its seed, or of a
        fresh random one where it has none. mask: bool (N,), which lanes; all if None. The first reset takes all.
        """
        first = self._lanes is None
        chosen = np.ones(self.num_envs, np.bool_) if mask is None else _checked_mask(mask, self.num_envs)
        if first and not chosen.all():
            raise RuntimeError("reset of some lanes before the first reset of all; call reset without a mask")
        seeds = _checked_seeds(seeds, self.num_envs)
        words = np.zeros((self.num_envs, 2), np.uint32)
        seeded = np.zeros(self.num_envs, np.bool_)
        for lane in np.flatnonzero(chosen).tolist():
            if seeds[lane] is not None or first:
                words[lane] = seed_words(np.random.default_rng(seeds[lane]))
                seeded[lane] = True
        if first:
            lanes, shown = _nothing(self.env, self.flatten, self.num_envs, self.params)
        else:
            lanes, shown = self._running(), self._shown
        self._lanes, self._shown = _restart(
            self.env, self.flatten, lanes, shown, chosen, seeded, words, self.params
        )
        self._ended = self._ended & ~chosen
        return _fetch(self._shown, copy=self.copy)

    def step_one(self, action: Any) -> Turn:
        """``step`` of a batch of one, with the action alone: integers (), or (1 + n,) for more than two digits."""
        array = np.asarray(action)
        if array.shape != self._action_shape[1:]:
            raise ValueError(f"the action has shape {array.shape}; expected {self._action_shape[1:]}")
        if array.dtype.kind not in "iu":
            raise TypeError(f"the action has dtype {array.dtype}; expected integers of shape {array.shape}")
        return self.step(array[None])

    def step(self, actions: Any) -> Turn:
        """One action a lane: integers (N,) in ``action_ranges``, or (N, 1 + n) for more than two digits.

        Raises TypeError or ValueError for actions of another dtype, shape or range, RuntimeError before the first
        reset, and for ended lanes where resets are disabled. Nothing has changed then.
        """
        lanes = self._running()
        checked = self._checked(actions)
        if self.autoreset == "disabled" and self._ended.any():
            which = ", ".join(map(str, np.flatnonzero(self._ended)[:8]))
            raise RuntimeError(
                "the episode has ended; call reset before the next step"
                if self.num_envs == 1
                else f"episodes of lanes {which} have ended; reset them before the next step"
            )
        self._lanes, shown, reward, terminated, truncated, final, statistics = _advance(
            self.env, self.flatten, self.autoreset, lanes, checked, self.params
        )
        self._shown = shown
        observation, reward, terminated, truncated = _fetch(
            (shown, reward, terminated, truncated), copy=self.copy
        )
        if self.autoreset == "disabled":
            self._ended = terminated | truncated
        return Turn(observation, reward, terminated, truncated, final, statistics)

    def statistics(self) -> dict[str, NDArray[Any]]:
        """Fields of ``EpisodeStatistics`` of the episodes so far, by name, (N, ...)."""
        statistics = _statistics(self.env, self._running().state, self.params)
        names = [field.name for field in dataclasses.fields(EpisodeStatistics)]
        return {name: _fetch(getattr(statistics, name), copy=True) for name in names}

    def pictures(self) -> list[NDArray[np.uint8]]:
        """The published picture of each lane, uint8 (height, width, 3)."""
        state = self._running().state
        canvases = np.where(np.asarray(_canvases(self.params.bank, state.scene)) != 0, 0, 255).astype(
            np.uint8
        )
        corners = np.asarray(state.xy)
        window = self.env.window
        return [published_picture(canvas, xy, window) for canvas, xy in zip(canvases, corners, strict=True)]

    def _running(self) -> Lanes:
        if self._lanes is None:
            raise RuntimeError("no episode has begun; call reset first")
        return self._lanes

    def _checked(self, actions: Any) -> NDArray[np.int32]:
        """The actions as int32. Three passes over N numbers: cheap beside the step."""
        array = np.asarray(actions)
        if array.dtype.kind not in "iu":
            raise TypeError(
                f"actions have dtype {array.dtype}; expected integers of shape {self._action_shape}"
            )
        if array.shape != self._action_shape:
            raise ValueError(
                f"actions have shape {array.shape}; expected {self._action_shape}, one action for each environment"
            )
        # As unsigned numbers, negative ones are large, so that one comparison finds both ends.
        unsigned = array.astype(np.int64).view(np.uint64)
        outside = unsigned >= self._ranges if len(self._ranges) > 1 else unsigned >= self._ranges[0]
        if outside.any():
            where = np.unravel_index(int(np.argmax(outside)), array.shape)
            limit = int(self._ranges[where[-1] if len(self._ranges) > 1 else 0])
            raise ValueError(
                f"action {array[where]} of environment {int(where[0])} is out of range; expected 0 to {limit - 1}"
            )
        return array.astype(np.int32)


def action_ranges(env: Environment) -> NDArray[np.uint64]:
    """How many values each part of an action has: (4 + answers,) for one and two digits, else (5, 10, 10, ...)."""
    if env.num_digits <= 2:
        return np.array([4 + env.num_classes**env.num_digits], np.uint64)
    return np.array([5] + [env.num_classes] * env.num_digits, np.uint64)


def seed_words(generator: np.random.Generator) -> NDArray[np.uint32]:
    """A lane's random words, uint32 (2,): the first draw of its seed's generator."""
    return generator.integers(2**32, size=2, dtype=np.uint32)


# ---- Programs -------------------------------------------------------------------------------------------------


def _keys(words: jax.Array, episode: jax.Array) -> jax.Array:
    """One key an episode. The words are random already, so that counting in one of them gives keys of their own."""
    data = jnp.stack([words[:, 0], words[:, 1] + episode], axis=1)
    return jax.random.wrap_key_data(data, impl="threefry2x32")


def _nothing(env: Environment, flatten: bool, num_envs: int, params: EnvParams) -> tuple[Lanes, Any]:
    """Lanes and observations of the right shapes, all zero, for the first reset to replace."""

    def begin(keys: jax.Array, params: EnvParams) -> tuple[Any, State]:
        observation, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)
        return shown_as(env, flatten, observation, params), state

    keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0, impl="threefry2x32"), num_envs))
    shapes = jax.eval_shape(begin, keys, params)
    shown, state = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    words, episode = np.zeros((num_envs, 2), np.uint32), np.zeros(num_envs, np.uint32)
    parts = jax.device_put((state, words, episode, np.zeros(num_envs, np.bool_), shown))
    return Lanes(*parts[:4]), parts[4]


def _where_lanes(mask: jax.Array, chosen: Any, otherwise: Any) -> Any:
    return jax.tree.map(
        lambda new, old: jnp.where(mask.reshape(-1, *[1] * (old.ndim - 1)), new, old), chosen, otherwise
    )


@functools.partial(jax.jit, static_argnames=("env", "flatten"), donate_argnames="lanes")
def _restart(
    env: Environment,
    flatten: bool,
    lanes: Lanes,
    shown: Any,
    mask: jax.Array,
    seeded: jax.Array,
    words: jax.Array,
    params: EnvParams,
) -> tuple[Lanes, Any]:
    words = jnp.where(seeded[:, None], words, lanes.words)
    episode = jnp.where(seeded, jnp.uint32(0), lanes.episode + mask.astype(jnp.uint32))
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(_keys(words, episode), params)
    fresh = shown_as(env, flatten, observation, params)
    restarted = Lanes(_where_lanes(mask, state, lanes.state), words, episode, lanes.ended & ~mask)
    return restarted, _where_lanes(mask, fresh, shown)


@functools.partial(jax.jit, static_argnames=("env", "flatten", "autoreset"), donate_argnames="lanes")
def _advance(
    env: Environment, flatten: bool, autoreset: AutoReset, lanes: Lanes, action: jax.Array, params: EnvParams
) -> tuple[Any, ...]:
    """(lanes, observation, reward, terminated, truncated, final observation, statistics of ended episodes)."""
    acted = action if action.ndim == 1 else Action(action[:, 0], action[:, 1:])
    # Ended episodes are never stepped: they have been reset, begin anew below, or were refused by the host.
    advance = env.step if autoreset == "same_step" else env.step_running
    keys = _keys(lanes.words, lanes.episode + jnp.uint32(1))
    observation, state, reward, terminated, truncated, info = jax.vmap(advance, in_axes=(0, 0, 0, None))(
        keys, lanes.state, acted, params
    )
    waited = lanes.ended
    final: Any = ()
    if autoreset == "same_step":
        begun = terminated | truncated
        final = shown_as(env, flatten, info["final_observation"], params)
    elif autoreset == "next_step":
        # The step of an episode that waited for its reset means nothing, and is replaced by the next one's beginning.
        def restart(key: jax.Array, params: EnvParams) -> tuple[Observation, State]:
            return env.reset(key, params)

        observation, state = jax.vmap(
            lambda needed, key, otherwise: where_needed(needed, restart, key, otherwise, params)
        )(waited, keys, (observation, state))
        reward = jnp.where(waited, jnp.float32(0), reward)
        terminated, truncated, begun = terminated & ~waited, truncated & ~waited, waited
    else:
        begun = jnp.zeros_like(terminated)
    done = terminated | truncated
    ended = jnp.zeros_like(done) if autoreset == "same_step" else done
    following = Lanes(state, lanes.words, lanes.episode + begun.astype(jnp.uint32), ended)
    statistics = jax.vmap(env.final_statistics, in_axes=(0, 0, None))(done, info["final_state"], params)
    shown = shown_as(env, flatten, observation, params)
    return following, shown, reward, terminated, truncated, final, statistics


@functools.partial(jax.jit, static_argnames="env")
def _statistics(env: Environment, state: State, params: EnvParams) -> EpisodeStatistics:
    return jax.vmap(env.statistics, in_axes=(0, None))(state, params)


@jax.jit
def _canvases(bank: Bank, scene: jax.Array) -> jax.Array:
    """uint8 (N, H, W), 1 = stroke."""
    return bitmap.unpack(jax.vmap(bank.canvas)(scene), bank.width)


# ---- Between host and device ----------------------------------------------------------------------------------


def _fetch(tree: Any, *, copy: bool) -> Any:
    """Device arrays as numpy arrays, in one round trip."""
    leaves, structure = jax.tree.flatten(tree)
    if leaves and not leaves[0].is_fully_addressable:
        raise RuntimeError("arrays are spread over several processes; step each process's own batch")
    if leaves and next(iter(leaves[0].devices())).platform != "cpu":
        for leaf in leaves:
            leaf.copy_to_host_async()
    arrays = [np.asarray(leaf) for leaf in leaves]
    return jax.tree.unflatten(structure, [np.array(array) for array in arrays] if copy else arrays)


def _checked_seeds(seeds: Sequence[int | None] | None, num_envs: int) -> Sequence[int | None]:
    if seeds is None:
        return [None] * num_envs
    if len(seeds) != num_envs:
        raise ValueError(f"{len(seeds)} seeds for {num_envs} environments; expected one for each")
    for seed in seeds:
        if seed is None:
            continue
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"seed is {seed!r}; expected a whole number, 0 or more")
    return seeds


def _checked_mask(mask: Any, num_envs: int) -> NDArray[np.bool_]:
    array = np.asarray(mask)
    if array.dtype != np.bool_ or array.shape != (num_envs,):
        raise ValueError(
            f"reset mask has dtype {array.dtype} and shape {array.shape}; expected bool ({num_envs},)"
        )
    if not array.any():
        raise ValueError("reset mask chooses no environment; expected at least one True")
    return array
