"""Ids, overrides and the errors for everything else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mnistpro_jax
from mnistpro_jax import data
from mnistpro_jax.env import bitmap
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.environment import OBSERVATIONS, STARTS, Environment
from mnistpro_jax.registration import level_of, make_params, with_observation
from mnistpro_jax.worlds.digits import digit_bank
from mnistpro_jax.worlds.published import canvas_of, published_start
from tests.episodes import edge_digits, few_digits, scene_canvases, world

GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "worlds" / "published_golden.json").read_text()
)


def all_canvases(bank: Bank) -> np.ndarray:
    """uint8 (E, H, W), 0 stroke and 255 background, of a list of episodes."""
    assert bank.episodes is not None
    words = jax.jit(jax.vmap(lambda bank, scene: bank.canvas(scene), (None, 0)))(bank, bank.episodes.scenes)
    return np.where(bitmap.unpack(words, bank.width), 0, 255).astype(np.uint8)


# ---- Ids ------------------------------------------------------------------------------------------------------


def test_every_registered_id_makes_an_environment() -> None:
    assert mnistpro_jax.registered() == ("MnistPro-L1-v0", "MnistPro-L2-v0")
    for env_id in mnistpro_jax.registered():
        env, params = mnistpro_jax.make(env_id, dataset=edge_digits())
        assert isinstance(env, Environment)
        assert params.bank.num_digits == level_of(env_id) == env.num_digits


@pytest.mark.parametrize("level", [1, 2, 3, 12])
def test_every_level_has_an_id(level: int) -> None:
    env, params = world(level)
    assert (env.height, env.width, env.num_digits) == (224, 224 * level, level)
    assert int(params.budget) == 6 * (7 * level - 1)
    observation, state = jax.eval_shape(env.reset, jax.random.key(0), params)
    assert observation.view.shape == (2, 64)
    assert state.answer.shape == (level,)


@pytest.mark.parametrize(
    "env_id",
    ["MnistPro-L0-v0", "MnistPro-L100-v0", "MnistPro-L1-v1", "mnistpro-l1-v0", "MnistPro-L1", "", "MnistPro-L01-v0",
     " MnistPro-L1-v0", "MnistPro-L1-v0\n"],
)  # fmt: skip
def test_unknown_ids_are_refused(env_id: str) -> None:
    with pytest.raises(ValueError, match=r"unknown environment id .*MnistPro-L1-v0, MnistPro-L2-v0"):
        mnistpro_jax.make(env_id)


@pytest.mark.parametrize("env_id", [1, None, b"MnistPro-L1-v0"])
def test_ids_that_are_no_strings_are_refused(env_id: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="environment id"):
        mnistpro_jax.make(env_id)


# ---- Defaults and overrides -----------------------------------------------------------------------------------


def test_defaults_are_the_published_world() -> None:
    env, params = world(1)
    assert (env.window, env.stride, env.observation, env.start, env.outline) == (
        64,
        32,
        "packed",
        "stroke",
        False,
    )
    rewards = (params.move_reward, params.correct_reward, params.wrong_reward, params.invalid_reward)
    np.testing.assert_array_equal(rewards, np.float32([-0.1, 10, -10, -10]))
    assert params.start_xy.tolist() == [80, 80]


def test_the_published_picture_has_its_outline_unless_told_otherwise() -> None:
    assert world(1, observation="published")[0].outline
    assert not world(1, observation="published", outline=False)[0].outline
    assert world(1, observation="canvas", outline=True)[0].outline


def test_the_default_data_are_the_training_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def load(source: str, split: str) -> data.Dataset:
        asked.append((source, split))
        return edge_digits()

    monkeypatch.setattr(data, "load", load)
    mnistpro_jax.make("MnistPro-L1-v0")
    mnistpro_jax.make("MnistPro-L1-v0", split="test")
    mnistpro_jax.make("MnistPro-L1-v0", source="tfds:fashion_mnist", split="test")
    assert asked == [("mnist", "train"), ("mnist", "test"), ("tfds:fashion_mnist", "test")]


def test_a_whole_split_becomes_a_bank(monkeypatch: pytest.MonkeyPatch) -> None:
    few_digits(monkeypatch, 1100)  # more than are enlarged at once
    _, params = mnistpro_jax.make("MnistPro-L1-v0", source="mnist", split="test")
    assert params.bank.num_tiles == 1100
    split = data.load("mnist", "test")
    np.testing.assert_array_equal(params.bank.answers[:, 0], split.labels)
    np.testing.assert_array_equal(params.bank.indices[:, 0], np.arange(1100))
    strokes = np.asarray(jax.jit(bitmap.unpack, static_argnums=1)(params.bank.tiles[:, :-1], 224))
    for number in (0, 1023, 1024, 1099):
        np.testing.assert_array_equal(strokes[number], canvas_of(split.images[number : number + 1]) == 0)


def test_data_overrides() -> None:
    bank = digit_bank(edge_digits(), 2)
    assert mnistpro_jax.make("MnistPro-L2-v0", bank=bank)[1].bank is bank
    assert mnistpro_jax.make("MnistPro-L1-v0", dataset=edge_digits(), size=100)[0].height == 100
    _, params = mnistpro_jax.make(
        "MnistPro-L2-v0", dataset=edge_digits(), size=30, window=20, num_scenes=7, seed=3
    )
    assert params.bank.num_tiles == 7


def test_params_overrides() -> None:
    _, params = world(
        2,
        budget=5,
        move_reward=-1,
        correct_reward=2,
        wrong_reward=-3.5,
        invalid_reward=0,
        start="fixed",
        start_xy=(10, 20),
    )
    values = (
        params.budget,
        params.move_reward,
        params.correct_reward,
        params.wrong_reward,
        params.invalid_reward,
    )
    assert [float(value) for value in values] == [5, -1, 2, -3.5, 0]
    assert [value.dtype for value in values] == [jnp.int32] + [jnp.float32] * 4
    assert params.start_xy.tolist() == [10, 20]


def test_none_stands_for_the_default() -> None:
    env, params = world(1, window=None, budget=None, start_xy=None)
    assert env == world(1)[0]
    assert int(params.budget) == 36


def test_with_observation_changes_nothing_else() -> None:
    env = world(1)[0]
    for mode in OBSERVATIONS:
        assert with_observation(env, mode) == world(1, observation=mode, outline=False)[0]


BAD_OVERRIDES: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "unknown name": ({"windows": 64}, TypeError, "unknown override windows .*window"),
    "observation": (
        {"observation": "rgb"},
        ValueError,
        "observation is 'rgb'; expected one of packed, glimpse",
    ),
    "start": ({"start": "random"}, ValueError, "start is 'random'; expected one of stroke"),
    "window too large": ({"window": 225}, ValueError, "window is 225; expected .*1 to 224"),
    "window zero": ({"window": 0}, ValueError, "window is 0; expected"),
    "window float": ({"window": 64.0}, TypeError, "window is 64.0; expected a whole number of pixels"),
    "window text": ({"window": "64"}, TypeError, "window is '64'; expected"),
    "window too small for an outline": ({"window": 3, "outline": True}, ValueError, "window is 3"),
    "stride zero": ({"stride": 0}, ValueError, "stride is 0; expected"),
    "stride float": ({"stride": 32.0}, TypeError, "stride is 32.0; expected"),
    "outline": ({"outline": "yes"}, TypeError, "outline is 'yes'; expected True or False"),
    "native cells missing": (
        {"observation": "canvas", "size": 100},
        ValueError,
        "observation 'canvas' needs",
    ),
    "native cells too large": ({"observation": "canvas", "size": 448}, ValueError, "at most 15"),
    "budget": ({"budget": 0}, ValueError, "budget is 0; expected"),
    "budget float": ({"budget": 3.0}, TypeError, "budget is 3.0; expected"),
    "budget of more than 32 bits": ({"budget": 2**31}, ValueError, "expected 1 to 2147483647 steps"),
    "reward text": ({"correct_reward": "10"}, TypeError, "correct_reward is '10'; expected a number"),
    "reward of no value": ({"move_reward": float("nan")}, TypeError, "move_reward is nan; expected"),
    "start_xy outside": ({"start": "fixed", "start_xy": (161, 0)}, ValueError, "start_xy is .*0 <= x <= 160"),
    "start_xy length": ({"start": "fixed", "start_xy": (1, 2, 3)}, ValueError, "start_xy is"),
    "start_xy between pixels": ({"start": "fixed", "start_xy": (1.5, 2.7)}, ValueError, "whole numbers"),
    "start_xy overruled": (
        {"start_xy": (1, 2)},
        TypeError,
        "start is 'stroke', .* do nothing; expected start=",
    ),
    "split overruled": ({"split": "train"}, TypeError, "a dataset is given, so that split would do nothing"),
    "source overruled": (
        {"source": "mnist", "split": "test"},
        TypeError,
        "source and split would do nothing",
    ),
    "data set of images alone": (
        {"dataset": np.zeros((2, 28, 28))},
        TypeError,
        "dataset is a ndarray; expected",
    ),
    "size": ({"size": 0}, ValueError, "size is 0; expected"),
    "size float": ({"size": 224.0}, TypeError, "size is 224.0; expected a whole number of pixels per digit"),
    "size text": ({"size": "224"}, TypeError, "size is '224'; expected"),
    "no scenes": ({"num_scenes": 0}, ValueError, "num_scenes is 0; expected a whole number of scenes"),
    "scenes that are not made beforehand": (
        {"num_scenes": 7},
        TypeError,
        "num_scenes and seed would do nothing",
    ),
    "seed": ({"seed": 1.0}, TypeError, "seed is 1.0; expected a whole number"),
    "published starts of pairs": ({"start": "published"}, ValueError, "start 'published'"),
    "episodes": ({"episodes": "all"}, ValueError, "episodes is 'all'; expected 'published'"),
    "published episodes of another data set": ({"episodes": "published"}, ValueError, "MNIST test split"),
}


@pytest.mark.parametrize("case", BAD_OVERRIDES)
def test_bad_overrides_are_refused(case: str) -> None:
    overrides, error, message = BAD_OVERRIDES[case]
    level = 2 if case == "published starts of pairs" else 1
    with pytest.raises(error, match=message):
        mnistpro_jax.make(f"MnistPro-L{level}-v0", **{"dataset": edge_digits(), **overrides})


@pytest.mark.parametrize("overrides", [{"source": "no such source"}, {"split": "validation"}])
def test_bad_sources_are_refused(overrides: dict[str, Any]) -> None:
    with pytest.raises(data.DataError):
        mnistpro_jax.make("MnistPro-L1-v0", **overrides)


def test_banks_of_another_level_are_refused() -> None:
    bank = digit_bank(edge_digits(), 1)
    with pytest.raises(ValueError, match="1 digits, but MnistPro-L2-v0 has 2"):
        mnistpro_jax.make("MnistPro-L2-v0", bank=bank)
    with pytest.raises(TypeError, match="bank is given"):
        mnistpro_jax.make("MnistPro-L1-v0", bank=bank, size=100)


# ---- Starts ---------------------------------------------------------------------------------------------------

RESETS = 8192


def tiny_digit() -> data.Dataset:
    """One digit with ink in pixels of which no two centre a window of 8 in the same place."""
    image = np.zeros((1, 28, 28), np.uint8)
    image[0, 5:22:4, 6:23:2] = 255
    return data.Dataset(image, np.array([7], np.int32), 10, "tiny", "test")


def reset_corners(env: Environment, params: Any) -> np.ndarray:
    keys = jax.random.split(jax.random.key(0), RESETS)
    observation, state = jax.jit(jax.vmap(env.reset, (0, None)))(keys, params)
    np.testing.assert_array_equal(observation.xy, state.start_xy)
    return np.asarray(observation.xy)


def test_episodes_start_at_uniformly_drawn_stroke_pixels() -> None:
    env, params = mnistpro_jax.make("MnistPro-L1-v0", dataset=tiny_digit(), size=28, window=8, stride=4)
    pixels = np.argwhere(scene_canvases(params, np.zeros((1, 1), np.int32), tiny_digit())[0] == 0)[:, ::-1]
    assert len(pixels) == 45
    allowed = np.clip(pixels - 4, 0, 20)
    corners = reset_corners(env, params)
    counts = np.array([(corners == corner).all(axis=-1).sum() for corner in allowed])
    assert counts.sum() == RESETS  # nowhere else
    chi_square = ((counts - RESETS / 45) ** 2 / (RESETS / 45)).sum()
    assert chi_square < 78.7  # 44 degrees of freedom: one in a thousand is larger


def test_starts_are_clamped_into_the_canvas() -> None:
    env, params = mnistpro_jax.make("MnistPro-L1-v0", dataset=tiny_digit(), size=28, window=27, stride=4)
    assert set(np.unique(reset_corners(env, params))) <= {0, 1}


def test_a_blank_canvas_starts_in_the_middle() -> None:
    blank = data.Dataset(np.zeros((1, 28, 28), np.uint8), np.zeros(1, np.int32), 10, "blank", "test")
    env, params = mnistpro_jax.make("MnistPro-L2-v0", dataset=blank)
    observation, _ = jax.jit(env.reset)(jax.random.key(0), params)
    assert observation.xy.tolist() == [192, 80]


def test_fixed_starts() -> None:
    env, params = world(2, start="fixed", start_xy=(31, 160))
    assert {tuple(corner) for corner in reset_corners(env, params).tolist()} == {(31, 160)}


def test_published_starts_of_a_whole_data_set() -> None:
    env, params = world(1, start="published", window=32)
    keys = jax.random.split(jax.random.key(0), 200)
    observation, state = jax.jit(jax.vmap(env.reset, (0, None)))(keys, params)
    images = edge_digits().images[np.asarray(params.bank.indices)[np.asarray(state.scene)[:, 0], 0]]
    expected = [published_start(canvas_of(image[None]), 32) for image in images]
    np.testing.assert_array_equal(observation.xy, expected)


def test_published_starts_need_a_list_of_episodes() -> None:
    bank = digit_bank(edge_digits(), 2)
    env, params = mnistpro_jax.make("MnistPro-L2-v0", bank=bank, start="published")
    with pytest.raises(ValueError, match="start 'published' needs"):
        jax.eval_shape(env.reset, jax.random.key(0), params)


# ---- The published episodes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("window", [32, 64, 128])
def test_published_episodes_through_the_environment(level: int, window: int) -> None:
    env, params = mnistpro_jax.make(
        f"MnistPro-L{level}-v0", episodes="published", window=window, stride=window // 2
    )
    episodes = mnistpro_jax.published_episodes(level, window)
    bank = params.bank
    assert env.start == "published"
    assert bank.episodes is not None
    assert bank.episodes.starts is not None
    np.testing.assert_array_equal(bank.episodes.starts, episodes.start_xy)
    np.testing.assert_array_equal(jax.vmap(bank.source_indices)(bank.episodes.scenes), episodes.indices)
    np.testing.assert_array_equal(jax.vmap(bank.label)(bank.episodes.scenes), episodes.labels)
    if window != 64:
        return
    canvases = all_canvases(bank)
    np.testing.assert_array_equal(canvases, episodes.canvases())
    for golden in (entry for entry in GOLDEN if entry["level"] == level):
        number = golden["episode"]
        assert hashlib.md5(canvases[number].tobytes()).hexdigest() == golden["canvas_md5"]
        assert bank.episodes.starts[number].tolist() == golden["start_xy"]
        assert "".join(map(str, episodes.labels[number])) == golden["label"]


def test_resets_of_the_published_episodes_begin_where_the_list_says() -> None:
    env, params = mnistpro_jax.make("MnistPro-L2-v0", episodes="published")
    episodes = mnistpro_jax.published_episodes(2)
    keys = jax.random.split(jax.random.key(0), 400)
    observation, state = jax.jit(jax.vmap(env.reset, (0, None)))(keys, params)
    listed = {
        (tuple(i), tuple(xy))
        for i, xy in zip(episodes.indices.tolist(), episodes.start_xy.tolist(), strict=True)
    }
    indices = np.asarray(jax.vmap(params.bank.source_indices)(state.scene)).tolist()
    met = {(tuple(i), tuple(xy)) for i, xy in zip(indices, observation.xy.tolist(), strict=True)}
    assert met <= listed
    assert len(met) > 90


def test_published_bank_equals_the_override() -> None:
    bank = mnistpro_jax.published_bank(1)
    env, params = mnistpro_jax.make("MnistPro-L1-v0", episodes="published")
    assert jax.tree.structure(bank) == jax.tree.structure(params.bank)
    jax.tree.map(np.testing.assert_array_equal, bank, params.bank)
    assert make_params(env, bank).bank is bank
    assert set(STARTS) == {"stroke", "published", "fixed"}
