from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.agents import Geometry, base, exact
from mnistpro_jax.agents.expected_gain import (
    _FULL,
    _PER_NAT,
    _ROW_PER_NAT,
    expected_gain,
    gain_per_nat,
    systematic_resample,
)
from mnistpro_jax.agents.explorers import (
    InformationGain,
    PriorCoverage,
    RandomWalk,
    Serpentine,
    Sight,
)
from mnistpro_jax.agents.likelihood import log_odds
from mnistpro_jax.agents.reader import EmpiricalBayesReader
from mnistpro_jax.data import Dataset
from mnistpro_jax.env import pipeline
from tests.agents.helpers import fused, observation, window_mask

ONE = jnp.ones((), jnp.float32)


read = jax.jit(EmpiricalBayesReader.posterior)
candidates = jax.jit(base.candidates, static_argnums=0)
strokes = jax.jit(pipeline.strokes)
shown = jax.jit(base.Candidates.shown)


@jax.jit
def direction(explorer: PriorCoverage | InformationGain, seen: Sight) -> jax.Array:
    return explorer.direction(jax.random.key(0), seen, ())[0]


def sight(reader: EmpiricalBayesReader, geometry: Geometry, image: np.ndarray, corners: list) -> Sight:
    """What was seen of digits side by side after the windows ``corners``."""
    view = fused(geometry, np.asarray(strokes(jnp.asarray(image))), corners)
    return Sight(observation(view, corners[-1]), reader, read(reader, view), jnp.float32(0.95))


def path(explorer: Serpentine, starts: np.ndarray, moves: int) -> np.ndarray:
    """Corners (moves + 1, starts, 2) of a walk that looks at nothing but its position."""

    def step(carry, _):
        xy, memory = carry
        seen = Sight(observation(None, (0, 0)), None, None, jnp.float32(0.95))
        seen = seen.replace(observation=seen.observation.replace(xy=xy))
        direction, memory = explorer.direction(jax.random.key(0), seen, memory)
        return (explorer.geometry.move(xy, direction), memory), xy

    def walk(start: Any) -> Any:
        return jax.lax.scan(step, (start, explorer.init(jax.random.key(0))), None, moves + 1)[1]

    return np.asarray(jax.jit(jax.vmap(walk, out_axes=1))(jnp.asarray(starts, jnp.int32)))


@pytest.mark.parametrize(
    ("geometry", "moves"),
    [
        (Geometry(), 31),
        (Geometry(width=448, num_digits=2), 62),
        (Geometry(window=32, stride=16), 168),
        # The budgets of these are too small for any path from some starts.
        (Geometry(window=128, stride=64), 10),
        (Geometry(window=64, stride=64), 21),
    ],
)
def test_serpentine_covers_everything(geometry: Geometry, moves: int) -> None:
    side = np.unique(np.r_[np.arange(0, geometry.limit_y + 1, 11), geometry.limit_y, geometry.stride])
    wide = np.unique(np.r_[np.arange(0, geometry.limit_x + 1, 13), geometry.limit_x, geometry.stride])
    starts = np.stack(np.meshgrid(wide, side), -1).reshape(-1, 2)
    assert moves < geometry.budget or geometry.stride == 64
    corners = path(Serpentine(geometry), starts, moves)
    hidden = Geometry(**{**vars(geometry), "outline": False})
    for k in range(len(starts)):
        visited = sorted({(int(x), int(y)) for x, y in corners[:, k]})
        assert window_mask(hidden, visited).all(), starts[k]


def test_serpentine_never_bumps_before_all_is_seen() -> None:
    corners = path(Serpentine(Geometry()), np.array([[75, 81], [0, 0], [160, 3]]), 25)
    assert (corners[1:] != corners[:-1]).any(-1).all()


def test_random_walk_is_uniform_over_useful_moves(reader: EmpiricalBayesReader) -> None:
    explorer = RandomWalk(Geometry())

    @jax.jit
    def drawn(keys: jax.Array, xy: Any) -> Any:
        seen = Sight(observation(None, (0, 0)).replace(xy=xy), reader, None, jnp.float32(0.95))
        return jax.vmap(lambda key: explorer.direction(key, seen, ())[0])(keys)

    keys = jax.random.split(jax.random.key(1), 4000)
    inside, corner = (
        np.bincount(drawn(keys, jnp.asarray(xy, jnp.int32)), minlength=4) for xy in ((50, 50), (0, 0))
    )
    np.testing.assert_allclose(inside / 4000, 0.25, atol=0.03)
    np.testing.assert_allclose(corner / 4000, [0, 0.5, 0, 0.5], atol=0.03)


