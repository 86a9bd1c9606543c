"""Small worlds that all tests of host agents share: their compiled steps are made once."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest

from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.host.world import HostWorld, host_world
from tests.episodes import mnist_test

EPISODES = 6


@pytest.fixture(scope="session", autouse=True)
def quick_compilation() -> Iterator[None]:
    """Programs here run a few hundred times: optimising them would take longer than running them."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="session")
def world() -> HostWorld:
    """Six episodes of one digit, published geometry."""
    return host_world(EvaluationRequest(level=1, episodes=EPISODES, seed=3), mnist_test())


@pytest.fixture(scope="session")
def pair_world() -> HostWorld:
    """Three episodes of two digits with a small budget and another geometry."""
    request = EvaluationRequest(level=2, episodes=3, seed=5, window=48, stride=40, budget=7, outline=False)
    return host_world(request, mnist_test())
