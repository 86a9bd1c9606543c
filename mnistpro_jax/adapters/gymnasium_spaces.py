"""Gymnasium's spaces for an environment."""

from __future__ import annotations

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


def observation_space(env: Environment, params: EnvParams, *, flatten: bool = False) -> spaces.Space[Any]:
    """One environment's observations: a ``Dict`` of boxes, scalars of shape (1,); or a float32 ``Box`` in 0..1."""
    if flatten:
        return spaces.Box(0.0, 1.0, (num_features(env),), np.float32)
    budget = int(params.budget)
    ours = env.observation_space(params)
    parts: dict[str, spaces.Space[Any]] = {"view": _space(ours["view"]), "xy": _space(ours["xy"])}
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
