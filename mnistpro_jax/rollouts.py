"""Batched episode collection: run a policy for any number of episodes.

A fixed number of lanes runs episodes side by side; a lane whose episode ends takes the next one, so that long
episodes do not hold up short ones. All randomness of an episode comes from its own number, so that its result
does not depend on how many lanes or chunks there were. Memory is bounded by the chunk, whatever the number of
episodes; finished chunks go to the host.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.compile_hints import where_needed
from mnistpro_jax.env import Environment, EnvParams
from mnistpro_jax.types import Ending, EpisodeStatistics, Kind, Observation, State, pytree

if TYPE_CHECKING:
    from mnistpro_jax.agents.base import Policy

Progress = Callable[[int, int], None]


@dataclasses.dataclass(frozen=True)
class Trajectories:
    """What happened in N episodes, as numpy arrays; about 300 bytes an episode at level 1.

    indices: int32 (N, n), images of the scene in their data set. windows: int16 (N, L + 1, 2), window corners
    (x, y) after reset and after each move; -1 past the end. kinds: int8 (N, L), a ``Kind`` an action, -1 past
    the end. statistics: an ``EpisodeStatistics`` with a leading N. L is the budget.
    """

    indices: NDArray[np.int32]
    windows: NDArray[np.int16]
    kinds: NDArray[np.int8]
    statistics: EpisodeStatistics

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def start_xy(self) -> NDArray[np.int16]:
        """int16 (N, 2)."""
        return self.windows[:, 0]

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        leaves = [self.indices, self.windows, self.kinds, *jax.tree.leaves(self.statistics)]
        return sum(leaf.nbytes for leaf in leaves)


@pytree
class _Plan:
    """Which episodes a rollout consists of. scenes: int32 (N, m) or None. starts: int32 (N, 2) or None."""

    key: jax.Array
    scenes: jax.Array | None
    starts: jax.Array | None


@pytree
class _Lanes:
    """Everything that the loop carries. episode: int32 (B,), number within the chunk."""

    episode: jax.Array
    key: jax.Array
    observation: Observation
    state: State
    memory: Any
    taken: jax.Array
    finished: jax.Array
    indices: jax.Array
    windows: jax.Array
    kinds: jax.Array
    statistics: EpisodeStatistics


def rollout(
    key: jax.Array,
    env: Environment,
    params: EnvParams,
    policy: Policy[Any],
    num_episodes: int,
    *,
    scenes: NDArray[np.integer] | None = None,
    starts: NDArray[np.integer] | None = None,
    batch_size: int = 1024,
    chunk_size: int | None = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Run ``policy`` for ``num_episodes`` episodes.

    Which episodes: those of ``scenes``, int32 (N, m) tile numbers of the bank, and ``starts``, int32 (N, 2) window
    corners, where given; else the bank's list, in order and from its beginning again when it ends, with its
    starts where the start rule is "published"; else scenes drawn at random. Starts that are not given follow
    the environment's start rule.

    policy: see ``agents.base.Policy``; the environment shows it the observation mode that it asks for.
    batch_size: lanes. chunk_size: episodes kept on the device (16 a lane). progress: called with (finished, total)
    a few times a second.

    Raises ValueError for counts below 1 and for arrays that do not fit.
    """
    for name, value in (("num_episodes", num_episodes), ("batch_size", batch_size)):
        if value < 1:
            raise ValueError(f"{name} is {value}; expected 1 or more")
    env = dataclasses.replace(env, observation=policy.observation)
    lanes = min(batch_size, num_episodes)
    chunk = min(num_episodes, max(lanes, chunk_size if chunk_size is not None else 16 * lanes))
    if np.ndim(params.budget) != 0:
        raise ValueError("params.budget has a batch axis; run one rollout for each value")
    length = int(params.budget)

    bank = params.bank
    if scenes is None and bank.episodes is not None:
        order = np.arange(num_episodes) % bank.episodes.scenes.shape[0]
        scenes = np.asarray(bank.episodes.scenes)[order]
        if starts is None and env.start == "published" and bank.episodes.starts is not None:
            starts = np.asarray(bank.episodes.starts)[order]
    for name, array, width in (("scenes", scenes, bank.tiles_per_scene), ("starts", starts, 2)):
        if array is not None and np.shape(array) != (num_episodes, width):
            raise ValueError(f"{name} has shape {np.shape(array)}; expected {(num_episodes, width)}")
    if scenes is not None and (np.min(scenes) < 0 or np.max(scenes) >= bank.num_tiles):
        raise ValueError(
            f"scenes span {np.min(scenes)}..{np.max(scenes)}; the bank has tiles 0..{bank.num_tiles - 1}"
        )

    parts: list[Trajectories] = []
    for first in range(0, num_episodes, chunk):
        count = min(chunk, num_episodes - first)
        # The last chunk keeps the shape, and with it the compiled program.
        rows = np.minimum(np.arange(first, first + chunk), num_episodes - 1)
        plan = _Plan(
            key,
            None if scenes is None else jnp.asarray(np.asarray(scenes)[rows], jnp.int32),
            None if starts is None else jnp.asarray(np.asarray(starts)[rows], jnp.int32),
        )
        parts.append(
            _collect(env, params, policy, plan, first, count, lanes, chunk, length, num_episodes, progress)
        )
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[_as_tree(part) for part in parts])
    return Trajectories(*joined)


