"""The episodes of a run and the compiled steps that the drivers share: one episode at a time, or a batch.

Which episodes a run consists of, and where they start, is what ``mnistpro evaluate`` would play with the same level,
number and seed: results of both can be compared episode by episode.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mnistpro_jax import registration
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, EpisodeStatistics, Kind, Observation, State, pytree
from mnistpro_jax.evaluation.world import world
from mnistpro_jax.host.contract import ANSWER, MOVES, Decision, HostPolicy, Status
from mnistpro_jax.host.protocol import World
from mnistpro_jax.rollouts import rollout as rollouts
from mnistpro_jax.rollouts.rollout import Trajectories
from mnistpro_jax.runs.from_rollout import episode_records
from mnistpro_jax.worlds.published import canvas_of

if TYPE_CHECKING:
    from mnistpro_jax.data import Dataset
    from mnistpro_jax.evaluation.request import EvaluationRequest

CODES = {**{move: code for code, move in enumerate(MOVES)}, ANSWER: int(Kind.ANSWER)}


@pytree
class Shown:
    """What the environment shows after a step. words: uint32 (ceil(window / 32), window), the window's bitmap."""

    observation: Observation
    words: jax.Array
    ended: jax.Array


@dataclasses.dataclass(frozen=True, eq=False)
class Look:
    """``Shown`` of one episode on the host. words: as there, numpy. xy: the window's corner. step: actions taken.

    observation: on the device, for agents that ask for one.
    """

    observation: Observation
    words: npt.NDArray[np.uint32]
    xy: tuple[int, int]
    step: int
    ended: bool


@dataclasses.dataclass(frozen=True, eq=False)
class HostWorld:
    """The episodes of a run.

    env: its observation mode is the one that the agent asks for. dataset: where the images come from. scenes: int32
    (E, m). starts: int32 (E, 2). indices: int32 (E, n), images of the data set. seed: of the agents' randomness.
    """

    env: Environment
    params: EnvParams
    dataset: Dataset
    scenes: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int32]
    indices: npt.NDArray[np.int32]
    seed: int

    def __len__(self) -> int:
        return len(self.scenes)

    @functools.cached_property
    def budget(self) -> int:
        """Steps of an episode."""
        return int(self.params.budget)

    @property
    def rules(self) -> World:
        """The facts that the protocol's rules name."""
        env = self.env
        return World(
            height=env.height,
            width=env.width,
            window=env.window,
            stride=env.stride,
            digits=env.num_digits,
            num_classes=env.num_classes,
            budget=self.budget,
            outline=env.outline,
        )

    def seen_by(self, policy: HostPolicy) -> HostWorld:
        """The same episodes in the observation mode that an agent asks for."""
        mode = policy.observation or self.env.observation
        return dataclasses.replace(self, env=dataclasses.replace(self.env, observation=mode))

    def canvas(self, episode: int) -> npt.NDArray[np.uint8]:
        """The canvas of an episode, uint8 (H, W): 0 stroke, 255 background."""
        return canvas_of(self.dataset.images[self.indices[episode]])

    def labels(self, episode: int) -> tuple[int, ...]:
        """The digits of an episode."""
        return tuple(int(label) for label in self.dataset.labels[self.indices[episode]])

    def begin(self, episode: int) -> tuple[Look, State]:
        """The first turn of an episode."""
        return self._read(_begin(self.env, self.params, self.scenes[episode], self.starts[episode]))

    def _read(self, reached: tuple[Observation, State, jax.Array]) -> tuple[Look, State]:
        observation, state, sight = reached
        facts, words = np.split(np.asarray(sight), [_FACTS])
        ended, x, y, step = facts.tolist()
        return Look(observation, words.reshape(-1, self.env.window), (x, y), step, bool(ended)), state

    def begin_all(self, episodes: npt.NDArray[np.int32]) -> tuple[Shown, State]:
        """The first turns of B episodes, with a leading B."""
        return _begin_all(self.env, self.params, self.scenes[episodes], self.starts[episodes])

    def advance(self, state: State, decision: Decision) -> tuple[Look, State]:
        """The next turn of one episode."""
        kind, digits = codes(decision, self.env.num_digits)
        return self._read(_advance(self.env, self.params, state, kind, digits))

    def advance_all(
        self,
        states: State,
        kinds: npt.NDArray[np.int32],
        digits: npt.NDArray[np.int32],
        live: npt.NDArray[np.bool_],
    ) -> tuple[Shown, State]:
        """The next turns of B episodes; those that are not ``live``, bool (B,), stay as they are."""
        return _advance_all(self.env, self.params, states, kinds, digits, live)

    def warm_up(self) -> None:
        """Compile the steps of single episodes, so that no call's latency holds a compilation."""
        _, state = self.begin(0)
        self.advance(state, Decision(Status.OK, MOVES[0]))
        self.statistics(state)

    def statistics(self, state: State) -> EpisodeStatistics:
        """Counts of one episode, as numpy arrays."""
        found: EpisodeStatistics = jax.tree.map(np.asarray, _statistics(self.env, self.params, state))
        return found

    def record(
        self,
        episode: int,
        windows: list[tuple[int, int]],
        kinds: list[int],
        statistics: EpisodeStatistics,
    ) -> dict[str, Any]:
        """The record of one episode, as ``mnistpro evaluate`` would write it.

        windows: corners after reset and after each move. kinds: codes of the actions. statistics: of one episode.
        """
        trajectory = Trajectories(
            self.indices[episode][None],
            np.asarray(windows, np.int16)[None],
            np.asarray(kinds, np.int8)[None],
            jax.tree.map(lambda leaf: np.asarray(leaf)[None], statistics),
        )
        pixels = self.env.height * self.env.width
        return episode_records(
            trajectory, pixels, source=self.dataset.source, split=self.dataset.split, first=episode
        )[0]


