"""What stored episodes showed: observations, actions and rewards again, from trajectories that keep none of them.

A trajectory holds the scene, the windows and the kinds of action; moves and answers are deterministic, so that the
environment plays the same episode once more in any observation mode.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, Ending, Kind
from mnistpro_jax.rollouts.features import shown_as
from mnistpro_jax.rollouts.rollout import Progress, Trajectories

_CHUNK_BYTES = 2**26


@dataclasses.dataclass(frozen=True)
class ReplayedEpisode:
    """One episode of T steps.

    observations: a dictionary of arrays (T + 1, ...), what reset and each step showed (or float32 (T + 1, D)).
    actions: int32 (T,), flat codes; (T, 1 + n), kind and digits, for more than two digits. rewards: float32 (T,).
    terminations, truncations: bool (T,). label: int32 (n,). indices: int32 (n,), images of the scene in their data set.
    """

    observations: Any
    actions: NDArray[np.int32]
    rewards: NDArray[np.float32]
    terminations: NDArray[np.bool_]
    truncations: NDArray[np.bool_]
    label: NDArray[np.int32]
    indices: NDArray[np.int32]


def replay(
    env: Environment,
    params: EnvParams,
    trajectories: Trajectories,
    *,
    flatten: bool = False,
    progress: Progress | None = None,
) -> Iterator[ReplayedEpisode]:
    """Play stored episodes again, in order. A few at a time: memory does not grow with their number.

    env: of the world in which they were played, in the observation mode that is wanted. params: with a bank that holds
    their images, and the budget and rewards of then. flatten: one float32 vector an observation (``features``)
    instead of a dictionary. progress: called with (finished, total).

    Raises ValueError where the bank has not the images, where an episode ended with an invalid action (which has no
    code), and where the episodes would go another way: another window, stride, budget, reward or data set.
    """
    count = len(trajectories)
    if count == 0:
        return
    statistics = trajectories.statistics
    invalid = np.flatnonzero(np.asarray(statistics.ending) == Ending.INVALID_ACTION)
    if len(invalid):
        raise ValueError(
            f"{len(invalid)} of {count} episodes ended with an invalid action (the first is number {invalid[0]}), "
            "which has no code; leave them out"
        )
    if trajectories.indices.shape[1] != env.num_digits:
        raise ValueError(
            f"the episodes have {trajectories.indices.shape[1]} digits, the environment {env.num_digits}"
        )
    if trajectories.kinds.shape[1] != int(params.budget):
        raise ValueError(
            f"episode 0 goes another way in this environment: its budget was {trajectories.kinds.shape[1]} steps, and "
            f"params say {int(params.budget)}"
        )
    scenes = scenes_of(params.bank, trajectories.indices)
    answers = np.asarray(statistics.answer, np.int32)
    size = _chunk_size(env, flatten, params, trajectories.kinds.shape[1], count)
    for first in range(0, count, size):
        # The last chunk keeps the shape, and with it the compiled program.
        rows = np.minimum(np.arange(first, first + size), count - 1)
        result = _play(
            env,
            flatten,
            scenes[rows],
            trajectories.start_xy[rows].astype(np.int32),
            trajectories.kinds[rows].T.astype(np.int32),
            answers[rows],
            params,
        )
        shown, windows, rewards, terminated, truncated, total, area = jax.tree.map(np.asarray, result)
        for lane in range(min(size, count - first)):
            episode = first + lane
            steps = int(statistics.steps[episode])
            kinds = trajectories.kinds[episode, :steps].astype(np.int32)
            done = terminated[:, lane] | truncated[:, lane]
            _check(trajectories, episode, steps, windows[:, lane], done, total[lane], area[lane])
            yield ReplayedEpisode(
                observations=jax.tree.map(
                    lambda leaf, lane=lane, steps=steps: leaf[: steps + 1, lane], shown
                ),
                actions=_codes(env, kinds, answers[episode]),
                rewards=rewards[:steps, lane],
                terminations=terminated[:steps, lane],
                truncations=truncated[:steps, lane],
                label=np.asarray(statistics.label[episode]),
                indices=trajectories.indices[episode],
            )
            if progress is not None:
                progress(episode + 1, count)


def scenes_of(bank: Bank, indices: NDArray[np.integer]) -> NDArray[np.int32]:
    """Tile numbers of scenes by their images: int32 (N, n) rows of the data set -> int32 (N, m).

    Raises ValueError for images that the bank does not hold.
    """
    parts = np.asarray(bank.indices)
    tile_of = {tuple(row): tile for tile, row in enumerate(parts.tolist())}
    wanted = np.asarray(indices).reshape(len(indices), bank.tiles_per_scene, parts.shape[1])
    try:
        scenes = [[tile_of[tuple(part)] for part in scene] for scene in wanted.tolist()]
    except KeyError as error:
        raise ValueError(
            f"the bank does not hold image {error.args[0]} of the data set; use the source and the split that the "
            "episodes were played on"
        ) from None
    return np.asarray(scenes, np.int32)


def _codes(env: Environment, kinds: NDArray[np.int32], answer: NDArray[np.int32]) -> NDArray[np.int32]:
    answering = kinds == Kind.ANSWER
    if env.num_digits > 2:
        digits = np.where(answering[:, None], answer, 0)
        return np.concatenate([kinds[:, None], digits], axis=1).astype(np.int32)
    code = 0
    for digit in answer.tolist():
        code = code * env.num_classes + digit
    return np.where(answering, 4 + code, kinds).astype(np.int32)


def _check(
    trajectories: Trajectories,
    episode: int,
    steps: int,
    windows: NDArray[np.int32],
    done: NDArray[np.bool_],
    total: NDArray[np.float32],
    area: NDArray[np.int32],
) -> None:
    stored = trajectories.windows[episode, 1:][trajectories.windows[episode, 1:, 0] >= 0]
    moved = trajectories.kinds[episode, :steps] != Kind.ANSWER
    ended = bool(done[steps - 1]) and not done[: steps - 1].any()
    same = np.array_equal(windows[1 : steps + 1][moved], stored)
    statistics = trajectories.statistics
    # The corners alone do not tell one window from a larger one; what was seen does.
    same = same and total == statistics.episode_return[episode] and area == statistics.area_seen[episode]
    if not (same and ended):
        raise ValueError(
            f"episode {episode} goes another way in this environment; use the window, stride, budget, rewards and data "
            "that it was played with"
        )


def _chunk_size(env: Environment, flatten: bool, params: EnvParams, length: int, count: int) -> int:
    def first(key: jax.Array) -> Any:
        observation, _ = env.reset(key, params)
        return shown_as(env, flatten, jax.tree.map(lambda leaf: leaf[None], observation), params)

    leaves = jax.tree.leaves(jax.eval_shape(first, jax.random.key(0)))
    each = sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) * (length + 1)
    return int(min(count, max(1, _CHUNK_BYTES // each), 1024))


@functools.partial(jax.jit, static_argnames=("env", "flatten"))
def _play(
    env: Environment,
    flatten: bool,
    scene: jax.Array,
    start: jax.Array,
    kinds: jax.Array,
    answer: jax.Array,
    params: EnvParams,
) -> tuple[Any, ...]:
    """E episodes of L turns: (observations (L + 1, E, ...), windows (L + 1, E, 2), rewards, terminated and truncated
    (L, E), episode returns (E,), pixels seen (E,))."""
    observation, state = jax.vmap(env.reset_to, in_axes=(0, 0, None))(scene, start, params)
    key = jax.random.key(0)  # step_env uses none

    def turn(state: Any, kind: jax.Array) -> Any:
        observation, state, reward, terminated, truncated, _ = jax.vmap(
            env.step_env, in_axes=(None, 0, 0, None)
        )(key, state, Action(kind, answer), params)
        shown = shown_as(env, flatten, observation, params)
        return state, (shown, state.xy, reward, terminated, truncated)

    first = shown_as(env, flatten, observation, params)
    start = state.xy
    state, (shown, windows, reward, terminated, truncated) = jax.lax.scan(turn, state, kinds)
    shown = jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), first, shown)
    windows = jnp.concatenate([start[None], windows])
    seen = jax.vmap(env.statistics, in_axes=(0, None))(state, params).area_seen
    return shown, windows, reward, terminated, truncated, state.episode_return, seen