def _as_tree(part: Trajectories) -> tuple[Any, ...]:
    return part.indices, part.windows, part.kinds, part.statistics


def _collect(
    env: Environment,
    params: EnvParams,
    policy: Policy[Any],
    plan: _Plan,
    first: int,
    count: int,
    lanes: int,
    chunk: int,
    length: int,
    total: int,
    progress: Progress | None,
) -> Trajectories:
    """One chunk of episodes, numbers first .. first + count - 1."""
    base, limit = jnp.asarray(first, jnp.int32), jnp.asarray(count, jnp.int32)
    carry = _begin(env, lanes, chunk, length, params, policy, plan, base)
    turns = 4
    while True:
        began = time.monotonic()
        carry = _advance(env, length, params, policy, plan, base, limit, jnp.asarray(turns, jnp.int32), carry)
        finished = int(carry.finished)
        if progress is not None:
            progress(first + finished, total)
        if finished >= count:
            break
        # Come back to the host a few times a second: for progress, and so that Ctrl-C is heard.
        turns = min(2 * turns, 1 << 20) if time.monotonic() - began < 0.25 else max(1, turns // 2)
    results = (carry.indices, carry.windows, carry.kinds, carry.statistics)
    return Trajectories(*jax.tree.map(lambda leaf: np.asarray(leaf)[:count], results))


def _start(
    env: Environment, params: EnvParams, policy: Policy[Any], plan: _Plan, base: jax.Array, episode: jax.Array
) -> tuple[jax.Array, Observation, State, Any]:
    """The beginning of an episode: (its key for actions, observation, state, the policy's memory)."""
    scene_key, start_key, memory_key, action_key = jax.random.split(
        jax.random.fold_in(plan.key, base + episode), 4
    )
    if plan.scenes is None:
        observation, state = env.reset_env(scene_key, params)
    else:
        row = jnp.minimum(episode, plan.scenes.shape[0] - 1)
        scene = plan.scenes[row]
        start = env.draw_start(start_key, scene, params) if plan.starts is None else plan.starts[row]
        observation, state = env.reset_to(scene, start, params)
    return action_key, observation, state, policy.init(memory_key)


@functools.partial(jax.jit, static_argnames=("env", "lanes", "chunk", "length"))
def _begin(
    env: Environment,
    lanes: int,
    chunk: int,
    length: int,
    params: EnvParams,
    policy: Policy[Any],
    plan: _Plan,
    base: jax.Array,
) -> _Lanes:
    """Lanes with the first episodes, and empty records."""
    episode = jnp.arange(lanes, dtype=jnp.int32)
    key, observation, state, memory = jax.vmap(
        lambda number: _start(env, params, policy, plan, base, number)
    )(episode)
    statistics = jax.eval_shape(
        lambda s: env.statistics(s, params), jax.tree.map(lambda leaf: leaf[0], state)
    )
    return _Lanes(
        episode=episode,
        key=key,
        observation=observation,
        state=state,
        memory=memory,
        taken=jnp.asarray(lanes, jnp.int32),
        finished=jnp.zeros((), jnp.int32),
        indices=jnp.zeros((chunk, env.num_digits), jnp.int32),
        windows=jnp.full((chunk, length + 1, 2), -1, jnp.int16).at[:lanes, 0].set(state.xy.astype(jnp.int16)),
        kinds=jnp.full((chunk, length), Kind.NONE, jnp.int8),
        statistics=jax.tree.map(lambda leaf: jnp.zeros((chunk, *leaf.shape), leaf.dtype), statistics),
    )


@functools.partial(jax.jit, static_argnames=("env", "length"), donate_argnames="carry")
def _advance(
    env: Environment,
    length: int,
    params: EnvParams,
    policy: Policy[Any],
    plan: _Plan,
    base: jax.Array,
    limit: jax.Array,
    turns: jax.Array,
    carry: _Lanes,
) -> _Lanes:
    """At most ``turns`` steps of all lanes."""
    shared = (params, policy, plan, base)

    def start(episode: jax.Array, shared: tuple[Any, ...]) -> tuple[jax.Array, Observation, State, Any]:
        params, policy, plan, base = shared
        return _start(env, params, policy, plan, base, episode)

    def turn(lanes: _Lanes) -> _Lanes:
        running = lanes.episode < limit
        keys = jax.vmap(jax.random.fold_in)(lanes.key, lanes.observation.step)
        action, memory = jax.vmap(policy.act)(keys, lanes.observation, lanes.memory)
        step = lanes.state.step
        observation, state, _, terminated, truncated, info = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))(
            keys, lanes.state, action, params
        )
        # Records are written at the episode's row; lanes without an episode write out of range, which is dropped.
        chunk = lanes.kinds.shape[0]
        row = jnp.where(running, lanes.episode, chunk)
        kinds = lanes.kinds.at[row, step].set(state.last_action.astype(jnp.int8), mode="drop")
        moved = (state.last_action >= Kind.UP) & (state.last_action <= Kind.RIGHT)
        moved_row = jnp.where(moved, row, chunk)
        windows = lanes.windows.at[moved_row, step + 1].set(state.xy.astype(jnp.int16), mode="drop")
        done = (terminated | truncated) & running
        done_row = jnp.where(done, row, chunk)
        source = jax.vmap(params.bank.source_indices)(state.scene)
        indices = lanes.indices.at[done_row].set(source, mode="drop")
        statistics = jax.tree.map(
            lambda rows, new: rows.at[done_row].set(new, mode="drop"), lanes.statistics, info["statistics"]
        )

        fresh = lanes.taken + jnp.cumsum(done, dtype=jnp.int32) - 1
        episode = jnp.where(done, fresh, lanes.episode)
        begins = done & (episode < limit)
        otherwise = (lanes.key, observation, state, memory)
        key, observation, state, memory = jax.vmap(
            lambda needed, number, old: where_needed(needed, start, number, old, shared)
        )(begins, episode, otherwise)
        begin_row = jnp.where(begins, episode, chunk)
        return _Lanes(
            episode=episode,
            key=key,
            observation=observation,
            state=state,
            memory=memory,
            taken=lanes.taken + jnp.sum(done, dtype=jnp.int32),
            finished=lanes.finished + jnp.sum(done, dtype=jnp.int32),
            indices=indices,
            windows=windows.at[begin_row, 0].set(state.xy.astype(jnp.int16), mode="drop"),
            kinds=kinds,
            statistics=statistics,
        )

    def body(loop: tuple[jax.Array, _Lanes]) -> tuple[jax.Array, _Lanes]:
        return loop[0] + 1, turn(loop[1])

    def going_on(loop: tuple[jax.Array, _Lanes]) -> jax.Array:
        return (loop[0] < turns) & (loop[1].finished < limit)

    return jax.lax.while_loop(going_on, body, (jnp.zeros((), jnp.int32), carry))[1]


def ending_counts(statistics: EpisodeStatistics) -> dict[str, int]:
    """How many episodes ended in which way, by the names of ``Ending``."""
    endings = np.asarray(statistics.ending)
    return {ending.name: int((endings == ending).sum()) for ending in Ending if ending != Ending.RUNNING}
