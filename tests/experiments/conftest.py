"""The demo server's player, as its own tests have it."""

from __future__ import annotations

import pytest

from mnistpro_jax.demo_server.player import Player


@pytest.fixture(scope="session")
def player() -> Player:
    return Player()
