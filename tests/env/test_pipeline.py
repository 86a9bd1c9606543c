"""The integer pipeline against Pillow, byte for byte."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax import data
from mnistpro_jax.env import pipeline
from tests.episodes import pack, pillow_canvas

FACTORS = [1, 2, 4, 8, 16, 32]


def noise(count: int, digits: int) -> np.ndarray:
    """Random bytes: every rounding case, strong edges and ink in the outermost pixels."""
    images = np.random.default_rng(count).integers(256, size=(count, digits, 28, 28), dtype=np.uint8)
    images[0], images[1] = 0, 255
    images[2:5] = np.where(images[2:5] < 128, 0, 255)
    return images


def expected(images: np.ndarray, factor: int) -> np.ndarray:
    return np.stack([pillow_canvas(image, 28 * factor) == 0 for image in images])


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("digits", [1, 2])
def test_strokes_equal_pillow(factor: int, digits: int) -> None:
    images = noise(12, digits)
    side_by_side = images.swapaxes(1, 2).reshape(12, 28, 28 * digits)
    stroke = jax.jit(pipeline.strokes, static_argnums=1)(jnp.asarray(side_by_side), factor)
    assert stroke.dtype == jnp.bool_
    np.testing.assert_array_equal(stroke, expected(images, factor))


@pytest.mark.parametrize("factor", [8, 16, 32])
def test_packed_strokes_equal_pillow(factor: int) -> None:
    images = noise(12, 1)
    words = jax.jit(pipeline.packed_strokes, static_argnums=1)(jnp.asarray(images[:, 0]), factor)
    assert words.dtype == jnp.uint32
    np.testing.assert_array_equal(words, pack(expected(images, factor)))


def test_digits_equal_pillow(mnist_test: data.Dataset) -> None:
    images = mnist_test.images[::20]
    words = jax.jit(pipeline.packed_strokes)(jnp.asarray(images))
    np.testing.assert_array_equal(words, pack(expected(images[:, None], 8)))


@pytest.mark.parametrize("digits", [1, 3])
def test_canvas_equals_pillow(digits: int, edge_digits: data.Dataset) -> None:
    images = edge_digits.images[:digits]
    canvas = jax.jit(pipeline.canvas)(jnp.asarray(images))
    assert (canvas.dtype, canvas.shape) == (jnp.uint8, (224, 224 * digits))
    np.testing.assert_array_equal(canvas, pillow_canvas(images, 224))


@pytest.mark.parametrize("factor", [0, -2, 3, 6, 12])
def test_factors_that_are_not_exact_are_refused(factor: int) -> None:
    with pytest.raises(ValueError, match="powers of two"):
        pipeline.strokes(jnp.zeros((28, 28), jnp.uint8), factor)
