"""Random episodes, played by the simulator and by the slow reference: two records to hold against each other.

A ``Script`` says what happens in a batch of episodes. ``simulate`` plays it in one compiled program per
environment, ``replay`` with ``tests.reference``; both give the same dictionary of arrays (episode, turn, ...),
turn 0 being what ``reset`` shows.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import mnistpro_jax
from mnistpro_jax import data
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action
from mnistpro_jax.worlds import named
from tests.compiling import AS_USERS
from tests.reference import ANSWER, INVALID, INVALID_ACTION, ReferenceEpisode

# ---- Worlds ---------------------------------------------------------------------------------------------------


@functools.cache
def mnist_test() -> data.Dataset:
    return data.load("mnist", "test")


@functools.cache
def edge_digits() -> data.Dataset:
    """64 test images, first the 18 with ink in an outermost column: the ones that change their neighbours."""
    full = mnist_test()
    at_edge = np.flatnonzero(full.images[:, :, [0, -1]].any(axis=(1, 2)))
    rows = np.concatenate([at_edge, np.arange(64 - len(at_edge))])
    return data.Dataset(full.images[rows], full.labels[rows], full.num_classes, full.source, full.split)


def few_digits(patch: pytest.MonkeyPatch, count: int = 1100) -> None:
    """From now on a split is its first images, a thousand and some more: the bank of a whole one takes nine seconds to
    make as the tests compile."""
    load = data.load

    def load_few(source: str, split: str) -> data.Dataset:
        full = load(source, split)
        return dataclasses.replace(full, images=full.images[:count], labels=full.labels[:count])

    patch.setattr(data, "load", load_few)
    patch.setattr(named, "_in_use", weakref.WeakValueDictionary())  # what was made of the whole ones


@functools.cache
def world(level: int, **overrides: Any) -> tuple[Environment, EnvParams]:
    """``mnistpro_jax.make`` on ``edge_digits``, once per set of overrides.

    Where scenes have to be made beforehand, 300 do: the 10,000 that are the default take a gigabyte to make.
    """
    beforehand = {"num_scenes": 300} if level > 1 and overrides.get("size", 224) % 224 else {}
    given = {"dataset": edge_digits(), **beforehand, **overrides}
    return mnistpro_jax.make(f"MnistPro-L{level}-v0", **given)


def scene_indices(params: EnvParams, scenes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Which images of the data set the scenes show: int32 (E, n)."""
    return np.asarray(jax.vmap(params.bank.source_indices)(jnp.asarray(scenes)))


def scene_canvases(params: EnvParams, scenes: NDArray[np.int32], dataset: data.Dataset) -> NDArray[np.uint8]:
    """The scenes' canvases by Pillow, from the data set's images: uint8 (E, H, W), 0 stroke and 255 background."""
    indices = scene_indices(params, scenes)
    return np.stack([pillow_canvas(dataset.images[row], params.bank.height) for row in indices])


