"""Canvases and a stored episode to draw."""

from __future__ import annotations

import pytest

from mnistpro_jax import data
from mnistpro_jax.worlds.published import canvas_of
from tests.records import Record, play
from tests.reference import ANSWER, Pixels


@pytest.fixture(scope="session")
def canvases() -> dict[int, Pixels]:
    """One real canvas of each level."""
    images = data.load("mnist", "test").images
    return {level: canvas_of(images[:level]) for level in (1, 2, 3)}


@pytest.fixture
def record(canvases: dict[int, Pixels]) -> Record:
    """An episode of level 1 that ended with the right answer."""
    return play(canvases[1], [7], [0, 3, 3, 3, 3, 1, ANSWER], [7])[0]
