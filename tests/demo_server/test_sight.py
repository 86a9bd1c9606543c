"""What a picture shows, against the masks of the slow reference."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from mnistpro_jax.demo_server.sight import decode, look
from mnistpro_jax.demo_server.wire import WireError
from tests.demo_server.talk import data_url, enlarged, episode

CORNERS = (
    (0, 0),
    (1, 7),
    (80, 33),
    (-1, -1),
    (-2, -2),
    (-1, 40),
    (50, -1),
    (-2, 0),
)  # from the far border where < 0


@pytest.mark.parametrize("window", [8, 32, 64, 128])
@pytest.mark.parametrize("outline", [True, False])
def test_one_window_is_found_wherever_it_is(window: int, outline: bool) -> None:
    world = episode([3, 8], window, window // 2)
    for x, y in CORNERS:
        world.xy = (x if x >= 0 else 448 - window + 1 + x, y if y >= 0 else 224 - window + 1 + y)
        world.revealed[:] = world.readable[:] = False
        world._reveal()
        picture = look(world.picture(outline))
        assert picture.window == (*world.xy, window)
        assert picture.outlined == outline
        shown = world.readable if outline else world.revealed
        np.testing.assert_array_equal(picture.known, shown)
        np.testing.assert_array_equal(picture.stroke, shown & (world.canvas == 0))


@pytest.mark.parametrize("factor", [2, 3, 4])
def test_enlarged_pictures_are_the_same_pictures(factor: int) -> None:
    world = episode([5])
    small = look(world.picture())
    large = look(decode(data_url(enlarged(world.picture(), factor))))
    assert small.window == large.window
    np.testing.assert_array_equal(small.known, large.known)
    np.testing.assert_array_equal(small.stroke, large.stroke)


def test_fused_and_whole_canvases() -> None:
    world = episode([4, 2])
    for kind in (3, 3, 1, 2):
        world.step(kind)
    fused = look(world.memory_picture())
    assert fused.window is None and not fused.outlined and not fused.whole
    np.testing.assert_array_equal(fused.known, world.revealed)
    whole = look(np.repeat(world.canvas[:, :, None], 3, axis=2))
    assert whole.whole and whole.window is None
    np.testing.assert_array_equal(whole.stroke, world.canvas == 0)


def jpeg_url() -> str:
    buffer = io.BytesIO()
    Image.fromarray(episode([1]).picture()).save(buffer, format="JPEG")
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (lambda: "https://example.org/a.png", "data URL"),
        (jpeg_url, "data URL"),
        (lambda: jpeg_url().replace("jpeg", "png"), "not a complete PNG"),
        (lambda: data_url(episode([1]).picture())[:200], "not a complete PNG"),
        (lambda: data_url(episode([1]).picture()[:200]), "200"),
        (lambda: data_url(np.full((224, 224, 3), 90, np.uint8)), "colours"),
        (lambda: data_url(enlarged(episode([1]).picture(), 2)[1:-1, 1:-1]), "446"),
        (lambda: data_url(np.roll(enlarged(episode([1]).picture(), 2), 1, 1)), "repeating pixels"),
    ],
)
def test_what_is_no_published_picture_is_refused(url: object, message: str) -> None:
    with pytest.raises(WireError, match=message) as caught:
        look(decode(url()))  # type: ignore[operator]
    assert caught.value.status == 400
