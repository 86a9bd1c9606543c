from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.agents import Geometry
from mnistpro_jax.agents.base import candidates
from mnistpro_jax.agents.explorers import (
    InformationGain,
    PriorCoverage,
    RandomWalk,
    Serpentine,
    Sight,
    expected_gain,
    systematic_resample,
)
from mnistpro_jax.agents.reader import EmpiricalBayesReader, log_odds
from mnistpro_jax.data import Dataset
from mnistpro_jax.env import pipeline
from tests.agents.helpers import fused, observation, window_mask

ONE = jnp.ones((), jnp.float32)


read = jax.jit(EmpiricalBayesReader.posterior)


@jax.jit
def direction(explorer: PriorCoverage | InformationGain, seen: Sight) -> jax.Array:
    return explorer.direction(jax.random.key(0), seen, ())[0]


def sight(reader: EmpiricalBayesReader, geometry: Geometry, image: np.ndarray, corners: list) -> Sight:
    """What was seen of digits side by side after the windows ``corners``."""
    view = fused(geometry, np.asarray(pipeline.strokes(jnp.asarray(image))), corners)
    return Sight(observation(view, corners[-1]), reader, read(reader, view), jnp.float32(0.95))


def path(explorer: Serpentine, starts: np.ndarray, moves: int) -> np.ndarray:
    """Corners (moves + 1, starts, 2) of a walk that looks at nothing but its position."""

    def step(carry, _):
        xy, memory = carry
        seen = Sight(observation(None, (0, 0)), None, None, jnp.float32(0.95))
        seen = seen.replace(observation=seen.observation.replace(xy=xy))
        direction, memory = explorer.direction(jax.random.key(0), seen, memory)
        return (explorer.geometry.move(xy, direction), memory), xy

    def walk(start):
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

    def draw(key, xy):
        seen = Sight(observation(None, xy), reader, None, jnp.float32(0.95))
        return explorer.direction(key, seen, ())[0]

    keys = jax.random.split(jax.random.key(1), 4000)
    inside = np.bincount(jax.vmap(lambda k: draw(k, (50, 50)))(keys), minlength=4)
    corner = np.bincount(jax.vmap(lambda k: draw(k, (0, 0)))(keys), minlength=4)
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
        classes=jnp.stack([jnp.eye(10)[3], jnp.full(10, 0.1)]).astype(jnp.float32)
    )
    seen = seen.replace(posterior=certain)
    gains = jax.jit(PriorCoverage.gains)(PriorCoverage(ONE, 0 * ONE, geometry), options, seen)
    x = np.clip(192 + 32 * np.asarray(options.moves_x), 0, geometry.limit_x)
    assert float(jnp.max(gains[:, x + 64 <= 224])) == 0 < float(jnp.max(gains[:, x >= 224]))


def brute_force_gain(templates, one_hot, temperature, unseen, rows, columns) -> np.ndarray:
    """The definition, one window, truth and hypothesis at a time, in float64."""
    stroke, background = (np.asarray(term, np.float64) for term in log_odds(templates))
    shares, one_hot = np.asarray(templates) / 64.0, np.asarray(one_hot, np.float64)

    def entropy(p):
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


def test_expected_gain_is_its_definition(reader: EmpiricalBayesReader) -> None:
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, 400, 7)
    options = candidates(Geometry(), jnp.asarray((70, 33), jnp.int32))
    unseen = rng.random((28, 28), np.float32)
    templates, one_hot = reader.templates[chosen], reader.one_hot[chosen]
    for temperature in (0.2, 0.02):
        arguments = (templates, one_hot, np.float32(temperature), unseen, options.rows, options.columns[:, 0])
        got = jax.jit(expected_gain)(*(jnp.asarray(a) for a in arguments))
        expected = brute_force_gain(
            templates,
            one_hot,
            temperature,
            unseen,
            np.asarray(options.rows),
            np.asarray(options.columns[:, 0]),
        )
        np.testing.assert_allclose(got, expected, atol=1e-4)
        assert float(jnp.ptp(got)) > 0.01


def test_gain_is_zero_where_nothing_can_be_learnt(reader: EmpiricalBayesReader) -> None:
    options = candidates(Geometry(), jnp.asarray((70, 33), jnp.int32))
    few = jnp.arange(8)
    agreeing = jnp.zeros((8, 10), jnp.float32).at[:, 4].set(1)
    window = (options.rows, options.columns[:, 0])
    unseen = jnp.ones((28, 28), jnp.float32)
    gain = jax.jit(expected_gain)
    same = gain(reader.templates[few], agreeing, ONE, unseen, *window)
    known = gain(reader.templates[few], reader.one_hot[few], ONE, 0 * unseen, *window)
    np.testing.assert_allclose(same, 0, atol=1e-6)
    np.testing.assert_allclose(known, 0, atol=1e-5)


def test_tie_break_moves_on_when_all_particles_agree(reader: EmpiricalBayesReader, train: Dataset) -> None:
    geometry = Geometry()
    coverage = PriorCoverage(0.7 * ONE, 0.2 * ONE, geometry)
    explorer = InformationGain(coverage, 0.7 * ONE, ONE)
    seen = sight(
        reader, geometry, train.images[0], [(80, 80), (80, 48), (112, 48), (112, 80), (112, 112), (80, 112)]
    )
    k = int(train.labels[0])
    seen = seen.replace(
        posterior=seen.posterior.replace(
            log_weights=jnp.where(reader.labels == k, seen.posterior.log_weights, -jnp.inf)
        )
    )
    key = jax.random.key(0)
    options = candidates(geometry, seen.observation.xy)
    np.testing.assert_allclose(jax.jit(explorer.information)(key, options, seen), 0, atol=1e-5)
    assert int(direction(explorer, seen)) == int(direction(coverage, seen))


def test_resampling_is_proportional_and_even() -> None:
    rng = np.random.default_rng(0)
    weights = rng.random(1000) ** 8
    weights /= weights.sum()
    log_weights = jnp.asarray(np.log(weights), jnp.float32)
    draw = jax.jit(jax.vmap(systematic_resample, in_axes=(0, None, None)), static_argnums=2)
    drawn = np.asarray(draw(jax.random.split(jax.random.key(0), 500), log_weights, 32))
    counts = np.stack([np.bincount(row, minlength=1000) for row in drawn])
    assert (counts >= np.floor(32 * weights - 1e-3)).all() and (counts <= np.ceil(32 * weights + 1e-3)).all()
    np.testing.assert_allclose(counts.mean(0), 32 * weights, atol=0.08)
    assert (np.diff(drawn, axis=1) >= 0).all() and drawn.dtype == np.int32


def test_resampling_a_certain_posterior() -> None:
    log_weights = jnp.where(jnp.arange(700) == 699, 0.0, -jnp.inf).astype(jnp.float32)
    draw = jax.jit(systematic_resample, static_argnums=2)
    assert set(np.asarray(draw(jax.random.key(3), log_weights, 8)).tolist()) == {699}