def test_coverage_goes_to_the_unseen_half(reader: EmpiricalBayesReader, held_out: Dataset) -> None:
    geometry = Geometry()
    explorer = PriorCoverage(0.7 * ONE, 0.2 * ONE, geometry)
    right = [(80, 80), (112, 80), (112, 48), (112, 112), (112, 16), (80, 16), (80, 112), (80, 80)]
    seen = sight(reader, geometry, held_out.images[0], right)
    assert int(direction(explorer, seen)) == 2


def test_coverage_leaves_the_digit_that_is_known(reader: EmpiricalBayesReader, held_out: Dataset) -> None:
    geometry = Geometry(width=448, num_digits=2)
    pair = np.concatenate(list(held_out.images[:2]), axis=1)
    options = candidates(geometry, jnp.asarray((192, 80), jnp.int32))
    seen = sight(reader, geometry, pair, [(192, 80)])
    certain = seen.posterior.replace(
        classes=jnp.asarray(np.stack([np.eye(10)[3], np.full(10, 0.1)]), jnp.float32)
    )
    seen = seen.replace(posterior=certain)
    gains = jax.jit(PriorCoverage.gains)(PriorCoverage(ONE, 0 * ONE, geometry), options, seen)
    x = np.clip(192 + 32 * np.asarray(options.moves_x), 0, geometry.limit_x)
    assert int(jnp.max(gains[:, x + 64 <= 224])) == 0 < int(jnp.max(gains[:, x >= 224]))


def brute_force_gain(templates, one_hot, temperature, unseen, rows, columns) -> np.ndarray:
    """The definition, one window, truth and hypothesis at a time, in float64; shares throughout."""
    stroke, background = (np.asarray(term, np.float64) / 1000 for term in log_odds(templates, 1000))
    shares, one_hot = np.asarray(templates) / 64.0, np.asarray(one_hot, np.float64)

    def entropy(p: Any) -> Any:
        return -sum(q * np.log(q) for q in p if q > 0)

    gains = np.zeros((len(rows), len(columns)))
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            fresh = row[:, None] * column[None, :] * unseen
            after = 0.0
            for truth in shares:
                fits = [(fresh * (truth * a + b)).sum() for a, b in zip(stroke, background, strict=True)]
                weights = np.exp(temperature * (np.array(fits) - max(fits)))
                after += entropy(weights / weights.sum() @ one_hot) / len(shares)
            gains[y, x] = entropy(one_hot.mean(0)) - after
    return gains


gain = jax.jit(expected_gain, static_argnums=6)


@pytest.mark.parametrize("geometry", [Geometry(), Geometry(window=128, stride=64, outline=False)])
def test_expected_gain_is_its_definition(reader: EmpiricalBayesReader, geometry: Geometry) -> None:
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, 400, 7)
    options = candidates(geometry, jnp.asarray((70, 33), jnp.int32))
    hidden = jnp.asarray(rng.integers(0, 65, (28, 28)), jnp.int32)
    templates, one_hot = reader.templates[chosen], reader.one_hot[chosen]
    rows, columns = options.rows, options.columns[:, 0]
    for temperature in (0.2, 0.02):
        rate = jnp.int32(round(temperature / np.log(2) * 4096))
        got = gain(templates, one_hot, rate, hidden, rows, columns, 8)
        shares = (np.asarray(hidden) / 64, np.asarray(rows) / 8, np.asarray(columns) / 8)
        expected = brute_force_gain(templates, one_hot, temperature, *shares)
        assert got.dtype == jnp.int32
        np.testing.assert_allclose(got / gain_per_nat(7), expected, atol=0.01)
        assert np.corrcoef(np.ravel(got), np.ravel(expected))[0, 1] > 0.99


def test_the_fit_of_a_window_is_exact() -> None:
    """All terms at their largest stay within what float32 holds, whatever the window."""
    rows = columns = 28 * 15  # of the largest canvas
    assert rows * _FULL * round(3.92 * _PER_NAT) <= exact.EXACT  # log-odds and log of the background
    assert columns * 28 * round(3.92 * _ROW_PER_NAT) <= exact.EXACT


def test_gain_is_zero_where_nothing_can_be_learnt(reader: EmpiricalBayesReader) -> None:
    options = candidates(Geometry(), jnp.asarray((70, 33), jnp.int32))
    few = jnp.arange(8)
    agreeing = jnp.zeros((8, 10), jnp.float32).at[:, 4].set(1)
    window = (options.rows, options.columns[:, 0], 8)
    hidden, rate = jnp.full((28, 28), 64, jnp.int32), jnp.int32(1000)
    assert not np.any(gain(reader.templates[few], agreeing, rate, hidden, *window))
    known = gain(reader.templates[few], reader.one_hot[few], rate, 0 * hidden, *window)
    np.testing.assert_allclose(known / gain_per_nat(8), 0, atol=1e-3)