def pillow_canvas(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The published pipeline by Pillow, at any size: uint8 (n, 28, 28) -> uint8 (size, size n)."""
    row = 255 - np.concatenate(list(images), axis=1)
    enlarged = Image.fromarray(row).resize((size * len(images), size), Image.Resampling.BILINEAR)
    return np.where(np.asarray(enlarged) > 200, 255, 0).astype(np.uint8)


# ---- Scripts --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Script:
    """What happens in E episodes of T turns: scenes (E, m), starts (E, 2), kinds (E, T), digits (E, T, n)."""

    scenes: NDArray[np.int32]
    starts: NDArray[np.int32]
    kinds: NDArray[np.int32]
    digits: NDArray[np.int32]


def script(env: Environment, params: EnvParams, episodes: int, turns: int, seed: int = 0) -> Script:
    """Random starts, also in the corners; runs of moves in one direction, which also hit the borders; answers,
    right and wrong, and every sort of invalid action. A third of the episodes only move."""
    rng = np.random.default_rng(seed)
    bank = params.bank
    shape = (episodes, turns)
    scenes = rng.integers(bank.num_tiles, size=(episodes, bank.tiles_per_scene)).astype(np.int32)
    limits = np.array([env.width - env.window, env.height - env.window])
    starts = rng.integers(limits + 1, size=(episodes, 2))
    corner = rng.random((episodes, 2)) < 0.2
    starts = np.where(corner, limits * rng.integers(2, size=(episodes, 2)), starts).astype(np.int32)

    kinds = rng.integers(4, size=shape)
    for turn in range(1, turns):
        kinds[:, turn] = np.where(rng.random(episodes) < 0.4, kinds[:, turn - 1], kinds[:, turn])
    digits = rng.integers(env.num_classes, size=(*shape, env.num_digits))
    labels = np.asarray(jax.vmap(bank.label)(jnp.asarray(scenes)))
    right = rng.random(shape) < 0.5
    digits = np.where(right[..., None], labels[:, None], digits)

    special = rng.random(shape)
    special[::3] = 1.0
    kinds = np.where(special < 0.07, ANSWER, kinds)
    kinds = np.where(
        (special >= 0.07) & (special < 0.1), rng.choice([5, -1, 9, 2**30, -(2**31)], shape), kinds
    )
    out_of_range = rng.choice([-1, env.num_classes, 2**31 - 1, -(2**31)], shape)
    spoil = (special < 0.015)[..., None] & (
        np.arange(env.num_digits) == rng.integers(env.num_digits, size=shape)[..., None]
    )
    digits = np.where(spoil, out_of_range[..., None], digits)
    return Script(scenes, starts, kinds.astype(np.int32), digits.astype(np.int32))


# ---- The two players ------------------------------------------------------------------------------------------


@functools.cache
def _player(env: Environment, optimised: bool) -> Any:
    def play(script: tuple[jax.Array, ...], params: EnvParams) -> Any:
        scene, start, kinds, digits = script
        observation, state = env.reset_to(scene, start, params)
        begin = (observation, env.statistics(state, params))

        def turn(state: Any, action: Action) -> Any:
            key = jax.random.key(0)  # step_env uses none
            observation, state, reward, terminated, truncated, info = env.step_env(key, state, action, params)
            return state, (observation, info["statistics"], reward, terminated, truncated)

        return begin, jax.lax.scan(turn, state, Action(kinds, digits))[1]

    return jax.jit(jax.vmap(play, in_axes=(0, None)), compiler_options=AS_USERS if optimised else None)


def simulate(env: Environment, params: EnvParams, script: Script, optimised: bool = False) -> dict[str, Any]:
    """The script played by ``step_env``. Asserts that what is shown lies in the observation space."""
    arrays = tuple(jnp.asarray(getattr(script, field.name)) for field in dataclasses.fields(script))
    begin, rest = jax.tree.map(np.asarray, _player(env, optimised)(arrays, params))
    space = env.observation_space(params)
    for shown, where in ((begin[0], (0,)), (rest[0], (0, 0)), (rest[0], (-1, -1))):
        assert space.contains(jax.tree.map(lambda leaf: leaf[where], shown))
    zero = np.zeros(len(script.scenes))
    begin = (*begin, zero.astype(np.float32), zero.astype(bool), zero.astype(bool))
    joined = jax.tree.map(lambda a, b: np.concatenate([a[:, None], b], axis=1), begin, rest)
    observation, statistics, reward, terminated, truncated = joined
    record = {field.name: getattr(statistics, field.name) for field in dataclasses.fields(statistics)}
    for name in ("xy", "step", "steps_left", "last_action"):
        record[name] = getattr(observation, name)
    record |= {"reward": reward, "terminated": terminated, "truncated": truncated}
    for number, leaf in enumerate(jax.tree.leaves(observation.view)):
        record[f"view{number}"] = leaf
    return record


def replay(env: Environment, params: EnvParams, script: Script, dataset: data.Dataset) -> dict[str, Any]:
    """The script played by the reference, on canvases by Pillow."""
    canvases = scene_canvases(params, script.scenes, dataset)
    labels = dataset.labels[scene_indices(params, script.scenes)]
    rewards = (params.move_reward, params.correct_reward, params.wrong_reward, params.invalid_reward)
    episodes = []
    for canvas, label, start, kinds, digits in zip(
        canvases, labels, script.starts, script.kinds, script.digits, strict=True
    ):
        episode = ReferenceEpisode(
            canvas, label, start, env.window, env.stride, int(params.budget), [float(r) for r in rewards]
        )
        turns = [_record(env, episode, -1, (np.float32(0), False, False))]
        for kind, answer in zip(kinds, digits, strict=True):
            running = episode.ending == 0
            outcome = episode.step(int(kind), [int(digit) for digit in answer])
            if running:
                last = INVALID if episode.ending == INVALID_ACTION else int(kind)
            turns.append(_record(env, episode, last, outcome))
        episodes.append({name: np.stack([turn[name] for turn in turns]) for name in turns[0]})
    return {name: np.stack([episode[name] for episode in episodes]) for name in episodes[0]}


def _record(env: Environment, episode: ReferenceEpisode, last_action: int, outcome: Any) -> dict[str, Any]:
    ints: dict[str, Any] = {
        "steps": episode.steps,
        "step": episode.steps,
        "steps_left": episode.steps_left,
        "moves": episode.moves,
        "revisits": episode.revisits,
        "ending": episode.ending,
        "answer": episode.answer if episode.answer is not None else [-1] * len(episode.labels),
        "label": episode.labels,
        "stroke_total": episode.stroke_total,
        "stroke_seen": episode.stroke_seen,
        "stroke_seen_readable": episode.stroke_seen_readable,
        "area_seen": episode.area_seen,
        "area_seen_readable": episode.area_seen_readable,
        "xy": episode.xy,
        "last_action": last_action,
    }
    record = {name: np.asarray(value, np.int32) for name, value in ints.items()}
    record["correct"] = np.asarray(episode.correct)
    record["digits_correct"] = np.asarray(episode.digits_correct)
    record["episode_return"] = np.asarray(episode.episode_return, np.float32)
    record["reward"] = np.asarray(outcome[0], np.float32)
    record["terminated"], record["truncated"] = np.asarray(outcome[1]), np.asarray(outcome[2])
    return record | {f"view{number}": view for number, view in enumerate(reference_view(env, episode))}


def reference_view(env: Environment, episode: ReferenceEpisode) -> list[NDArray[Any]]:
    """The leaves of ``Observation.view``."""
    if env.observation == "published":
        return [episode.picture(env.outline)]
    if env.observation == "canvas":
        return list(episode.fused_native(env.native_factor, env.outline))
    if env.observation == "canvas_full":
        return list(episode.fused_full(env.outline))
    glimpse = episode.window_bits()
    if env.outline:
        shown = np.zeros_like(glimpse)
        shown[2:-1, 2:-1] = glimpse[2:-1, 2:-1]
        glimpse = shown
    return [glimpse if env.observation == "glimpse" else pack(glimpse)]


def pack(bits: NDArray[Any]) -> NDArray[np.uint32]:
    """(..., H, W) of {0, 1} as bitmaps, uint32 (..., ceil(W / 32), H), a pixel at a time."""
    *batch, height, width = bits.shape
    words = np.zeros((*batch, -(-width // 32), height), np.uint32)
    for x in range(width):
        words[..., x // 32, :] |= bits[..., x].astype(np.uint32) << np.uint32(x % 32)
    return words


def assert_same(simulated: dict[str, Any], expected: dict[str, Any]) -> None:
    """Equal names, values, shapes and dtypes."""
    assert simulated.keys() == expected.keys()
    for name, want in expected.items():
        have = simulated[name]
        assert (have.shape, have.dtype) == (want.shape, want.dtype), name
        np.testing.assert_array_equal(have, want, err_msg=name)


def assert_trees_equal(first: Any, second: Any) -> None:
    """Same structure, and leaves of equal dtype, shape and value."""
    chex.assert_trees_all_equal(*jax.tree.map(np.asarray, (first, second)), strict=True)
