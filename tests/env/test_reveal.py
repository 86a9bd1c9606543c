"""Both kinds of masks against a plain pixel mask, over random walks."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.lattice import Axis
from mnistpro_jax.env.reveal import LatticeMask, PixelMask, RevealedMask, revealed_mask
from tests.episodes import pack, quick_jit

# (height, width, window, stride, low, high): the published geometry in both definitions, strides that divide
# nothing, windows wider than the stride or narrower, no way to move up or down,
# one cell a window, nothing readable.
GEOMETRIES = [
    (224, 224, 64, 32, 0, 0),
    (224, 448, 64, 32, 2, 1),
    (100, 200, 33, 11, 2, 1),
    (40, 70, 20, 50, 0, 0),
    (50, 60, 5, 7, 2, 1),
    (30, 62, 30, 9, 0, 0),
    (96, 96, 32, 32, 0, 0),
    (20, 40, 2, 3, 0, 2),
]
WALKS, TURNS = 24, 24


def place_and_show(mask: RevealedMask) -> Any:
    """A function of (start (2,), corners (T, 2), 1) that shows the windows one after another."""

    def walk(start: jax.Array, corners: jax.Array, one: jax.Array) -> Any:
        place = mask.place(start, start)
        revealed = mask.first_look(place, start)
        visited = mask.add_corner(jnp.zeros(mask.shape, jnp.uint32), place, start)

        def show(carry: tuple[jax.Array, jax.Array], xy: jax.Array) -> Any:
            revealed, visited = carry
            place = mask.place(start, xy)
            look = mask.look(revealed, place, xy)
            window = mask.x_axis.window  # type: ignore[attr-defined]
            fresh = jnp.zeros((bitmap.num_words(window), window), jnp.uint32)
            for rows, strip in mask.strips(look):
                fresh = fresh.at[:, rows].set(strip)
            again = mask.contains_corner(visited, place, xy)
            visited = mask.add_corner(visited, place, xy)
            revealed = revealed | mask.first_look(place, xy)
            return (revealed, visited), (fresh, look.area, mask.pixels(revealed, start, one), again)

        return mask.pixels(revealed, start, one), jax.lax.scan(show, (revealed, visited), corners)[1]

    return walk


@functools.cache
def walks(geometry: tuple[int, ...]) -> tuple[Any, Any]:
    height, width, window, stride, _, _ = geometry
    rng = np.random.default_rng(stride)
    limit = np.array([width - window, height - window])
    starts = rng.integers(limit + 1, size=(WALKS, 2))
    starts[0], starts[1] = 0, limit
    corners = np.empty((WALKS, TURNS, 2), np.int64)
    steps = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]])
    xy, move = starts, rng.integers(4, size=WALKS)
    for turn in range(TURNS):
        move = np.where(rng.random(WALKS) < 0.5, move, rng.integers(4, size=WALKS))
        xy = np.clip(xy + stride * steps[move], 0, limit)
        corners[:, turn] = xy
    return starts, corners


@pytest.mark.parametrize("kind", [LatticeMask, PixelMask])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_masks_show_what_the_windows_showed(geometry: tuple[int, ...], kind: type) -> None:
    height, width, window, stride, low, high = geometry
    mask = kind(Axis(width, window, stride, low, high), Axis(height, window, stride, low, high))
    starts, corners = walks(geometry)
    arguments = (jnp.asarray(starts, jnp.int32), jnp.asarray(corners, jnp.int32), jnp.int32(1))
    play = quick_jit(jax.vmap(place_and_show(mask), in_axes=(0, 0, None)))
    first, (fresh, area, pixels, again) = jax.tree.map(np.asarray, play(*arguments))
    interior = np.zeros((window, window), bool)
    interior[low : window - high, low : window - high] = True
    np.testing.assert_array_equal(mask.interior, pack(interior))
    assert mask.interior_area == interior.sum()
    for number, start in enumerate(starts):
        seen = np.zeros((height, width), bool)
        before = [tuple(start)]
        seen[start[1] : start[1] + window, start[0] : start[0] + window] = interior
        np.testing.assert_array_equal(first[number], pack(seen))
        for turn, (x, y) in enumerate(corners[number]):
            region = seen[y : y + window, x : x + window]
            np.testing.assert_array_equal(fresh[number, turn], pack(interior & ~region))
            assert area[number, turn] == (interior & ~region).sum()
            region |= interior
            np.testing.assert_array_equal(pixels[number, turn], pack(seen))
            assert again[number, turn] == ((x, y) in before)
            before.append((x, y))


def test_the_published_geometry_takes_few_words() -> None:
    for width in (224, 448):
        for ring in ((0, 0), (2, 1)):
            mask = revealed_mask(224, width, 64, 32, *ring)
            assert isinstance(mask, LatticeMask)
            assert np.prod(mask.shape) <= 2 * 64


def test_fine_strides_fall_back_to_pixels() -> None:
    assert isinstance(revealed_mask(224, 224, 64, 1), PixelMask)
    assert isinstance(revealed_mask(224, 224, 64, 5), PixelMask)


def test_masks_are_hashable() -> None:
    assert hash(revealed_mask(224, 224, 64, 32)) == hash(revealed_mask(224, 224, 64, 32))