def test_tie_break_moves_on_when_all_particles_agree(reader: EmpiricalBayesReader, train: Dataset) -> None:
    geometry = Geometry()
    coverage = PriorCoverage(0.7 * ONE, 0.2 * ONE, geometry)
    explorer = InformationGain(coverage, 0.7 * ONE, ONE)
    seen = sight(
        reader, geometry, train.images[0], [(80, 80), (80, 48), (112, 48), (112, 80), (112, 112), (80, 112)]
    )
    k = int(train.labels[0])
    seen = seen.replace(
        posterior=seen.posterior.replace(weights=jnp.where(reader.labels == k, seen.posterior.weights, 0))
    )
    key = jax.random.key(0)
    options = candidates(geometry, seen.observation.xy)
    assert not np.any(jax.jit(explorer.information)(key, options, seen))
    assert int(direction(explorer, seen)) == int(direction(coverage, seen))


def test_coverage_is_unseen_information(reader: EmpiricalBayesReader, held_out: Dataset) -> None:
    for digits in (1, 2):
        geometry = Geometry(width=224 * digits, num_digits=digits)
        image = np.concatenate(list(held_out.images[:digits]), axis=1)
        explorer = PriorCoverage(0.7 * ONE, 0.2 * ONE, geometry)
        seen = sight(reader, geometry, image, [(30, 77), (62, 77)])
        options = candidates(geometry, seen.observation.xy)
        doubt = 0.2 + 0.8 * (1 - np.asarray(seen.posterior.confidences))
        expected = shown(options, doubt[:, None, None] * seen.unseen * reader.information)
        got = np.asarray(jax.jit(explorer.gains)(options, seen))
        assert got.dtype == np.int32
        np.testing.assert_allclose(got / explorer.worth, expected, rtol=0.02, atol=1e-3)


def resampled(weights: np.ndarray, offset: int, count: int) -> np.ndarray:
    """Evenly spaced targets along the running sum, in 64 bits."""
    ends = np.cumsum(weights.astype(np.int64))
    whole, rest = divmod(int(ends[-1]), count)
    targets = [k * whole + k * rest // count + offset for k in range(count)]
    return np.searchsorted(ends, targets, side="right")


@pytest.mark.parametrize(("size", "count"), [(1000, 32), (256, 16), (5000, 7)])
def test_resampling_is_exact(size: int, count: int) -> None:
    rng = np.random.default_rng(size)
    weights = np.floor(rng.random(size) ** 8 * (1 << 22)).astype(np.int32)
    weights[rng.integers(size)] = 1 << 22
    draw = jax.jit(systematic_resample, static_argnums=2)
    for seed in range(5):
        key = jax.random.key(seed)
        step = int(weights.sum(dtype=np.int64)) // count
        offset = int(jax.random.bits(key, (), jnp.uint32)) * step >> 32
        expected = resampled(weights, offset, count)
        np.testing.assert_array_equal(draw(key, jnp.asarray(weights), count), expected)


def test_resampling_is_proportional_and_even() -> None:
    rng = np.random.default_rng(0)
    whole = np.floor(rng.random(1000) ** 8 * (1 << 22)).astype(np.int32)
    weights = whole / whole.sum()
    draw = jax.jit(jax.vmap(systematic_resample, in_axes=(0, None, None)), static_argnums=2)
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 500), jnp.asarray(whole), 32))
    counts = np.stack([np.bincount(row, minlength=1000) for row in drawn])
    assert (counts >= np.floor(32 * weights - 1e-3)).all() and (counts <= np.ceil(32 * weights + 1e-3)).all()
    np.testing.assert_allclose(counts.mean(0), 32 * weights, atol=0.08)
    assert (np.diff(drawn, axis=1) >= 0).all() and drawn.dtype == np.int32


def test_resampling_where_all_are_likely() -> None:
    """A sum above 2 ** 31, as nothing seen gives it with a whole bank."""
    draw = jax.jit(systematic_resample, static_argnums=2)
    drawn = np.asarray(draw(jax.random.key(1), jnp.full((60_000,), 1 << 22, jnp.int32), 16))
    np.testing.assert_allclose(np.diff(drawn), 60_000 / 16, atol=2)
    assert 0 <= drawn[0] <= 3750


def test_resampling_a_certain_posterior() -> None:
    weights = jnp.where(jnp.arange(700) == 699, 1 << 22, 0).astype(jnp.int32)
    draw = jax.jit(systematic_resample, static_argnums=2)
    assert set(np.asarray(draw(jax.random.key(3), weights, 8)).tolist()) == {699}
