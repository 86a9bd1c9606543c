"""One small world for all adapters, so that they share compiled programs."""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import pytest

from mnistpro_jax.env.environment import Environment, EnvParams
from tests.episodes import world

World = tuple[Environment, EnvParams]


@pytest.fixture(scope="session")
def small() -> World:
    """One digit, 112 x 112 pixels, episodes of at most four steps."""
    env, params = world(1, size=112, window=32, stride=5)
    return env, dataclasses.replace(params, budget=jnp.int32(4))
