"""``step`` at the boundary between episodes: whose observation, whose state, whose statistics."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, Ending, Kind, State
from tests.episodes import assert_trees_equal, world

LANES = 1000
STEP_LIMIT, RIGHT, WRONG, INVALID, MOVE = range(5)  # what a lane does next; all but MOVE end its episode


@functools.cache
def small() -> tuple[Environment, EnvParams]:
    """A world whose programs compile fast."""
    env, params = world(1, size=112, window=32, stride=5)
    return env, dataclasses.replace(params, budget=jnp.int32(3))


@functools.cache
def _step(batched_key: bool = True) -> Any:
    env, _ = small()
    return jax.jit(jax.vmap(env.step, in_axes=(0 if batched_key else None, 0, 0, None)))


@functools.cache
def lanes() -> tuple[State, State]:
    """States of 1000 episodes after one move, and after two: the next move ends the latter. As NumPy arrays, so that
    choosing among them compiles nothing."""
    env, params = small()

    def begin(key: jax.Array, params: EnvParams) -> tuple[State, State]:
        def move(state: State, _: Any) -> tuple[State, State]:
            state = env.step_env(key, state, jnp.int32(Kind.DOWN), params)[1]
            return state, state

        rows = jax.lax.scan(move, env.reset(key, params)[1], None, length=2)[1]
        return tuple(jax.tree.map(lambda leaf: leaf[turn], rows) for turn in range(2))

    program = jax.jit(jax.vmap(begin, in_axes=(0, None)))
    one, two = jax.tree.map(np.asarray, program(jax.random.split(jax.random.key(0), LANES), params))
    return one, two


@functools.cache
def keys_of(size: int) -> jax.Array:
    return jax.random.split(jax.random.key(7), LANES)[:size]


@functools.cache
def padded_keys(size: int) -> jax.Array:
    """A thousand: after those of so many lanes, the last one's again."""
    return keys_of(size)[padding(size)]


def padding(size: int) -> NDArray[np.intp]:
    return np.minimum(np.arange(LANES), size - 1)


def select(where: NDArray[np.bool_], new: Any, old: Any) -> Any:
    """Lanes of one tree or of the other."""
    return jax.tree.map(lambda a, b: np.where(where.reshape(-1, *[1] * (b.ndim - 1)), a, b), new, old)


@functools.cache
def _separately() -> Any:
    """(step_env, reset_env) of the same lanes: what ``step`` chooses between."""
    env, _ = small()

    def both(key: jax.Array, state: State, action: Action, params: EnvParams) -> Any:
        return env.step_env(key, state, action, params), env.reset_env(key, params)

    return jax.jit(jax.vmap(both, in_axes=(0, 0, 0, None)))


def turn(deeds: NDArray[np.integer]) -> tuple[jax.Array, State, Action]:
    """(keys, states, actions) of lanes that do what ``deeds`` say."""
    _, params = small()
    size = len(deeds)
    one, two = jax.tree.map(lambda leaf: leaf[:size], lanes())
    state = select(deeds == STEP_LIMIT, two, one)
    label = np.asarray(params.bank.answers)[state.scene, 0]
    digits = np.where((deeds == WRONG)[:, None], (label + 1) % 10, label)
    kinds = np.select(
        [np.isin(deeds, (RIGHT, WRONG)), deeds == INVALID], [Kind.ANSWER, Kind.INVALID], Kind.LEFT
    )
    return keys_of(size), state, Action(kinds.astype(np.int32), digits)


def expected(keys: jax.Array, state: State, action: Action) -> Any:
    """What ``step`` must return, from ``step_env`` and ``reset_env``, which are tested on their own."""
    size, params = len(keys), small()[1]
    padded = jax.tree.map(lambda leaf: leaf[padding(size)], (state, action))
    result = jax.tree.map(
        lambda leaf: np.asarray(leaf)[:size], _separately()(padded_keys(size), *padded, params)
    )
    (old, after, reward, terminated, truncated, info), fresh = result
    observation, following = select(terminated | truncated, fresh, (old, after))
    return observation, following, reward, terminated, truncated, info


