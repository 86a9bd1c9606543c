"""The published study, pinned: episode list, canvases and starts are those of the paper, bit for bit."""

from __future__ import annotations

import hashlib
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mnistpro_jax import data
from mnistpro_jax.worlds.published import (
    PUBLISHED_BEST,
    PublishedEpisodes,
    canvas_of,
    published_episodes,
    published_indices,
    published_start,
)
from tests.reference import pillow_canvas

GOLDEN: list[dict[str, Any]] = json.loads((Path(__file__).parent / "published_golden.json").read_text())
LEVELS = (1, 2)

Pixels = npt.NDArray[np.uint8]


@pytest.fixture(scope="module")
def mnist() -> data.Dataset:
    return data.load("mnist", "test")


@pytest.fixture(scope="module")
def episodes() -> dict[int, PublishedEpisodes]:
    return {level: published_episodes(level) for level in LEVELS}


@pytest.fixture(scope="module")
def canvases(episodes: dict[int, PublishedEpisodes]) -> dict[int, Pixels]:
    return {level: episodes[level].canvases() for level in LEVELS}


# ---- Golden episodes ----


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: f"level{golden['level']}-{golden['episode']}")
def test_golden_episode(
    golden: dict[str, Any], episodes: dict[int, PublishedEpisodes], canvases: dict[int, Pixels]
) -> None:
    level, number = golden["level"], golden["episode"]
    episode, canvas = episodes[level], canvases[level][number]
    assert episode.indices[number].tolist() == golden["indices"]
    assert "".join(map(str, episode.labels[number])) == golden["label"]
    assert hashlib.md5(canvas.tobytes()).hexdigest() == golden["canvas_md5"]
    assert episode.start_xy[number].tolist() == golden["start_xy"]


@pytest.mark.parametrize("level", LEVELS)
def test_shapes_and_dtypes(
    level: int, episodes: dict[int, PublishedEpisodes], canvases: dict[int, Pixels]
) -> None:
    episode = episodes[level]
    assert (episode.level, episode.window) == (level, 64)
    for array, shape, dtype in (
        (episode.indices, (100, level), np.int32),
        (episode.labels, (100, level), np.int32),
        (episode.start_xy, (100, 2), np.int32),
        (episode.images, (100, level, 28, 28), np.uint8),
        (canvases[level], (100, 224, 224 * level), np.uint8),
    ):
        assert array.shape == shape
        assert array.dtype == dtype
    assert np.unique(canvases[level]).tolist() == [0, 255]


@pytest.mark.parametrize("level", LEVELS)
def test_every_episode_starts_on_stroke(
    level: int, episodes: dict[int, PublishedEpisodes], canvases: dict[int, Pixels]
) -> None:
    """Even with the outline drawn over the window's outer pixels."""
    for canvas, (x, y) in zip(canvases[level], episodes[level].start_xy, strict=True):
        readable = canvas[y + 2 : y + 63, x + 2 : x + 63]
        assert readable.shape == (61, 61)
        assert (readable == 0).any()


def test_level_one_is_balanced(episodes: dict[int, PublishedEpisodes]) -> None:
    assert episodes[1].labels.ravel().tolist() == list(range(10)) * 10


@pytest.mark.parametrize("level", LEVELS)
def test_canvases_equal_pillow(
    level: int, episodes: dict[int, PublishedEpisodes], canvases: dict[int, Pixels]
) -> None:
    for images, canvas in zip(episodes[level].images, canvases[level], strict=True):
        assert np.array_equal(canvas, pillow_canvas(images))


@pytest.mark.parametrize("window", [16, 32, 128, 224])
def test_window_moves_the_start_and_nothing_else(
    window: int, episodes: dict[int, PublishedEpisodes], canvases: dict[int, Pixels]
) -> None:
    other = published_episodes(1, window)
    assert other.window == window
    assert np.array_equal(other.indices, episodes[1].indices)
    expected = [published_start(canvas, window) for canvas in canvases[1]]
    assert other.start_xy.tolist() == [list(xy) for xy in expected]
    assert other.start_xy.min() >= 0
    assert other.start_xy.max() <= 224 - window


@pytest.mark.parametrize("level", [0, 3, -1, True, "1", None, 1.5, 1.0])
def test_unpublished_level_is_refused(level: Any) -> None:
    with pytest.raises(ValueError, match="level"):
        published_episodes(level)


def test_window_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"window must be 1\.\.224"):
        published_episodes(1, 225)


# ---- Episode list ----


@pytest.mark.parametrize("level", [1, 2, 3])
def test_list_equals_the_module_level_draws(level: int, mnist: data.Dataset) -> None:
    """The rule as it is stated, with the global generator of ``random``."""
    by_class = [[i for i, label in enumerate(mnist.labels) if label == digit] for digit in range(10)]
    state = random.getstate()
    try:
        random.seed(42)
        if level == 1:
            expected = [[random.choice(by_class[digit])] for _ in range(10) for digit in range(10)]
        else:
            expected = []
            for _ in range(100):
                labels = [random.randint(0, 9) for _ in range(level)]
                expected.append([random.choice(by_class[label]) for label in labels])
    finally:
        random.setstate(state)
    indices = published_indices(mnist.labels, level)
    assert indices.dtype == np.int32
    assert indices.tolist() == expected


