"""The pictures that an agent is shown: what they show, pixel by pixel, after the way through PNG."""

from __future__ import annotations

import io

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mnistpro_jax.host import pictures
from mnistpro_jax.render.published import composite_picture, published_picture
from mnistpro_jax.runs.picture_store import name_of

CANVAS = np.where(np.random.default_rng(0).random((28, 56)) > 0.7, 0, 255).astype(np.uint8)
CANVAS = CANVAS.repeat(8, axis=0).repeat(8, axis=1)


def decoded(png: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@pytest.mark.parametrize("outline", [True, False])
@pytest.mark.parametrize("xy", [(0, 0), (100, 31), (384, 160)])
def test_a_glimpse_is_the_published_picture(xy: tuple[int, int], outline: bool) -> None:
    found = decoded(pictures.glimpse_png(CANVAS, xy, 64, outline))
    assert (found == published_picture(CANVAS, xy, 64, outline)).all()


def test_the_fused_canvas() -> None:
    windows = [(0, 0), (32, 0), (300, 100)]
    found = decoded(pictures.fused_png(CANVAS, windows, 64))
    assert (found == composite_picture(CANVAS, windows, 64)).all()
    seen = np.zeros(CANVAS.shape, bool)
    for x, y in windows:
        seen[y : y + 64, x : x + 64] = True
    assert (found[~seen] == 128).all() and (found[seen] == CANVAS[seen][:, None]).all()


def test_the_whole_canvas_enlarged() -> None:
    found = decoded(pictures.full_png(CANVAS, 3))
    assert found.shape == (672, 1344, 3)
    assert (found[1::3, 1::3, 0] == CANVAS).all() and (found[::3, 2::3] == found[1::3, 1::3]).all()


def test_the_same_picture_has_the_same_name() -> None:
    one, other = (pictures.glimpse_png(CANVAS, (8, 8), 64, True) for _ in range(2))
    assert name_of(one) == name_of(other)
    assert name_of(one) != name_of(pictures.glimpse_png(CANVAS, (8, 9), 64, True))


def test_other_colours_are_refused() -> None:
    with pytest.raises(ValueError, match="alone"):
        pictures.png(np.full((4, 4), 7, np.uint8))