def deeds_of(size: int, share: float, seed: int = 0) -> NDArray[np.int64]:
    """Each lane ends, in a random way, with probability ``share``."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(size) < share, rng.integers(4, size=size), MOVE)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 1.0])
def test_ended_lanes_begin_anew_and_the_others_go_on(size: int, share: float) -> None:
    _, params = small()
    arguments = turn(deeds_of(size, share))
    assert_trees_equal(_step()(*arguments, params), expected(*arguments))


def test_every_combination_of_ended_lanes() -> None:
    """Seven lanes at a time; what they must give is worked out for all 128 combinations at once."""
    _, params = small()
    flags = np.array(list(itertools.product([False, True], repeat=7)))
    arguments = turn(np.where(flags, np.arange(7) % 4, MOVE).reshape(-1))
    wanted = expected(*arguments)
    for first in range(0, flags.size, 7):
        seven = jax.tree.map(lambda leaf: leaf[first : first + 7], arguments)
        want = jax.tree.map(lambda leaf: leaf[first : first + 7], wanted)
        assert_trees_equal(_step()(*seven, params), want)


@pytest.mark.parametrize("mode", ["published", "canvas"])
def test_other_views_at_the_boundary(mode: str) -> None:
    """The new episode's view in the observation, the old one's in ``final_observation``; pairs with seams."""
    env, params = world(2, observation=mode, outline=True, window=32, stride=5)

    def both(key: jax.Array, state: State, action: Action, params: EnvParams) -> Any:
        return env.step(key, state, action, params), env.step_env(key, state, action, params)

    keys = jax.random.split(jax.random.key(8), (2, 20))
    reset = jax.jit(jax.vmap(env.reset_env, in_axes=(0, None)))
    _, state = reset(keys[0], params)
    kinds = np.where(np.random.default_rng(1).random(20) < 0.4, Kind.ANSWER, Kind.LEFT)
    action = Action(jnp.asarray(kinds, jnp.int32), jnp.zeros((20, 2), jnp.int32))
    step = jax.jit(jax.vmap(both, in_axes=(0, 0, 0, None)))
    stepped, old = jax.tree.map(np.asarray, step(keys[1], state, action, params))
    fresh = jax.tree.map(np.asarray, reset(keys[1], params))
    done = np.asarray(stepped[3] | stepped[4])
    assert done.tolist() == (kinds == Kind.ANSWER).tolist()
    assert 0 < int(done.sum()) < 20
    assert_trees_equal(stepped[:2], select(done, fresh, old[:2]))
    assert_trees_equal(stepped[2:5], old[2:5])
    assert_trees_equal(stepped[5], old[5])


@pytest.mark.parametrize("single", [0, 499, 999])
def test_one_lane_among_many(single: int) -> None:
    _, params = small()
    deeds = np.full(LANES, MOVE)
    deeds[single] = RIGHT
    arguments = turn(deeds)
    assert_trees_equal(_step()(*arguments, params), expected(*arguments))


def test_who_owns_what_at_the_boundary() -> None:
    """The same in words, without the comparison's helpers."""
    _, params = small()
    deeds = np.array([STEP_LIMIT, RIGHT, WRONG, INVALID, MOVE, MOVE, RIGHT])
    keys, before, action = turn(deeds)
    observation, state, reward, terminated, truncated, info = _step()(keys, before, action, params)
    statistics, final = info["statistics"], info["final_observation"]
    done = deeds != MOVE

    assert truncated.tolist() == (deeds == STEP_LIMIT).tolist()
    assert terminated.tolist() == (done & (deeds != STEP_LIMIT)).tolist()
    np.testing.assert_array_equal(reward, np.float32([-0.1, 10, -10, -10, -0.1, -0.1, 10]))
    names = [Ending.STEP_LIMIT, Ending.ANSWERED, Ending.ANSWERED, Ending.INVALID_ACTION]
    assert statistics.ending.tolist() == [names[deed] if deed != MOVE else Ending.RUNNING for deed in deeds]
    assert statistics.correct.tolist() == (deeds == RIGHT).tolist()
    np.testing.assert_array_equal(statistics.steps, np.asarray(before.step) + 1)
    np.testing.assert_array_equal(statistics.episode_return, before.episode_return + reward)
    np.testing.assert_array_equal(final.step, np.asarray(before.step) + 1)

    assert observation.step.tolist() == state.step.tolist() == np.where(done, 0, 2).tolist()
    assert observation.last_action.tolist() == np.where(done, Kind.NONE, Kind.LEFT).tolist()
    assert (np.asarray(state.ending) == Ending.RUNNING).all()
    assert (np.asarray(state.answer) == -1).all()
    np.testing.assert_array_equal(state.episode_return[done], 0)
    np.testing.assert_array_equal(np.asarray(state.scene)[~done], np.asarray(before.scene)[~done])
    np.testing.assert_array_equal(np.asarray(final.view)[~done], np.asarray(observation.view)[~done])


