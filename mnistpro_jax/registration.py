"""Environment ids: ``make("MnistPro-L2-v0")`` builds an environment and its params.

An id names a world, its level (the number of digits) and a version. The version is bumped whenever an agent's
results on the id may change: dynamics, canvases, rewards, defaults or the meaning of an observation. It is not
bumped for speed, for new options, or for changes of internal state.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax
import numpy as np

from mnistpro_jax import data
from mnistpro_jax.data import Dataset
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.environment import Environment, EnvParams, default_budget
from mnistpro_jax.worlds.digits import digit_bank, episode_bank
from mnistpro_jax.worlds.published import PUBLISHED_SIZE, canvas_of, published_episodes, published_start

_ID = re.compile(r"MnistPro-L([1-9][0-9]?)-v0")
_PUBLISHED = ("MnistPro-L1-v0", "MnistPro-L2-v0")
_STATIC = ("window", "stride", "observation", "start", "outline")
_PARAMS = ("budget", "move_reward", "correct_reward", "wrong_reward", "invalid_reward", "start_xy")
_DATA = ("bank", "dataset", "source", "split", "episodes", "size", "num_scenes", "seed")


def registered() -> tuple[str, ...]:
    """The ids of the published levels. ``MnistPro-L<n>-v0`` exists for every number n of digits, 1 to 99."""
    return _PUBLISHED


def level_of(env_id: str) -> int:
    """The number of digits in an environment id; ValueError for an id that does not exist."""
    match = _ID.fullmatch(env_id) if isinstance(env_id, str) else None
    if match is None:
        raise ValueError(
            f"unknown environment id {env_id!r}; expected one of {', '.join(_PUBLISHED)}, or MnistPro-L<n>-v0 "
            "for n digits"
        )
    return int(match.group(1))


def make(env_id: str, **overrides: Any) -> tuple[Environment, EnvParams]:
    """An environment and its params.

    Overrides, all optional:

    - data: ``source`` ("mnist", "tfds:NAME", "idx:FOLDER"; default "mnist"), ``split`` ("train" or "test"; default
      "train"), or a ``dataset`` loaded before, or a whole ``bank``; ``episodes="published"``: the published episode
      list of the MNIST test split with its starts; ``size``: canvas pixels per digit (224); ``num_scenes`` and
      ``seed``: see ``worlds.digits.digit_bank``.
    - statics: ``window`` (64 pixels), ``stride`` (32 pixels), ``observation`` ("packed"), ``start`` ("stroke",
      with ``episodes="published"`` "published"), ``outline`` (True for observation "published", else False).
    - params: ``budget`` (steps; the number of window positions on the stride's grid: 36 and 78 as published),
      ``move_reward`` (-0.1), ``correct_reward`` (10), ``wrong_reward`` (-10), ``invalid_reward`` (-10),
      ``start_xy`` (window corner of the start rule "fixed"; the middle).

    Raises ValueError or TypeError with the valid choices for anything else.
    """
    level = level_of(env_id)
    unknown = sorted(set(overrides) - {*_STATIC, *_PARAMS, *_DATA})
    if unknown:
        valid = ", ".join((*_DATA, *_STATIC, *_PARAMS))
        raise TypeError(f"unknown override {', '.join(unknown)} for {env_id}; expected some of {valid}")
    given = {name: value for name, value in overrides.items() if value is not None}
    static = {name: given[name] for name in _STATIC if name in given}
    if given.get("episodes") == "published":
        static.setdefault("start", "published")
    static.setdefault("outline", static.get("observation") == "published")
    for name in ("window", "stride"):
        if name in static:
            static[name] = _whole(name, static[name])
    window = static.get("window", 64)
    bank = _bank(level, window, static.get("start", "stroke"), {k: given[k] for k in _DATA if k in given})
    if bank.num_digits != level:
        raise ValueError(f"the bank's scenes have {bank.num_digits} digits, but {env_id} has {level}")
    env = environment(bank, **static)
    return env, make_params(env, bank, **{name: given[name] for name in _PARAMS if name in given})


def environment(bank: Bank, **static: Any) -> Environment:
    """The environment of a bank's geometry; ``static``: window, stride, observation, start, outline."""
    return Environment(
        height=bank.height,
        width=bank.width,
        num_digits=bank.num_digits,
        num_classes=bank.num_classes,
        native_factor=bank.native_factor,
        **static,
    )


def make_params(
    env: Environment,
    bank: Bank,
    *,
    budget: int | None = None,
    move_reward: float = -0.1,
    correct_reward: float = 10.0,
    wrong_reward: float = -10.0,
    invalid_reward: float = -10.0,
    start_xy: tuple[int, int] | None = None,
) -> EnvParams:
    """Params of an environment, with the published values where none is given."""
    if budget is None:
        budget = default_budget(env.height, env.width, env.window, env.stride)
    if not np.issubdtype(np.asarray(budget).dtype, np.integer):
        raise TypeError(f"budget is {budget!r}; expected a whole number of steps, 1 or more")
    if np.min(np.asarray(budget)) < 1:
        raise ValueError(f"budget is {budget}; expected 1 step or more")
    limits = (env.width - env.window, env.height - env.window)
    if start_xy is None:
        start_xy = (limits[0] // 2, limits[1] // 2)
    corner = np.asarray(start_xy)
    if corner.shape != (2,) or (corner < 0).any() or (corner > limits).any():
        raise ValueError(
            f"start_xy is {start_xy}; expected (x, y) with 0 <= x <= {limits[0]}, 0 <= y <= {limits[1]}"
        )
    return EnvParams(
        bank=bank,
        budget=jax.device_put(np.asarray(budget, np.int32)),
        move_reward=jax.device_put(np.asarray(move_reward, np.float32)),
        correct_reward=jax.device_put(np.asarray(correct_reward, np.float32)),
        wrong_reward=jax.device_put(np.asarray(wrong_reward, np.float32)),
        invalid_reward=jax.device_put(np.asarray(invalid_reward, np.float32)),
        start_xy=jax.device_put(corner.astype(np.int32)),
    )


def published_bank(level: int, window: int = 64) -> Bank:
    """The published episode list of a level (1 or 2) as a bank with its published starts."""
    episodes = published_episodes(level, window)
    return episode_bank(data.load("mnist", "test"), episodes.indices, starts=episodes.start_xy)


def _bank(level: int, window: int, start: str, given: dict[str, Any]) -> Bank:
    if "bank" in given:
        if len(given) > 1:
            raise TypeError(
                f"bank is given, so that {', '.join(sorted(set(given) - {'bank'}))} would do nothing"
            )
        bank: Bank = given["bank"]
        return bank
    episodes = given.get("episodes")
    if episodes is not None:
        if episodes != "published":
            raise ValueError(
                f"episodes is {episodes!r}; expected 'published' (or pass a bank from episode_bank)"
            )
        clash = [k for k in ("dataset", "size", "num_scenes", "seed") if k in given]
        if clash or given.get("source", "mnist") != "mnist" or given.get("split", "test") != "test":
            raise ValueError("episodes 'published' are of the MNIST test split at the published size alone")
        return published_bank(level, window)
    dataset = given.get("dataset")
    if dataset is None:
        dataset = data.load(given.get("source", "mnist"), given.get("split", "train"))
    size = given.get("size", PUBLISHED_SIZE)
    if start == "published":
        return _published_starts(dataset, level, window, size)
    return digit_bank(
        dataset, level, size=size, num_scenes=given.get("num_scenes", 10_000), seed=given.get("seed", 0)
    )


def _published_starts(dataset: Dataset, level: int, window: int, size: int) -> Bank:
    """Every image of a data set as an episode that begins where the published rule puts it."""
    if level != 1 or size != PUBLISHED_SIZE:
        raise ValueError(
            "start 'published' is a function of the whole canvas, so that it needs a list of episodes: use "
            "episodes='published', a bank from episode_bank with starts, or level 1 at the published size"
        )
    starts = [published_start(canvas_of(image[None]), window) for image in dataset.images]
    return episode_bank(dataset, np.arange(len(dataset.labels))[:, None], starts=np.asarray(starts))


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; expected a whole number of pixels")
    return int(value)


def with_observation(env: Environment, observation: str) -> Environment:
    """The same environment in another observation mode."""
    return dataclasses.replace(env, observation=observation)
