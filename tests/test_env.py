"""The environment against the slow reference: every counter, reward, ending and view, turn by turn."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax import data
from mnistpro_jax.env import OBSERVATIONS, Environment, EnvParams, default_budget
from mnistpro_jax.types import Action, Ending, Kind
from tests import episodes
from tests.episodes import Script, assert_same, quick_jit, replay, script, simulate, world

# (level, overrides, episodes, turns). Between them: levels 1 to 3; windows from one pixel to the whole canvas;
# strides that divide the window, the canvas, both or neither; lattice masks and pixel masks; canvases made on
# the device and by Pillow; every observation mode, with the outline and without.
GEOMETRIES: dict[str, tuple[int, dict[str, Any], int, int]] = {
    "published": (1, {}, 48, 36),
    "pair-canvas-outline": (2, {"observation": "canvas", "outline": True}, 32, 40),
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
    "one-pixel-stride": (1, {"observation": "canvas_full", "window": 30, "stride": 1}, 8, 60),
    "size-112": (1, {"observation": "canvas", "size": 112, "window": 32, "stride": 16}, 24, 36),
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
