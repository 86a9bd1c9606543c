"""What was seen, from the positions alone, against a plain pixel mask, over random walks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray

from mnistpro_jax.env.positions import Axis, Positions, div_rem
from tests.episodes import pack

# (height, width, window, stride): the published geometry; strides that divide nothing, or are one pixel; windows wider
# than the stride, narrower, as wide, and wider than half the canvas; no way to move up or down; tiny windows.
GEOMETRIES = [
    (224, 448, 64, 32),
    (96, 160, 32, 16),
    (64, 96, 64, 16),
    (100, 120, 50, 17),
    (80, 80, 40, 20),
    (40, 70, 20, 50),
    (50, 60, 5, 7),
    (30, 62, 30, 9),
    (96, 96, 32, 32),
    (30, 44, 17, 1),
    (30, 43, 17, 2),
    (20, 40, 4, 3),
]
RINGS = [(0, 0), (2, 1), (4, 0)]  # whole windows; less an outline; one that hides a window of four pixels
WALKS, TURNS = 16, 20


def walks(height: int, width: int, window: int, stride: int) -> NDArray[np.int32]:
    """Corners of random walks from random starts and from two corners of the canvas: int32 (WALKS, TURNS, 2)."""
    rng = np.random.default_rng(stride)
    limit = np.array([width - window, height - window])
    xy = rng.integers(limit + 1, size=(WALKS, 2))
    xy[0], xy[1] = 0, limit
    corners = [xy]
    moves = np.array([[0, -1], [0, 1], [-1, 0], [1, 0]])
    move = rng.integers(4, size=WALKS)
    for _ in range(TURNS - 1):
        move = np.where(rng.random(WALKS) < 0.5, move, rng.integers(4, size=WALKS))
        corners.append(np.clip(corners[-1] + stride * moves[move], 0, limit))
    return np.stack(corners, axis=1).astype(np.int32)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_what_was_seen_is_the_union_of_the_windows(geometry: tuple[int, int, int, int]) -> None:
    height, width, window, stride = geometry
    positions = Positions(Axis(width, window, stride), Axis(height, window, stride))
    corners = walks(*geometry)

    def walk(corners: jax.Array, one: jax.Array) -> Any:
        def show(shown: jax.Array, xy: jax.Array) -> Any:
            here = positions.one(xy)
            return shown | here, (here, jnp.any((shown & here) != 0))

        shown, (each, again) = jax.lax.scan(show, jnp.zeros(positions.shape, jnp.uint32), corners)
        seen = positions.seen(shown, corners[0], RINGS, one)
        return each, again, [(positions.pixels(what), positions.area(what)) for what in seen]

    arguments = (jnp.asarray(corners), jnp.int32(1))
    each, again, made = jax.tree.map(np.asarray, jax.jit(jax.vmap(walk, in_axes=(0, None)))(*arguments))
    np.testing.assert_array_equal(np.bitwise_count(each).sum(axis=(2, 3)), 1)
    for number, path in enumerate(corners.tolist()):
        assert again[number].tolist() == [path[turn] in path[:turn] for turn in range(TURNS)]
        for ring, (low, high) in enumerate(RINGS):
            seen = np.zeros((height, width), bool)
            for x, y in path:
                seen[y + low : max(y + low, y + window - high), x + low : max(x + low, x + window - high)] = (
                    True
                )
            pixels, area = made[ring]
            np.testing.assert_array_equal(pixels[number], pack(seen), err_msg=str((number, low, high)))
            assert area[number] == seen.sum()


def test_one_walk_without_vmap_is_the_same() -> None:
    positions = Positions(Axis(60, 20, 7), Axis(40, 20, 7))
    corners = jnp.asarray(walks(40, 60, 20, 7)[:4])
    one = jax.jit(jax.vmap(jax.vmap(positions.one)))(corners)
    shown = np.bitwise_or.reduce(np.asarray(one), axis=1)
    starts = np.asarray(corners[:, 0])

    def pixels(shown: jax.Array, start: jax.Array) -> list[jax.Array]:
        return [positions.pixels(seen) for seen in positions.seen(shown, start, RINGS, jnp.int32(1))]

    together = jax.jit(jax.vmap(pixels))(shown, starts)
    for number in range(4):
        alone = jax.jit(pixels)(shown[number], starts[number])
        for ring in range(len(RINGS)):
            np.testing.assert_array_equal(alone[ring], together[ring][number])


def test_the_published_geometry_takes_few_words() -> None:
    for width in (224, 448):
        assert Positions(Axis(width, 64, 32), Axis(224, 64, 32)).shape == (12, 1)


def test_positions_are_hashable() -> None:
    axis = Axis(224, 64, 32)
    assert hash(Positions(axis, axis)) == hash(Positions(Axis(224, 64, 32), axis))


@pytest.mark.parametrize(
    ("value", "divisor"), [(0, 1), (5, 1), (63, 32), (64, 32), (100, 33), (2**31 - 1, 7)]
)
def test_div_rem(value: int, divisor: int) -> None:
    quotient, remainder = div_rem(jnp.int32(value), divisor)
    assert (int(quotient), int(remainder)) == divmod(value, divisor)
    assert (quotient.dtype, remainder.dtype) == (jnp.int32, jnp.int32)
