"""Grids place their pictures row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mnistpro_jax.render.grid import SEPARATOR, grid, states_grid
from mnistpro_jax.render.published import published_picture
from tests.reference import Pixels


@pytest.mark.parametrize("channels", [(), (3,)])
def test_grid_places_pictures_row_by_row(channels: tuple[int, ...]) -> None:
    pictures = np.random.default_rng(0).integers(256, size=(5, 4, 6, *channels), dtype=np.uint8)
    sheet = grid(pictures, columns=3, separator=2)
    assert sheet.dtype == np.uint8
    assert sheet.shape == (4 + 2 + 4, 6 + 2 + 6 + 2 + 6, *channels)
    for index, picture in enumerate(pictures):
        top, left = index // 3 * 6, index % 3 * 8
        assert np.array_equal(sheet[top : top + 4, left : left + 6], picture)
    for dark in (sheet[4:6], sheet[:, 6:8], sheet[6:, 16:]):
        assert (dark == np.array(SEPARATOR if channels else SEPARATOR[1])).all()


def test_grid_is_no_wider_than_its_pictures() -> None:
    assert grid(np.zeros((2, 4, 6), np.uint8), columns=10, separator=0).shape == (4, 12)


@pytest.mark.parametrize(
    ("pictures", "columns", "separator"),
    [
        (np.zeros((0, 4, 4), np.uint8), 1, 2),
        (np.zeros((2, 4, 4), np.uint8), 0, 2),
        (np.zeros((2, 4, 4), np.uint8), 1, -1),
        (np.zeros((2, 4, 4, 4), np.uint8), 1, 2),
        (np.zeros((2, 4, 4), np.float32), 1, 2),
    ],
)
def test_bad_grid_is_refused(pictures: Any, columns: int, separator: int) -> None:
    with pytest.raises(ValueError, match=r"pictures must be uint8|a grid needs"):
        grid(pictures, columns, separator)


def test_states_grid_shows_the_picture_of_each_state(canvases: dict[int, Pixels]) -> None:
    batch = np.stack([canvases[2], 255 - canvases[2], canvases[2]])
    xys = np.array([[0, 0], [384, 160], [100, 50]], np.int32)
    sheet = states_grid(batch, xys, columns=2)
    assert sheet.shape == (224 + 2 + 224, 448 + 2 + 448, 3)
    assert np.array_equal(sheet[226:, :448], published_picture(canvases[2], (100, 50)))
    assert np.array_equal(sheet[:224, 450:], published_picture(255 - canvases[2], (384, 160)))
    # Left to itself the grid of wide pictures is higher in cells than wide, so that it is about square.
    assert states_grid(np.repeat(batch[:1], 8, axis=0), np.zeros((8, 2), np.int32)).shape == (
        902,
        898,
        3,
    )


def test_states_grid_of_different_batches_is_refused(canvases: dict[int, Pixels]) -> None:
    with pytest.raises(ValueError, match="of the same N"):
        states_grid(canvases[1][None], np.zeros((2, 2), np.int32))
