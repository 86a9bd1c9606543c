"""Packed operations against plain NumPy."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mnistpro_jax.env import bitmap
from tests import episodes

# Shapes stay few, so that a hypothesis example costs a call and no compilation.
SHAPES = [(1, 1), (5, 31), (16, 32), (7, 33), (64, 64), (24, 100)]
EXAMPLES = settings(max_examples=60, deadline=None)

_pack = jax.jit(bitmap.pack)
_unpack = jax.jit(bitmap.unpack, static_argnums=1)
_pool = jax.jit(bitmap.pool, static_argnums=(1, 2))
_crop = jax.jit(bitmap.crop, static_argnums=(2, 3))
_popcount = jax.jit(bitmap.popcount, static_argnames="axis")
_funnel = jax.jit(bitmap.funnel)
_trim = jax.jit(bitmap.trim, static_argnums=1)


@st.composite
def pictures(draw: st.DrawFn, shapes: tuple[tuple[int, int], ...] = tuple(SHAPES)) -> NDArray[np.bool_]:
    """bool (H, W) of any density, sometimes all or nothing."""
    shape = draw(st.sampled_from(shapes))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return rng.random(shape) < draw(st.sampled_from([0.0, 0.05, 0.5, 0.95, 1.0]))


@EXAMPLES
@given(pictures())
def test_pack_sets_one_bit_a_pixel(picture: NDArray[np.bool_]) -> None:
    words = _pack(jnp.asarray(picture))
    assert words.dtype == jnp.uint32
    np.testing.assert_array_equal(words, episodes.pack(picture))


@EXAMPLES
@given(pictures())
def test_unpack_inverts_pack(picture: NDArray[np.bool_]) -> None:
    pixels = _unpack(_pack(jnp.asarray(picture)), picture.shape[1])
    assert pixels.dtype == jnp.uint8
    np.testing.assert_array_equal(pixels, picture)


def test_pack_and_unpack_take_leading_axes() -> None:
    pictures_ = np.random.default_rng(0).random((2, 3, 7, 40)) < 0.5
    words = _pack(jnp.asarray(pictures_))
    assert words.shape == (2, 3, 2, 7)
    np.testing.assert_array_equal(words, episodes.pack(pictures_))
    np.testing.assert_array_equal(_unpack(words, 40), pictures_)


def test_pack_takes_zeros_and_ones_of_any_dtype() -> None:
    picture = np.eye(5, 37)
    for dtype in (np.bool_, np.uint8, np.int32):
        np.testing.assert_array_equal(_pack(jnp.asarray(picture.astype(dtype))), episodes.pack(picture))


@EXAMPLES
@given(
    st.sampled_from([(64, 64, 8), (112, 96, 8), (28, 60, 4), (60, 90, 15), (30, 40, 2), (5, 33, 1)]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.3, 1.0]),
)
def test_pool_counts_the_pixels_of_each_cell(
    geometry: tuple[int, int, int], seed: int, density: float
) -> None:
    height, width, factor = geometry
    picture = np.random.default_rng(seed).random((height, width)) < density
    cells = _pool(_pack(jnp.asarray(picture)), width, factor)
    assert cells.dtype == jnp.uint8
    expected = picture.reshape(height // factor, factor, width // factor, factor).sum(axis=(1, 3))
    np.testing.assert_array_equal(cells, expected)


@EXAMPLES
@given(pictures())
def test_popcount(picture: NDArray[np.bool_]) -> None:
    words = _pack(jnp.asarray(picture))
    total = _popcount(words)
    assert (int(total), total.dtype) == (picture.sum(), jnp.int32)
    np.testing.assert_array_equal(_popcount(words, axis=0), picture.sum(axis=1))


@EXAMPLES
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 31))
def test_funnel_shifts_a_pair_of_words(low: int, high: int, shift: int) -> None:
    joined = _funnel(jnp.uint32(low), jnp.uint32(high), jnp.uint32(shift))
    assert int(joined) == ((low | (high << 32)) >> shift) & 0xFFFFFFFF


@functools.partial(jax.jit, static_argnums=2)
def _rows(start: jax.Array, stop: jax.Array, words: int) -> tuple[jax.Array, jax.Array]:
    """A row of pixels each: those below, and those of the span."""
    made = (bitmap.below(stop, words), bitmap.span(start, stop, words))
    return tuple(bitmap.unpack(row[:, None], 32 * words)[0] for row in made)


@EXAMPLES
@given(st.integers(-100, 200), st.integers(-100, 200), st.sampled_from([1, 2, 4]))
def test_below_and_span_take_any_columns(start: int, stop: int, words: int) -> None:
    columns = np.arange(32 * words)
    below, span = _rows(jnp.int32(start), jnp.int32(stop), words)
    np.testing.assert_array_equal(below, columns < stop)
    np.testing.assert_array_equal(span, (columns >= start) & (columns < stop))


@EXAMPLES
@given(
    pictures(((64, 64), (40, 100), (224, 448))),
    st.sampled_from([(1, 1), (16, 5), (32, 32), (33, 40), (40, 17), (64, 40)]),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_crop_of_any_place(picture: NDArray[np.bool_], region: tuple[int, int], u: float, v: float) -> None:
    width, height = region
    x, y = round(u * (picture.shape[1] - width)), round(v * (picture.shape[0] - height))
    words = _crop(_pack(jnp.asarray(picture)), jnp.asarray([x, y], jnp.int32), width, height)
    assert words.dtype == jnp.uint32
    np.testing.assert_array_equal(words, episodes.pack(picture[y : y + height, x : x + width]))


def test_crop_of_every_column() -> None:
    picture = np.random.default_rng(1).random((8, 96)) < 0.5
    words = _pack(jnp.asarray(picture))
    corners = np.stack([np.arange(33), np.zeros(33)], axis=-1).astype(np.int32)
    crops = jax.jit(jax.vmap(lambda xy: bitmap.crop(words, xy, 64, 8)))(corners)
    for x, crop in enumerate(np.asarray(crops)):
        np.testing.assert_array_equal(crop, episodes.pack(picture[:, x : x + 64]))


@pytest.mark.parametrize("width", [1, 31, 32, 33, 64])
def test_trim_clears_the_spare_bits(width: int) -> None:
    full = np.full((bitmap.num_words(width), 3), 0xFFFFFFFF, np.uint32)
    np.testing.assert_array_equal(_trim(full, width), episodes.pack(np.ones((3, width))))


@EXAMPLES
@given(st.integers(1, 2**32 - 1))
def test_select_bit_finds_every_set_bit(word: int) -> None:
    places = [bit for bit in range(32) if word >> bit & 1]
    ranks = np.minimum(np.arange(32, dtype=np.int32), len(places) - 1)
    found = _select_bits(jnp.uint32(word), ranks)
    assert found.dtype == jnp.int32
    assert found.tolist()[: len(places)] == places


@jax.jit
def _select_bits(word: jax.Array, ranks: jax.Array) -> jax.Array:
    return jax.vmap(bitmap.select_bit, in_axes=(None, 0))(word, ranks)
