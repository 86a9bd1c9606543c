"""Observations for what lies outside: as one float32 vector, or as a dictionary of arrays."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import FusedCanvas, Kind, Observation

NUM_KINDS = Kind.INVALID - Kind.NONE + 1


def num_features(env: Environment) -> int:
    """Length of ``features``: the view's values, two of the window's corner, two of time, seven of the last action."""
    if env.observation in ("packed", "glimpse"):
        view = env.window**2
    elif env.observation == "published":
        view = env.height * env.width * 3
    else:
        factor = env.native_factor if env.observation == "canvas" else 1
        view = 2 * (env.height // factor) * (env.width // factor)
    return view + 4 + NUM_KINDS


def features(env: Environment, observation: Observation, params: EnvParams) -> jax.Array:
    """One observation (no batch axis; use ``jax.vmap``) as float32 (``num_features(env)``,), all values in 0..1.

    In this order: the view, row by row (pixels as 0 and 1, counts as shares of a native pixel, the published
    picture's channels divided by 255; a canvas gives its strokes, then what is revealed); x and y of the window as
    shares of their ranges; steps taken and steps left as shares of the budget; the last action's ``Kind``, one-hot
    from ``NONE`` to ``INVALID``. A packed view is unpacked, so that "packed" and "glimpse" give the same vector.
    """
    view = observation.view
    if env.observation == "packed":
        parts = [bitmap.unpack(view, env.window)]
    elif isinstance(view, FusedCanvas):
        parts = [view.stroke, view.revealed]
    else:
        parts = [view]
    most = {"published": 255, "canvas": env.native_factor**2}.get(env.observation, 1)
    flat = [part.reshape(math.prod(part.shape)).astype(jnp.float32) / jnp.float32(most) for part in parts]
    far = jnp.asarray([max(1, env.width - env.window), max(1, env.height - env.window)], jnp.float32)
    time = jnp.stack([observation.step, observation.steps_left]).astype(jnp.float32)
    last = jnp.arange(Kind.NONE, Kind.INVALID + 1, dtype=jnp.int32) == observation.last_action
    return jnp.concatenate(
        [
            *flat,
            observation.xy.astype(jnp.float32) / far,
            time / params.budget.astype(jnp.float32),
            last.astype(jnp.float32),
        ]
    )


def named(observation: Observation) -> dict[str, Any]:
    """A batch of observations as dictionaries; scalars become (N, 1)."""
    view = observation.view
    if isinstance(view, FusedCanvas):
        view = {"stroke": view.stroke, "revealed": view.revealed}
    return {
        "view": view,
        "xy": observation.xy,
        "step": observation.step[:, None],
        "steps_left": observation.steps_left[:, None],
        "last_action": observation.last_action[:, None],
    }


def shown_as(env: Environment, flatten: bool, observation: Observation, params: EnvParams) -> Any:
    """A batch of observations as trainers and data sets take them: dictionaries, or flattened float32 (N, D)."""
    if flatten:
        return jax.vmap(lambda one: features(env, one, params))(observation)
    return named(observation)
