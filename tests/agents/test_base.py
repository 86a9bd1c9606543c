from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.agents import Geometry, base
from mnistpro_jax.env.types import Kind
from tests.agents.helpers import native, window_mask

candidates = jax.jit(base.candidates, static_argnums=0)
direction_to_best = jax.jit(base.direction_to_best)
shown_by = jax.jit(base.Candidates.shown)

GEOMETRIES = [
    Geometry(),
    Geometry(width=448, num_digits=2),
    Geometry(window=32, stride=16),
    Geometry(window=128, stride=64, outline=False),
    Geometry(window=224, stride=224),
]


def reachable(geometry: Geometry, position: int, limit: int) -> dict[int, int]:
    """Signed moves from ``position`` to every corner that one unbroken run of moves passes."""
    found = {position: 0}
    for sign in (-1, 1):
        here = position
        for count in itertools.count(1):
            there = min(max(here + sign * geometry.stride, 0), limit)
            if there == here:
                break
            found[there] = sign * count
            here = there
    return found


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("seed", range(2))
def test_candidates_are_the_windows_that_moves_reach(geometry: Geometry, seed: int) -> None:
    rng = np.random.default_rng(seed)
    xy = (int(rng.integers(geometry.limit_x + 1)), int(rng.integers(geometry.limit_y + 1)))
    xy = (xy, (0, geometry.limit_y))[seed]
    options = jax.tree.map(np.asarray, candidates(geometry, jnp.asarray(xy, jnp.int32)))
    expected = {
        (moves_x, moves_y): (x, y)
        for x, moves_x in reachable(geometry, xy[0], geometry.limit_x).items()
        for y, moves_y in reachable(geometry, xy[1], geometry.limit_y).items()
        if (moves_x, moves_y) != (0, 0)
    }
    valid = np.asarray(options.valid)
    got = {
        (int(options.moves_x[column]), int(options.moves_y[row]))
        for row, column in zip(*np.nonzero(valid), strict=True)
    }
    assert got == set(expected)
    weights = rng.random((geometry.num_digits, geometry.native_height, geometry.native_width), np.float32)
    shown = np.asarray(shown_by(options, weights))
    flat = weights.swapaxes(0, 1).reshape(geometry.native_height, -1)
    for row, column in zip(*np.nonzero(valid), strict=True):
        moves = (int(options.moves_x[column]), int(options.moves_y[row]))
        assert int(options.distance[row, column]) == abs(moves[0]) + abs(moves[1])
        seen = native(geometry, window_mask(geometry, [expected[moves]])) / geometry.native_factor**2
        np.testing.assert_allclose(shown[row, column], (seen * flat).sum(), rtol=1e-4)


def test_the_first_move_leads_to_the_target() -> None:
    geometry = Geometry()
    for xy in ((37, 80), (160, 5)):
        options = jax.tree.map(np.asarray, candidates(geometry, jnp.asarray(xy, jnp.int32)))
        for row, column in zip(*np.nonzero(np.asarray(options.valid)), strict=True):
            values = np.zeros(options.valid.shape, np.float32)
            values[row, column] = 1
            direction = int(direction_to_best(options, values, np.zeros_like(values)))
            moves = (int(options.moves_x[column]), int(options.moves_y[row]))
            towards = {Kind.LEFT: moves[0] < 0, Kind.RIGHT: moves[0] > 0}
            towards |= {Kind.UP: moves[1] < 0, Kind.DOWN: moves[1] > 0}
            assert towards[Kind(direction)]


def test_the_way_begins_where_more_is_seen() -> None:
    options = candidates(Geometry(), jnp.asarray((64, 64), jnp.int32))
    target = np.zeros(options.valid.shape, np.float32)
    target[-2, -2] = 1  # the last ones are copies
    here = int(np.argmin(np.abs(options.moves_x)))
    for (row, column), kind in (((here + 1, here), Kind.DOWN), ((here, here + 1), Kind.RIGHT)):
        gains = np.zeros_like(target)
        gains[row, column] = 0.5
        assert int(direction_to_best(options, target, gains)) == kind


def test_moves_are_clamped() -> None:
    geometry = Geometry()
    ends = [
        geometry.move(jnp.asarray((10, 150), jnp.int32), jnp.asarray(k, jnp.int32)).tolist() for k in range(4)
    ]
    assert ends == [[10, 118], [10, 160], [0, 150], [42, 150]]


@pytest.mark.parametrize(
    "wrong",
    [{"window": 300}, {"window": 2}, {"stride": 0}, {"num_digits": 0}, {"width": 230}, {"native_factor": 0}],
)
def test_a_geometry_that_does_not_fit_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected|multiples"):
        Geometry(**wrong)


def test_published_budgets() -> None:
    assert (Geometry().budget, Geometry(width=448, num_digits=2).budget) == (36, 78)