def test_lanes_without_vmap_are_the_same() -> None:
    env, params = small()
    deeds = np.array([STEP_LIMIT, RIGHT, MOVE, INVALID, WRONG, MOVE, RIGHT])
    arguments = turn(deeds)
    together = jax.tree.map(np.asarray, _step()(*arguments, params))
    alone = jax.jit(env.step)
    for lane in range(len(deeds)):
        one, all_ = jax.tree.map(lambda leaf: leaf[lane], (arguments, together))
        assert_trees_equal(alone(*one, params), all_)


def test_scan_equals_a_loop_of_steps() -> None:
    """Episodes of three steps at most, 30 turns: every lane crosses many boundaries, at different times."""
    env, params = small()
    rng = np.random.default_rng(5)
    turns, size = 30, 7
    kinds = np.where(
        rng.random((turns, size)) < 0.7,
        rng.integers(4, size=(turns, size)),
        rng.integers(-1, 6, (turns, size)),
    )
    actions = Action(kinds.astype(np.int32), rng.integers(10, size=(turns, size, 1), dtype=np.int32))
    keys = jax.random.split(jax.random.key(11), (turns, size))
    state = jax.tree.map(lambda leaf: leaf[:size], lanes()[0])

    def body(state: State, inputs: tuple[jax.Array, Action]) -> Any:
        observation, state, *rest = jax.vmap(env.step, (0, 0, 0, None))(inputs[0], state, inputs[1], params)
        return state, (observation, state, *rest)

    program = jax.jit(lambda state: jax.lax.scan(body, state, (keys, actions))[1])
    scanned = jax.tree.map(np.asarray, program(state))
    assert int((scanned[3] | scanned[4]).sum()) > 3 * size
    for number in range(turns):
        result = _step()(keys[number], state, jax.tree.map(lambda leaf: leaf[number], actions), params)
        assert_trees_equal(result, jax.tree.map(lambda leaf: leaf[number], scanned))
        state = result[1]


def test_params_swept_by_an_outer_vmap() -> None:
    """Budgets and rewards for each row, in a grid of 3 x 7 lanes."""
    env, params = small()
    swept = dataclasses.replace(
        params,
        budget=jnp.asarray([2, 3, 4], jnp.int32),
        move_reward=jnp.asarray([-1.0, 0.5, 2.0], jnp.float32),
        invalid_reward=jnp.asarray([-3.0, -4.0, -5.0], jnp.float32),
    )
    axes = dataclasses.replace(
        jax.tree.map(lambda _: None, params), budget=0, move_reward=0, invalid_reward=0
    )
    deeds = np.array([STEP_LIMIT, RIGHT, MOVE, INVALID, WRONG, MOVE, RIGHT])
    arguments = turn(deeds)
    lanes_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))
    program = jax.jit(jax.vmap(lanes_, in_axes=(None, None, None, axes)))
    grid = jax.tree.map(np.asarray, program(*arguments, swept))
    for row in range(3):
        values = jax.tree.map(
            lambda value, axis: value if axis is None else value[row],
            swept,
            axes,
            is_leaf=lambda x: x is None,
        )
        assert_trees_equal(_step()(*arguments, values), jax.tree.map(lambda leaf: leaf[row], grid))
    assert np.asarray(grid[4]).sum(axis=1).tolist() == [3, 1, 0]


def test_one_key_for_all_lanes_starts_the_same_episode() -> None:
    env, params = small()
    _, state, action = turn(np.full(7, RIGHT))
    key = jax.random.key(4)
    observation, following, *_ = jax.tree.map(
        np.asarray, _step(batched_key=False)(key, state, action, params)
    )
    fresh = jax.jit(env.reset_env)(key, params)
    for lane in range(7):
        assert_trees_equal(jax.tree.map(lambda leaf: leaf[lane], (observation, following)), fresh)
