"""One player for all tests: it compiles once a world."""

from __future__ import annotations

import pytest

from mnistpro_jax.demo_server.player import Player


@pytest.fixture(scope="session")
def player() -> Player:
    return Player()
