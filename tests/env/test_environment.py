"""The environment against the slow reference: every counter, reward, ending and view, turn by turn."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax import data
from mnistpro_jax.env.environment import OBSERVATIONS, Environment, EnvParams, default_budget
from mnistpro_jax.env.types import Action, Ending, Kind
from tests import episodes
from tests.episodes import Script, assert_same, replay, script, simulate, world

# (level, overrides, episodes, turns). Between them: levels 1 to 3; windows from one pixel to the whole canvas;
# strides that divide the window, the canvas, both or neither; canvases made on
# the device and by Pillow; every observation mode, with the outline and without.
GEOMETRIES: dict[str, tuple[int, dict[str, Any], int, int]] = {
    "published": (1, {}, 48, 36),
    "pair-canvas-outline": (2, {"observation": "canvas", "outline": True}, 8, 30),
    "pair-published": (2, {"observation": "published", "stride": 16}, 6, 14),
    "triple-canvas_full-outline": (
        3,
        {"observation": "canvas_full", "window": 50, "stride": 16, "outline": True},
        8,
        24,
    ),
    "pair-packed-outline": (2, {"window": 128, "stride": 64, "outline": True}, 24, 30),
    "pair-small-window": (2, {"window": 16, "stride": 8}, 24, 60),
    "fine-stride": (1, {"observation": "glimpse", "window": 32, "stride": 5, "outline": True}, 24, 60),
    "one-pixel-stride": (1, {"observation": "canvas", "size": 112, "window": 30, "stride": 1}, 8, 60),
    "pair-size-100": (
        2,
        {"observation": "glimpse", "size": 100, "window": 33, "stride": 40, "num_scenes": 40},
        24,
        24,
    ),
    "pair-size-448": (2, {"size": 448, "window": 300, "stride": 64}, 8, 24),
    "whole-canvas": (1, {"observation": "published", "outline": False, "size": 56, "window": 56}, 8, 6),
    "tiny-window": (2, {"size": 40, "window": 2, "stride": 3, "num_scenes": 20, "start": "fixed"}, 16, 60),
}


def test_the_geometries_show_every_mode() -> None:
    assert {world(level, **given)[0].observation for level, given, *_ in GEOMETRIES.values()} == {
        *OBSERVATIONS
    }


@pytest.mark.parametrize("name", GEOMETRIES)
def test_every_turn_equals_the_reference(name: str, edge_digits: data.Dataset) -> None:
    level, overrides, count, turns = GEOMETRIES[name]
    env, params = world(level, **overrides)
    # Shorter than the script, so that episodes also end by the limit and are stepped on after their end.
    params = dataclasses.replace(params, budget=jnp.int32(turns - 4))
    played = script(env, params, count, turns, seed=len(name))
    # The published world as users run it, fully optimised; the others compile faster.
    simulated = simulate(env, params, played, optimised=name == "published")
    assert_same(simulated, replay(env, params, played, edge_digits))
    endings = set(simulated["ending"][:, -1].tolist())
    assert Ending.RUNNING not in endings
    assert Ending.STEP_LIMIT in endings


# ---- Rules, one by one ----------------------------------------------------------------------------------------

TURNS = 80


@pytest.fixture(scope="module")
def pair() -> tuple[Environment, EnvParams]:
    return world(2)


@pytest.fixture(scope="module")
def rules(pair: tuple[Environment, EnvParams]) -> dict[str, dict[str, Any]]:
    """Hand-written episodes of the published level 2 (budget 78), stepped on past their ends; by name."""
    env, params = pair
    labels = np.asarray(params.bank.answers[:, 0])
    scene = [int(np.flatnonzero(labels == digit)[0]) for digit in (0, 5)]
    move, answer = (Kind.RIGHT, (3, 3)), lambda *digits: (Kind.ANSWER, digits)
    cases: dict[str, list[tuple[int, tuple[int, ...]]]] = {
        "only moves": [move] * TURNS,
        "right on the last step": [move] * 77 + [answer(0, 5)],
        "wrong on the last step": [move] * 77 + [answer(5, 0)],
        "invalid on the last step": [move] * 77 + [(Kind.INVALID, (0, 5))],
        "leading zero": [answer(0, 5)],
        "second digit wrong": [move, answer(0, 4)],
        "both wrong": [answer(5, 5)],
        "kind invalid": [(Kind.INVALID, (0, 5))],
        "kind none": [(Kind.NONE, (0, 5))],
        "kind unknown": [move, (9, (0, 5))],
        "digit negative": [answer(-1, 5)],
        "digit too large": [answer(0, 10)],
        "move with senseless digits": [(Kind.LEFT, (-7, 99)), answer(0, 5)],
        "off the edge": [(Kind.UP, (0, 0))] * 3 + [answer(0, 5)],
    }
    full = [(steps + [answer(1, 1)] * TURNS)[:TURNS] for steps in cases.values()]
    start = {"off the edge": (384, 0)}
    played = Script(
        scenes=np.array([scene] * len(cases), np.int32),
        starts=np.array([start.get(name, (100, 80)) for name in cases], np.int32),
        kinds=np.array([[kind for kind, _ in steps] for steps in full], np.int32),
        digits=np.array([[digits for _, digits in steps] for steps in full], np.int32),
    )
    record = simulate(env, params, played)
    return {case: {name: value[row] for name, value in record.items()} for row, case in enumerate(cases)}


def at_end(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value[-1].tolist() for name, value in record.items()}


def test_budgets_are_the_published_ones() -> None:
    assert (default_budget(224, 224, 64, 32), default_budget(224, 448, 64, 32)) == (36, 78)
    assert int(world(1)[1].budget) == 36
    assert int(world(2)[1].budget) == 78


def test_the_budget_truncates_and_makes_up_no_answer(rules: dict[str, dict[str, Any]]) -> None:
    record = rules["only moves"]
    assert record["truncated"].tolist() == [turn >= 78 for turn in range(TURNS + 1)]
    assert not record["terminated"].any()
    end = at_end(record)
    assert (end["ending"], end["answer"], end["correct"]) == (Ending.STEP_LIMIT, [-1, -1], False)
    assert (end["steps"], end["moves"], end["steps_left"], end["last_action"]) == (78, 78, 0, Kind.RIGHT)
    assert record["episode_return"][-1] == np.cumsum(np.full(78, -0.1, np.float32), dtype=np.float32)[-1]


@pytest.mark.parametrize(
    ("case", "ending", "answer", "reward"),
    [
        ("right on the last step", Ending.ANSWERED, [0, 5], 10.0),
        ("wrong on the last step", Ending.ANSWERED, [5, 0], -10.0),
        ("invalid on the last step", Ending.INVALID_ACTION, [-1, -1], -10.0),
    ],
)
def test_the_last_step_may_still_answer(
    case: str, ending: Ending, answer: list[int], reward: float, rules: dict[str, dict[str, Any]]
) -> None:
    record = rules[case]
    assert record["steps_left"][77] == 1
    assert record["terminated"].tolist() == [turn >= 78 for turn in range(TURNS + 1)]
    assert not record["truncated"].any()
    end = at_end(record)
    assert (end["ending"], end["answer"], end["steps"], end["moves"]) == (ending, answer, 78, 77)
    assert record["reward"][78] == reward


def test_leading_zeros_count(rules: dict[str, dict[str, Any]]) -> None:
    end = at_end(rules["leading zero"])
    assert (end["label"], end["answer"], end["correct"], end["steps"]) == ([0, 5], [0, 5], True, 1)


@pytest.mark.parametrize(
    ("case", "digits_correct"), [("second digit wrong", [True, False]), ("both wrong", [False, True])]
)
def test_wrong_answers(case: str, digits_correct: list[bool], rules: dict[str, dict[str, Any]]) -> None:
    end = at_end(rules[case])
    assert (end["ending"], end["correct"], end["digits_correct"]) == (Ending.ANSWERED, False, digits_correct)


@pytest.mark.parametrize(
    "case", ["kind invalid", "kind none", "kind unknown", "digit negative", "digit too large"]
)
def test_invalid_actions_end_the_episode_as_failures(case: str, rules: dict[str, dict[str, Any]]) -> None:
    end = at_end(rules[case])
    assert (end["ending"], end["last_action"]) == (Ending.INVALID_ACTION, Kind.INVALID)
    assert (end["answer"], end["correct"], end["digits_correct"]) == ([-1, -1], False, [False, False])
    assert rules[case]["reward"].min() == -10


def test_digits_of_a_move_are_not_read(rules: dict[str, dict[str, Any]]) -> None:
    end = at_end(rules["move with senseless digits"])
    assert (end["ending"], end["correct"], end["moves"]) == (Ending.ANSWERED, True, 1)


def test_a_move_off_the_edge_costs_a_step_and_shows_the_same_window(rules: dict[str, dict[str, Any]]) -> None:
    record = rules["off the edge"]
    assert record["xy"][:4].tolist() == [[384, 0]] * 4
    assert record["step"][:4].tolist() == record["revisits"][:4].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(record["area_seen"][:4], 64**2)
    assert record["moves"][-1] == 3


def test_nothing_changes_after_the_end(rules: dict[str, dict[str, Any]]) -> None:
    for case, record in rules.items():
        length = record["steps"][-1]
        assert not record["reward"][length + 1 :].any(), case
        for name, value in record.items():
            if name != "reward":
                np.testing.assert_array_equal(
                    value[length + 1 :], np.broadcast_to(value[length], value[length + 1 :].shape)
                )


# ---- Actions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2])
def test_flat_actions_name_every_move_and_answer(level: int) -> None:
    env, _ = world(level)
    answers = 10**level
    codes = jnp.arange(-3, 4 + answers + 3, dtype=jnp.int32)
    actions = jax.jit(jax.vmap(env.structured_action))(codes)
    expected_kinds = [5] * 3 + [0, 1, 2, 3] + [4] * answers + [5] * 3
    assert actions.kind.tolist() == expected_kinds
    for value in range(answers):
        assert actions.digits[7 + value].tolist() == [int(digit) for digit in f"{value:0{level}d}"]
    assert (actions.kind.dtype, actions.digits.dtype) == (jnp.int32, jnp.int32)
    back = jax.jit(jax.vmap(env.flat_action))(actions)
    assert back.dtype == jnp.int32
    assert back.tolist() == [-1] * 3 + list(range(4 + answers)) + [-1] * 3


@pytest.mark.parametrize("code", [2**31 - 1, -(2**31), np.uint8(250), np.uint32(2**32 - 1), np.int16(-1)])
def test_flat_codes_far_out_of_range_are_invalid(code: Any) -> None:
    assert int(world(2)[0].structured_action(jnp.asarray(code)).kind) == Kind.INVALID


@pytest.mark.parametrize("digits", [(-1, 5), (0, 10), (3, -(2**31))])
def test_invalid_digits_have_no_flat_code(digits: tuple[int, int]) -> None:
    action = Action(jnp.int32(Kind.ANSWER), jnp.asarray(digits, jnp.int32))
    assert int(world(2)[0].flat_action(action)) == -1


def test_a_flat_step_is_the_structured_step() -> None:
    env, params = world(1, size=112, window=32, stride=5)
    key = jax.random.key(0)
    _, state = jax.jit(env.reset)(key, params)
    codes = jnp.arange(-1, 15, dtype=jnp.int32)
    step = jax.jit(
        lambda code: (
            env.step_env(key, state, code, params),
            env.step_env(key, state, env.structured_action(code), params),
        )
    )
    for code in codes:
        episodes.assert_trees_equal(*step(code))


BAD_ACTIONS = {
    "flat batch": (1, lambda: jnp.zeros(3, jnp.int32)),
    "flat float": (1, lambda: jnp.float32(1)),
    "flat bool": (1, lambda: jnp.asarray(True)),
    "flat for three digits": (3, lambda: jnp.int32(1)),
    "digits missing": (2, lambda: Action(jnp.int32(4), jnp.zeros(1, jnp.int32))),
    "digits without axis": (1, lambda: Action(jnp.int32(4), jnp.int32(0))),
    "structured batch": (1, lambda: Action(jnp.zeros(3, jnp.int32), jnp.zeros((3, 1), jnp.int32))),
    "structured float kind": (1, lambda: Action(jnp.float32(1.7), jnp.zeros(1, jnp.int32))),
    "structured float digits": (1, lambda: Action(jnp.int32(4), jnp.full(1, 3.9))),
    "structured bool kind": (1, lambda: Action(jnp.asarray(True), jnp.zeros(1, jnp.int32))),
}


@pytest.mark.parametrize("case", BAD_ACTIONS)
@pytest.mark.parametrize("method", ["step", "step_env"])
def test_actions_of_wrong_shape_or_dtype_are_refused(case: str, method: str) -> None:
    level, make_action = BAD_ACTIONS[case]
    env, params = world(level)
    with pytest.raises(TypeError, match=r"action.*(expected|pass an Action)"):
        jax.eval_shape(getattr(env, method), jax.random.key(0), some_state(level), make_action(), params)


@functools.cache
def some_state(level: int) -> Any:
    """The shapes of a state."""
    env, params = world(level)
    return jax.eval_shape(env.reset, jax.random.key(0), params)[1]


WIDE = [2**32 + 1, 2**32 + 5, -(2**32) + 1, 2**31, 2**40]


def test_codes_beyond_32_bits_are_invalid_and_do_not_wrap() -> None:
    env, params = world(1, size=112, window=32, stride=5)

    def endings(code: jax.Array, params: EnvParams) -> list[jax.Array]:
        _, state = env.reset_to(jnp.zeros(1, jnp.int32), jnp.zeros(2, jnp.int32), params)
        actions = (Action(code, jnp.zeros(1, jnp.int32)), Action(jnp.int32(Kind.ANSWER), code[None]), code)
        return [env.step_env(jax.random.key(0), state, action, params)[1].ending for action in actions]

    with jax.enable_x64(True):
        wide = jnp.asarray(WIDE, jnp.int64)
        assert wide.dtype == jnp.int64
        for ending in jax.jit(jax.vmap(endings, in_axes=(0, None)))(wide, params):
            assert ending.tolist() == [Ending.INVALID_ACTION] * len(WIDE)


# ---- Reset ----------------------------------------------------------------------------------------------------


def test_reset_to_clamps_the_corner(pair: tuple[Environment, EnvParams]) -> None:
    env, params = pair
    corners = jnp.asarray([[-5, -9], [1000, 1000], [384, 160], [385, 3]], jnp.int32)
    scene = jnp.asarray([3, 4], jnp.int32)
    observation, state = jax.jit(jax.vmap(env.reset_to, (None, 0, None)))(scene, corners, params)
    assert observation.xy.tolist() == [[0, 0], [384, 160], [384, 160], [384, 3]]
    np.testing.assert_array_equal(state.start_xy, observation.xy)


def test_jit_changes_nothing() -> None:
    env, params = world(1, size=112, window=32, stride=5)
    key = jax.random.key(3)
    observation, state = env.reset(key, params)
    episodes.assert_trees_equal((observation, state), jax.jit(env.reset)(key, params))
    action = jnp.int32(Kind.RIGHT)
    episodes.assert_trees_equal(
        env.step_env(key, state, action, params), jax.jit(env.step_env)(key, state, action, params)
    )
