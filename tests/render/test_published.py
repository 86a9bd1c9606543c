"""The pictures that a model is shown equal Pillow's byte for byte; bad input is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mnistpro_jax.render.published import CYAN, GREY, composite_picture, published_picture
from tests.records import play
from tests.reference import Pixels, pillow_picture
from tests.render.noise import noise


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("window", [16, 32, 64, 128, 224])
@pytest.mark.parametrize("outline", [True, False])
def test_published_picture_equals_pillow(
    level: int, window: int, outline: bool, canvases: dict[int, Pixels]
) -> None:
    canvas = canvases[level]
    right, bottom = canvas.shape[1] - window, canvas.shape[0] - window
    rng = np.random.default_rng(window)
    positions = {
        (x, y) for x in (0, 1, right // 2, right - 1, right) for y in (0, 1, bottom // 2, bottom - 1, bottom)
    }
    positions |= {(int(rng.integers(right + 1)), int(rng.integers(bottom + 1))) for _ in range(20)}
    for x, y in positions:
        if not (0 <= x <= right and 0 <= y <= bottom):
            continue
        picture = published_picture(canvas, (x, y), window, outline)
        assert picture.shape == (*canvas.shape, 3)
        assert picture.dtype == np.uint8
        assert np.array_equal(picture, pillow_picture(canvas, [(x, y)], window, outline)), (x, y)


@pytest.mark.parametrize("window", [2, 3, 4, 5, 12])
def test_tiny_windows_equal_pillow(window: int) -> None:
    """From two pixels on: for a window of one, Pillow draws a row below the rectangle that was asked for."""
    canvas = noise(12, 17)
    for x in range(17 - window + 1):
        for y in range(12 - window + 1):
            expected = pillow_picture(canvas, [(x, y)], window, True)
            assert np.array_equal(published_picture(canvas, (x, y), window), expected), (x, y)


def test_outline_leaves_the_readable_interior(canvases: dict[int, Pixels]) -> None:
    picture = published_picture(canvases[1], (40, 50))
    shown = (picture != CYAN).any(axis=-1) & (picture != GREY).any(axis=-1)
    ys, xs = np.nonzero(shown)
    assert (xs.min(), xs.max(), ys.min(), ys.max()) == (42, 102, 52, 112)
    assert shown.sum() == 61 * 61


@pytest.mark.parametrize("outline", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2, 30])
def test_composite_picture_equals_pillow(number: int, outline: bool, canvases: dict[int, Pixels]) -> None:
    canvas = canvases[2]
    rng = np.random.default_rng(number)
    windows = np.stack([rng.integers(448 - 63, size=number), rng.integers(224 - 63, size=number)], axis=-1)
    picture = composite_picture(canvas, windows, 64, outline)
    assert np.array_equal(picture, pillow_picture(canvas, windows, 64, outline))
    if number == 0:
        assert (picture == 128).all()


def test_pictures_equal_those_of_the_reference_episode(canvases: dict[int, Pixels]) -> None:
    record, reference = play(canvases[1], [7], [0, 3, 3, 3, 3, 1])
    assert np.array_equal(published_picture(canvases[1], reference.xy), reference.picture(outline=True))
    fused = composite_picture(canvases[1], record["windows"])
    assert np.array_equal(fused, reference.memory_picture())


@pytest.mark.parametrize(
    ("canvas", "xy", "window", "message"),
    [
        (np.zeros((224, 224), bool), (0, 0), 64, "canvas must be uint8"),
        (np.zeros((224, 224, 3), np.uint8), (0, 0), 64, "canvas must be uint8"),
        (np.full((224, 224), 1, np.uint8), (0, 0), 64, "0 stroke and 255 background"),
        (np.zeros((224, 224), np.uint8), (161, 0), 64, "leaves the canvas"),
        (np.zeros((224, 224), np.uint8), (0, -1), 64, "leaves the canvas"),
        (np.zeros((224, 224), np.uint8), (0.5, 0.0), 64, "integer pairs"),
        (np.zeros((224, 224), np.uint8), (1, 2, 3), 64, "integer pairs"),
        (np.zeros((224, 224), np.uint8), (0, 0), 225, r"window must be 1\.\.224"),
        (np.zeros((224, 224), np.uint8), (0, 0), 0, r"window must be 1\.\.224"),
    ],
)
def test_bad_picture_request_is_refused(canvas: Any, xy: Any, window: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        published_picture(canvas, xy, window)