def test_list_leaves_the_global_generator_alone(mnist: data.Dataset) -> None:
    before = random.getstate()
    published_indices(mnist.labels, 2)
    assert random.getstate() == before


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("number", [0, 1, 25, 100, 130])
def test_shorter_list_is_the_beginning_of_a_longer_one(level: int, number: int, mnist: data.Dataset) -> None:
    indices = published_indices(mnist.labels, level, number)
    assert indices.shape == (number, level)
    assert np.array_equal(indices, published_indices(mnist.labels, level, 200)[:number])


@pytest.mark.parametrize(
    ("labels", "level", "number", "message"),
    [
        (np.arange(10), 0, 100, "level"),
        (np.arange(10), 1.0, 100, "level"),
        (np.arange(10), True, 100, "level"),
        (np.arange(10), 1, -1, "num_episodes"),
        (np.arange(9), 1, 100, "each at least once"),
        (np.arange(11), 1, 100, "each at least once"),
        (np.arange(10.0), 1, 100, "integers"),
        (np.arange(10)[None], 1, 100, "integers of shape"),
    ],
)
def test_bad_list_request_is_refused(labels: Any, level: Any, number: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        published_indices(labels, level, number)


# ---- Start ----


def test_start_without_stroke_is_in_the_middle() -> None:
    assert published_start(np.full((224, 448), 255, np.uint8)) == (192, 80)
    assert published_start(np.full((224, 224), 255, np.uint8), 32) == (96, 96)


@pytest.mark.parametrize(
    ("pixel_xy", "start"),
    [((0, 0), (0, 0)), ((447, 223), (384, 160)), ((100, 90), (68, 58)), ((31, 200), (0, 160))],
)
def test_start_is_centred_on_stroke_and_clamped(pixel_xy: tuple[int, int], start: tuple[int, int]) -> None:
    canvas = np.full((224, 448), 255, np.uint8)
    canvas[pixel_xy[1], pixel_xy[0]] = 0
    assert published_start(canvas) == start


def test_start_depends_on_content_not_on_memory_layout(canvases: dict[int, Pixels]) -> None:
    canvas = canvases[2][3]
    assert published_start(np.asfortranarray(canvas)) == published_start(canvas)


@pytest.mark.parametrize(
    ("canvas", "window"),
    [
        (np.zeros((224, 224), bool), 64),
        (np.zeros((1, 224, 224), np.uint8), 64),
        (np.zeros((224, 448), np.uint8), 225),
        (np.zeros((224, 448), np.uint8), 0),
    ],
)
def test_bad_start_request_is_refused(canvas: Any, window: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        published_start(canvas, window)


# ---- Canvas ----


def test_canvas_of_every_test_image_equals_pillow(mnist: data.Dataset) -> None:
    for first in range(0, len(mnist.images), 100):
        images = mnist.images[first : first + 100, None]
        for image, canvas in zip(images, canvas_of(images), strict=True):
            assert np.array_equal(canvas, pillow_canvas(image))


def test_canvas_of_pairs_equals_pillow_also_where_ink_meets(mnist: data.Dataset) -> None:
    """Ink in the outermost column reaches into the neighbour: glueing single canvases is not enough there."""
    at_border = np.flatnonzero(mnist.images[:, :, [0, -1]].any(axis=(1, 2)))
    assert len(at_border) == 18
    rng = np.random.default_rng(0)
    pairs = list(itertools.product(at_border, at_border))
    for image in at_border:
        pairs += [(image, other) for other in rng.integers(10_000, size=5)]
        pairs += [(other, image) for other in rng.integers(10_000, size=5)]
    pairs += [tuple(pair) for pair in rng.integers(10_000, size=(300, 2))]
    glued_differs = 0
    for left, right in pairs:
        canvas = canvas_of(mnist.images[[left, right]])
        assert np.array_equal(canvas, pillow_canvas(mnist.images[[left, right]]))
        glued = [canvas_of(mnist.images[[index]]) for index in (left, right)]
        glued_differs += not np.array_equal(canvas, np.concatenate(glued, axis=1))
    assert glued_differs > 0


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 28, 28), (2, 5, 9), (1, 1, 1)])
def test_canvas_of_noise_equals_pillow(shape: tuple[int, ...]) -> None:
    """Random bytes reach every rounding case that smooth digits may miss."""
    images = np.random.default_rng(1).integers(256, size=(20, *shape), dtype=np.uint8)
    for single, canvas in zip(images, canvas_of(images), strict=True):
        assert np.array_equal(canvas, pillow_canvas(single))


@pytest.mark.parametrize("images", [np.zeros((28, 28), np.uint8), np.zeros((1, 28, 28), np.float32)])
def test_bad_images_are_refused(images: Any) -> None:
    with pytest.raises(ValueError, match="images must be uint8"):
        canvas_of(images)


# ---- Figures ----


def test_published_best() -> None:
    assert {level: (best.accuracy_percent, best.mean_steps) for level, best in PUBLISHED_BEST.items()} == {
        1: (88.0, 15.67),
        2: (63.0, 41.00),
    }
    assert {best.source for best in PUBLISHED_BEST.values()} == {"arXiv 2608.31022"}
