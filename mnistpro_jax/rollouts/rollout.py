"""Batched episode collection: run a policy for any number of episodes.

A fixed number of lanes runs episodes side by side; a lane whose episode ends takes the next one, so that long
episodes do not hold up short ones. All randomness of an episode comes from its own number, so that its result
does not depend on how many lanes, chunks or devices there were. Memory is bounded by the chunk, whatever the number
of episodes; finished chunks go to the host. On several devices each runs its own part of a chunk in a loop of its own.
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

from mnistpro_jax.env.compile_hints import where_needed
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import EpisodeStatistics, Kind, Observation, State, pytree
from mnistpro_jax.rollouts.sharding import num_devices, on_each_device, parts_of, replicated, row_each

if TYPE_CHECKING:
    from jax.sharding import Mesh

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
    """The episodes of one device in a chunk: numbers base .. base + limit - 1 of the rollout.

    base, limit: int32 (). scenes: int32 (rows, m) or None. starts: int32 (rows, 2) or None. Made for all devices at
    once, with a leading axis of devices.
    """

    base: Any
    limit: Any
    scenes: Any
    starts: Any


@pytree
class _Lanes:
    """Everything that the loop carries. episode: int32 (B,), number within the device's part of the chunk."""

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
    first_episode: int = 0,
    batch_size: int = 1024,
    chunk_size: int | None = None,
    mesh: Mesh | None = None,
    progress: Progress | None = None,
) -> Trajectories:
    """Run ``policy`` for ``num_episodes`` episodes.

    Which episodes: those of ``scenes``, int32 (N, m) tile numbers of the bank, and ``starts``, int32 (N, 2) window
    corners, where given; else the bank's list, in order and from its beginning again when it ends, with its
    starts where the start rule is "published"; else scenes drawn at random. Starts that are not given follow
    the environment's start rule.

    policy: see ``agents.base.Policy``; the environment shows it the observation mode that it asks for.
    first_episode: number of the first episode, so that a long rollout can be done in parts: episodes 500 to 599 are
    the same whether they are run alone or within 1,000. batch_size: lanes of each device. chunk_size: episodes kept
    on the devices (16 a lane). mesh: see ``sharding.episode_mesh``; the episodes are divided over its devices, whose
    numbers of episodes differ by at most one (rows and lanes that are left over idle), and the results are those of
    one device. progress: called with (finished, total) a few times a second.

    Raises ValueError for counts below 1 and for arrays that do not fit.
    """
    for name, value in (
        ("num_episodes", num_episodes),
        ("batch_size", batch_size),
        ("chunk_size", chunk_size),
    ):
        if value is not None and value < 1:
            raise ValueError(f"{name} is {value}; expected 1 or more")
    if first_episode < 0:
        raise ValueError(f"first_episode is {first_episode}; expected 0 or more")
    env = dataclasses.replace(env, observation=policy.observation)
    devices = num_devices(mesh)
    # Shapes are those of one device's part.
    most = -(-(num_episodes if chunk_size is None else chunk_size) // devices)
    lanes = min(batch_size, most)
    rows = min(most, 16 * lanes) if chunk_size is None else most
    if np.ndim(params.budget) != 0:
        raise ValueError("params.budget has a batch axis; run one rollout for each value")
    length = int(params.budget)

    bank = params.bank
    if scenes is None and bank.episodes is not None:
        order = (first_episode + np.arange(num_episodes)) % bank.episodes.scenes.shape[0]
        scenes = np.asarray(bank.episodes.scenes)[order]
        if starts is None and env.start == "published" and bank.episodes.starts is not None:
            starts = np.asarray(bank.episodes.starts)[order]
    for name, array, width in (("scenes", scenes, bank.tiles_per_scene), ("starts", starts, 2)):
        if array is None:
            continue
        if np.shape(array) != (num_episodes, width):
            raise ValueError(f"{name} has shape {np.shape(array)}; expected {(num_episodes, width)}")
        if np.asarray(array).dtype.kind not in "iu":
            raise ValueError(f"{name} has dtype {np.asarray(array).dtype}; expected integers")
    if scenes is not None and (np.min(scenes) < 0 or np.max(scenes) >= bank.num_tiles):
        raise ValueError(
            f"scenes span {np.min(scenes)}..{np.max(scenes)}; the bank has tiles 0..{bank.num_tiles - 1}"
        )

    shared = replicated((params, policy, key), mesh)
    parts: list[Trajectories] = []
    for first in range(0, num_episodes, devices * rows):
        firsts, counts = parts_of(min(devices * rows, num_episodes - first), devices)
        firsts = first + firsts
        # Parts that are too short keep the shape, and with it the compiled program.
        chosen = np.minimum(firsts[:, None] + np.arange(rows), num_episodes - 1)
        plan = _Plan(
            (first_episode + firsts).astype(np.int32),
            counts,
            None if scenes is None else np.asarray(scenes, np.int32)[chosen],
            None if starts is None else np.asarray(starts, np.int32)[chosen],
        )
        said = functools.partial(_say, progress, first, num_episodes)
        parts.append(_collect(env, mesh, _Sizes(lanes, rows, length), shared, plan, said))
    joined = jax.tree.map(lambda *leaves: np.concatenate(leaves), *[_as_tree(part) for part in parts])
    return Trajectories(*joined)


def _say(progress: Progress | None, before: int, total: int, finished: int) -> None:
    if progress is not None:
        progress(before + finished, total)


def _as_tree(part: Trajectories) -> tuple[Any, ...]:
    return part.indices, part.windows, part.kinds, part.statistics


@dataclasses.dataclass(frozen=True)
class _Sizes:
    """Shapes of a rollout's programs. lanes, rows: of each device. length: steps of an episode."""

    lanes: int
    rows: int
    length: int


def _collect(
    env: Environment,
    mesh: Mesh | None,
    sizes: _Sizes,
    shared: tuple[EnvParams, Policy[Any], jax.Array],
    plan: _Plan,
    say: Callable[[int], None],
) -> Trajectories:
    """One chunk: the episodes of ``plan``, whose leaves have a leading axis of devices."""
    limits = plan.limit
    plan = row_each(plan, mesh)
    carry = _begin(env, mesh, sizes, shared, plan)
    turns = 4
    while True:
        began = time.monotonic()
        carry = _advance(env, mesh, shared, np.int32(turns), plan, carry)
        finished = int(np.asarray(carry.finished).sum())
        say(finished)
        if finished >= limits.sum():
            break
        # Come back to the host a few times a second: for progress, and so that Ctrl-C is heard.
        turns = min(2 * turns, 1 << 20) if time.monotonic() - began < 0.25 else max(1, turns // 2)

    def joined(leaf: jax.Array) -> NDArray[Any]:
        return np.concatenate([rows[:limit] for rows, limit in zip(np.asarray(leaf), limits, strict=True)])

    results = (carry.indices, carry.windows, carry.kinds, carry.statistics)
    return Trajectories(*jax.tree.map(joined, results))


def episode_keys(key: jax.Array, episode: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """All randomness of episode number ``episode``, int32 (), of a rollout with this key: the keys of its scene, of its
    start, of the agent's memory and of its actions."""
    scene_key, start_key, memory_key, action_key = jax.random.split(jax.random.fold_in(key, episode), 4)
    return scene_key, start_key, memory_key, action_key


def _start(
    env: Environment,
    params: EnvParams,
    policy: Policy[Any],
    rollout_key: jax.Array,
    plan: _Plan,
    episode: jax.Array,
) -> tuple[jax.Array, Observation, State, Any]:
    """The beginning of an episode: (its key for actions, observation, state, the policy's memory)."""
    scene_key, start_key, memory_key, action_key = episode_keys(rollout_key, plan.base + episode)
    if plan.scenes is None:
        observation, state = env.reset_env(scene_key, params)
    else:
        row = jnp.minimum(episode, plan.scenes.shape[0] - 1)
        scene = plan.scenes[row]
        start = env.draw_start(start_key, scene, params) if plan.starts is None else plan.starts[row]
        observation, state = env.reset_to(scene, start, params)
    return action_key, observation, state, policy.init(memory_key)


@functools.partial(jax.jit, static_argnames=("env", "mesh", "sizes"))
def _begin(env: Environment, mesh: Mesh | None, sizes: _Sizes, shared: Any, plan: _Plan) -> _Lanes:
    """Lanes with the first episodes, and empty records, on every device."""
    return on_each_device(functools.partial(_first_lanes, env, sizes), mesh)(shared, plan)


@functools.partial(jax.jit, static_argnames=("env", "mesh"), donate_argnames="carry")
def _advance(
    env: Environment, mesh: Mesh | None, shared: Any, turns: jax.Array, plan: _Plan, carry: _Lanes
) -> _Lanes:
    """At most ``turns`` steps of all lanes, on every device."""
    return on_each_device(functools.partial(_turns, env), mesh)((shared, turns), (plan, carry))


def _first_lanes(
    env: Environment, sizes: _Sizes, shared: tuple[EnvParams, Policy[Any], jax.Array], plan: _Plan
) -> _Lanes:
    lanes, rows = sizes.lanes, sizes.rows
    episode = jnp.arange(lanes, dtype=jnp.int32)
    key, observation, state, memory = jax.vmap(lambda number: _start(env, *shared, plan, number))(episode)
    statistics = jax.eval_shape(
        lambda s: env.statistics(s, shared[0]), jax.tree.map(lambda leaf: leaf[0], state)
    )
    first_xy = state.xy.astype(jnp.int16)
    return _Lanes(
        episode=episode,
        key=key,
        observation=observation,
        state=state,
        memory=memory,
        taken=jnp.asarray(lanes, jnp.int32),
        finished=jnp.zeros((), jnp.int32),
        indices=jnp.zeros((rows, env.num_digits), jnp.int32),
        windows=jnp.full((rows, sizes.length + 1, 2), -1, jnp.int16).at[:lanes, 0].set(first_xy),
        kinds=jnp.full((rows, sizes.length), Kind.NONE, jnp.int8),
        statistics=jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), statistics),
    )


def _turns(
    env: Environment,
    shared_and_turns: tuple[tuple[EnvParams, Policy[Any], jax.Array], jax.Array],
    own: tuple[_Plan, _Lanes],
) -> _Lanes:
    """At most so many steps of one device's lanes."""
    (params, policy, rollout_key), turns = shared_and_turns
    plan, carry = own
    limit = plan.limit
    shared = (params, policy, rollout_key, plan)

    def start(episode: jax.Array, shared: Any) -> tuple[jax.Array, Observation, State, Any]:
        params, policy, rollout_key, plan = shared
        return _start(env, params, policy, rollout_key, plan, episode)

    def turn(lanes: _Lanes) -> _Lanes:
        running = lanes.episode < limit
        keys = jax.vmap(jax.random.fold_in)(lanes.key, lanes.observation.step)
        action, memory = jax.vmap(policy.act)(keys, lanes.observation, lanes.memory)
        step = lanes.state.step
        observation, state, _, terminated, truncated, _ = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))(
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
        ended = jax.vmap(env.final_statistics, in_axes=(0, 0, None))(done, state, params)
        statistics = jax.tree.map(
            lambda rows, new: rows.at[done_row].set(new, mode="drop"), lanes.statistics, ended
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

    finished: _Lanes = jax.lax.while_loop(going_on, body, (jnp.zeros((), jnp.int32), carry))[1]
    return finished
