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

from mnistpro_jax.data.dataset import checked_dataset
from mnistpro_jax.data.numbers import whole_number
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.environment import Environment, EnvParams, default_budget
from mnistpro_jax.env.serialization import register_serialization
from mnistpro_jax.worlds.named import BankName, named_bank
from mnistpro_jax.worlds.published import PUBLISHED_SIZE

_MOST_STEPS = 2**31 - 1  # of an int32

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
    register_serialization()
    unknown = sorted(set(overrides) - {*_STATIC, *_PARAMS, *_DATA})
    if unknown:
        valid = ", ".join((*_DATA, *_STATIC, *_PARAMS))
        raise TypeError(f"unknown override {', '.join(unknown)} for {env_id}; expected some of {valid}")
    given = {name: value for name, value in overrides.items() if value is not None}
    static = {name: given[name] for name in _STATIC if name in given}
    if given.get("episodes") == "published":
        static.setdefault("start", "published")
    static.setdefault("outline", static.get("observation") == "published")
    if "start_xy" in given and static.get("start", "stroke") != "fixed":
        raise TypeError(
            f"start_xy is given, but the start is {static.get('start', 'stroke')!r}, so that it would do nothing; "
            "expected start='fixed' with it"
        )
    window = whole_number("window", static.get("window", 64), "pixels", 1)
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
    steps = np.asarray(budget)
    if not np.issubdtype(steps.dtype, np.integer):
        raise TypeError(f"budget is {budget!r}; expected a whole number of steps, 1 to {_MOST_STEPS}")
    if steps.min() < 1 or steps.max() > _MOST_STEPS:
        raise ValueError(f"budget is {budget}; expected 1 to {_MOST_STEPS} steps")
    limits = (env.width - env.window, env.height - env.window)
    if start_xy is None:
        start_xy = (limits[0] // 2, limits[1] // 2)
    corner = np.asarray(start_xy)
    whole_numbers = corner.shape == (2,) and np.issubdtype(corner.dtype, np.integer)
    if not whole_numbers or (corner < 0).any() or (corner > limits).any():
        raise ValueError(
            f"start_xy is {start_xy!r}; expected whole numbers (x, y) with 0 <= x <= {limits[0]}, "
            f"0 <= y <= {limits[1]}"
        )
    return EnvParams(
        bank=bank,
        budget=jax.device_put(steps.astype(np.int32)),
        move_reward=_reward("move_reward", move_reward),
        correct_reward=_reward("correct_reward", correct_reward),
        wrong_reward=_reward("wrong_reward", wrong_reward),
        invalid_reward=_reward("invalid_reward", invalid_reward),
        start_xy=jax.device_put(corner.astype(np.int32)),
        window=env.window,
        stride=env.stride,
    )


def _reward(name: str, value: Any) -> jax.Array:
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or np.isnan(array).any():
        raise TypeError(f"{name} is {value!r}; expected a number")
    return jax.device_put(array.astype(np.float32))


def published_bank(level: int, window: int = 64) -> Bank:
    """The published episode list of a level (1 or 2) as a bank with its published starts."""
    return named_bank(BankName("mnist", "test", level, episodes="published", window=window))


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
    name = BankName(
        source=given.get("source", "mnist"),
        split=given.get("split", "train"),
        level=level,
        size=given.get("size", PUBLISHED_SIZE),
        num_scenes=given.get("num_scenes"),
        seed=given.get("seed"),
        starts="published" if start == "published" else None,
        window=window if start == "published" else None,
    )
    if "dataset" not in given:
        return named_bank(name)
    overruled = [name for name in ("source", "split") if name in given]
    if overruled:
        raise TypeError(
            f"a dataset is given, so that {' and '.join(overruled)} would do nothing; expected one or the other, such "
            "as dataset=mnistpro_jax.data.load(source, split)"
        )
    return name.build(checked_dataset(given["dataset"]))


def with_observation(env: Environment, observation: str) -> Environment:
    """The same environment in another observation mode."""
    return dataclasses.replace(env, observation=observation)