def host_world(request: EvaluationRequest, dataset: Dataset) -> HostWorld:
    """The episodes of a request. Raises ValueError for a request that makes no sense."""
    env, bank = world(request, dataset)
    params = registration.make_params(env, bank, budget=request.budget)
    assert bank.episodes is not None
    scenes = np.asarray(bank.episodes.scenes)
    if bank.episodes.starts is not None:
        starts = np.asarray(bank.episodes.starts)
    else:
        key = jax.random.key(request.seed)
        starts = np.asarray(_draw_starts(env, params, key, scenes))
    indices = np.asarray(_sources(params, scenes))
    return HostWorld(env, params, dataset, scenes, starts, indices, request.seed)


def episode_keys(seed: int, episode: int) -> tuple[jax.Array, jax.Array]:
    """The keys of an agent's memory and actions in an episode; the same ones as in ``rollouts.rollout``."""
    return _episode_keys(jax.random.key(seed), np.int32(episode))


def codes(decision: Decision, num_digits: int) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """A decision as the environment's action: kind, int32 (), and digits, int32 (n,).

    A decision without an action becomes an invalid one.
    """
    kind = CODES[decision.action] if decision.status == Status.OK and decision.action else int(Kind.INVALID)
    digits = decision.answer if decision.answer is not None else (0,) * num_digits
    return np.asarray(kind, np.int32), np.asarray(digits, np.int32)


def digest_of(words: Any, xy: Any, step: Any) -> str:
    """What a turn shows, as 16 hexadecimal digits: the window's pixels, its corner, and the number of the turn."""
    found = hashlib.sha256(np.ascontiguousarray(words, "<u4").tobytes())
    found.update(np.asarray([*np.asarray(xy), step], "<i4").tobytes())
    return found.hexdigest()[:16]


def _look(env: Environment, params: EnvParams, observation: Observation, state: State, ended: Any) -> Shown:
    return Shown(observation, params.bank.crop(state.scene, state.xy, env.window), jnp.asarray(ended))


def begin(env: Environment, params: EnvParams, scene: Any, start: Any) -> tuple[Shown, State]:
    """The first turn of an episode: scene int32 (m,), start int32 (2,)."""
    observation, state = env.reset_to(scene, start, params)
    return _look(env, params, observation, state, False), state


def advance(env: Environment, params: EnvParams, state: State, kind: Any, digits: Any) -> tuple[Shown, State]:
    """The next turn: kind int32 (), digits int32 (n,)."""
    observation, state, _, terminated, truncated, _ = env.step_env(
        jax.random.key(0), state, Action(kind, digits), params
    )
    return _look(env, params, observation, state, terminated | truncated), state


_FACTS = 4  # ended, x, y, step


def _sight(shown: Shown, state: State) -> jax.Array:
    """What the host wants of a turn as one array, uint32 (4 + words,): each array that it waits for costs as much as
    the step itself."""
    facts = jnp.stack([shown.ended.astype(jnp.int32), *state.xy, state.step])
    return jnp.concatenate([facts.astype(jnp.uint32), shown.words.reshape(-1)])


@functools.partial(jax.jit, static_argnames="env")
def _begin(env: Environment, params: EnvParams, scene: Any, start: Any) -> tuple[Any, State, jax.Array]:
    shown, state = begin(env, params, scene, start)
    return shown.observation, state, _sight(shown, state)


@functools.partial(jax.jit, static_argnames="env")
def _advance(
    env: Environment, params: EnvParams, state: State, kind: Any, digits: Any
) -> tuple[Any, State, jax.Array]:
    shown, state = advance(env, params, state, kind, digits)
    return shown.observation, state, _sight(shown, state)


@functools.partial(jax.jit, static_argnames="env")
def _begin_all(env: Environment, params: EnvParams, scenes: Any, starts: Any) -> tuple[Shown, State]:
    return jax.vmap(begin, in_axes=(None, None, 0, 0))(env, params, scenes, starts)


def advance_live(
    env: Environment, params: EnvParams, states: State, kinds: Any, digits: Any, live: Any
) -> tuple[Shown, State]:
    """A batch of ``advance``; episodes that are not live stay as they are, and count as ended."""

    def one(state: State, kind: Any, digits: Any, live: Any) -> tuple[Shown, State]:
        shown, after = advance(env, params, state, kind, digits)
        after = jax.tree.map(lambda old, new: jnp.where(live, new, old), state, after)
        return dataclasses.replace(shown, ended=shown.ended | ~live), after

    return jax.vmap(one)(states, kinds, digits, live)


_advance_all = jax.jit(advance_live, static_argnames="env")


@functools.partial(jax.jit, static_argnames="env")
def _statistics(env: Environment, params: EnvParams, state: State) -> EpisodeStatistics:
    return env.statistics(state, params)


@functools.partial(jax.jit, static_argnames="env")
def _draw_starts(env: Environment, params: EnvParams, key: jax.Array, scenes: Any) -> jax.Array:
    def start(number: jax.Array, scene: jax.Array) -> jax.Array:
        _, start_key, _, _ = rollouts.episode_keys(key, number)
        return env.draw_start(start_key, scene, params)

    return jax.vmap(start)(jnp.arange(len(scenes), dtype=jnp.int32), jnp.asarray(scenes))


@jax.jit
def _episode_keys(key: jax.Array, episode: Any) -> tuple[jax.Array, jax.Array]:
    _, _, memory_key, action_key = rollouts.episode_keys(key, episode)
    return memory_key, action_key


@jax.jit
def _sources(params: EnvParams, scenes: Any) -> jax.Array:
    return jax.vmap(params.bank.source_indices)(jnp.asarray(scenes))
