"""Small worlds that all tests of host agents share: their compiled steps are made once."""

from __future__ import annotations

import pytest

from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.host.world import HostWorld, host_world
from tests.episodes import mnist_test

EPISODES = 6


@pytest.fixture(scope="session")
def world() -> HostWorld:
    """Six episodes of one digit, published geometry."""
    return host_world(EvaluationRequest(level=1, episodes=EPISODES, seed=3), mnist_test())


@pytest.fixture(scope="session")
def pair_world() -> HostWorld:
    """Three episodes of two digits with a small budget and another geometry."""
    request = EvaluationRequest(level=2, episodes=3, seed=5, window=48, stride=40, budget=7, outline=False)
    return host_world(request, mnist_test())


@pytest.fixture(scope="session")
def player() -> Player:
    """The demo server's player, which compiles once."""
    return Player()
