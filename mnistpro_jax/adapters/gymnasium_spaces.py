"""Gymnasium's spaces for an environment."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mnistpro_jax.adapters.host import action_ranges
from mnistpro_jax.adapters.optional import missing
from mnistpro_jax.env import spaces as own
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.rollouts.features import num_features

try:
    from gymnasium import spaces
except ImportError as error:
    raise missing("gymnasium", "gymnasium") from error


class PackedBox(spaces.Box):
    """A box of words of 32 pixels each, which mean nothing as numbers: it warns whoever flattens it for a network."""


def observation_space(env: Environment, params: EnvParams, *, flatten: bool = False) -> spaces.Space[Any]:
    """One environment's observations: a ``Dict`` of boxes, scalars of shape (1,); or a float32 ``Box`` in 0..1."""
    if flatten:
        return spaces.Box(0.0, 1.0, (num_features(env),), np.float32)
    budget = int(params.budget)
    ours = env.observation_space(params)
    parts: dict[str, spaces.Space[Any]] = {"view": _space(ours["view"]), "xy": _space(ours["xy"])}
    if env.observation == "packed":
        view = parts["view"]
        assert isinstance(view, spaces.Box)
        parts["view"] = PackedBox(view.low, view.high, dtype=np.uint32)
    for name in ("step", "steps_left"):
        parts[name] = spaces.Box(0, budget, (1,), np.int32)
    last = ours["last_action"]
    parts["last_action"] = spaces.Box(last.low, last.high, (1,), np.int32)
    return spaces.Dict(parts)


def action_space(env: Environment) -> spaces.Space[Any]:
    """One environment's actions: ``Discrete`` for one and two digits, else ``MultiDiscrete`` (kind, digits)."""
    ranges = action_ranges(env).astype(np.int64)
    return spaces.Discrete(int(ranges[0])) if len(ranges) == 1 else spaces.MultiDiscrete(ranges)


def _space(space: Any) -> spaces.Space[Any]:
    if isinstance(space, own.Tree):
        return spaces.Dict({name: _space(part) for name, part in space.fields})
    dtype = np.dtype(space.dtype)
    # Bounds as arrays of the dtype: as Python floats, 2^32 - 1 would not survive.
    low, high = (np.full(space.shape, bound, dtype) for bound in (space.low, space.high))
    return spaces.Box(low, high, space.shape, dtype.type)


def _said_of_packed(function: Callable[..., Any]) -> None:
    """Let ``function``, one of Gymnasium's that dispatch on the kind of space, warn where a network would take words.

    It is what Stable-Baselines3's policy for dictionaries and Gymnasium's ``FlattenObservation`` ask.
    """
    of_box = function.dispatch(spaces.Box)  # type: ignore[attr-defined]

    def warned(space: PackedBox, *given: Any) -> Any:
        warnings.warn(
            "observation 'packed' holds 32 pixels in each word, which a network would take for numbers; make the "
            "environment with flatten=True, or with observation='glimpse' (pixels) or 'canvas' (all that was seen)",
            UserWarning,
            stacklevel=3,
        )
        return of_box(space, *given)

    function.register(PackedBox, warned)  # type: ignore[attr-defined]


for _function in (spaces.utils.flatdim, spaces.utils.flatten_space):
    _said_of_packed(_function)
