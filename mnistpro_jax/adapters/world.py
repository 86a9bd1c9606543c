"""Worlds by id for adapters that build their own: environments of one process share a bank."""

from __future__ import annotations

import dataclasses
import weakref
from typing import Any

import numpy as np

from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.registration import make


@dataclasses.dataclass(frozen=True, eq=False)
class World:
    """An environment and its params, kept together."""

    env: Environment
    params: EnvParams


# A bank takes up to 490 MB and seconds to build, and libraries make many environments of one id. Entries live as long
# as an environment uses them.
_in_use: weakref.WeakValueDictionary[Any, World] = weakref.WeakValueDictionary()


def load_world(env_id: str, overrides: dict[str, Any]) -> World:
    """``mnistpro_jax.make(env_id, **overrides)``, shared with those who asked for the same and still use it.

    Raises what ``make`` raises, and ValueError for params with a batch axis.
    """
    # With their types: 5 and 5.0 are equal, and only one of them is a budget.
    key = (env_id, tuple((name, type(value), value) for name, value in sorted(overrides.items())))
    try:
        hash(key)
    except TypeError:  # an array or a data set: nothing to compare it with
        return checked_world(*make(env_id, **overrides))
    world = _in_use.get(key)
    if world is None:
        world = checked_world(*make(env_id, **overrides))
        _in_use[key] = world
    return world


def checked_world(env: Environment, params: EnvParams) -> World:
    """A world of one set of params; ValueError where values have a batch axis."""
    if np.ndim(params.budget) != 0:
        raise ValueError(
            "params.budget has a batch axis; an adapter takes one set of params for all episodes"
        )
    return World(env, params)
