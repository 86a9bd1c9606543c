"""RAM as published: its sensor, its pictures, and the faults that others met."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.ram import RamConfig, RamTrainer, draw, look, loss, picture
from mnistpro_jax.agents.learned.ram import box_means, glimpse_sensor
from mnistpro_jax.data import Dataset
from tests.episodes import quick_jit

TINY = RamConfig(batch=8, glimpses=3, held_out=10, updates=50)


def _patch(picture: np.ndarray, centre: tuple[int, int], size: int, scale: int) -> np.ndarray:
    """The slow way: pixel by pixel, outside is 0, then means of blocks."""
    side = size << scale
    out = np.zeros((side, side))
    for row in range(side):
        for column in range(side):
            y, x = centre[1] - side // 2 + row, centre[0] - side // 2 + column
            if 0 <= y < picture.shape[0] and 0 <= x < picture.shape[1]:
                out[row, column] = picture[y, x]
    return out.reshape(size, 1 << scale, size, 1 << scale).mean(axis=(1, 3))


def test_sensor_is_the_patches_around_the_location() -> None:
    rng = np.random.default_rng(0)
    pixels = rng.random((40, 20, 20)).astype(np.float32)
    corners = [(0.0, 0.0), (-1.0, -1.0), (1.0, 1.0), (0.4, -0.7), (1.0, -1.0)]
    locations = np.concatenate([corners, rng.uniform(-1, 1, (35, 2))]).astype(np.float32)
    for size, scales in ((4, 3), (5, 2), (8, 1)):
        means = box_means(jnp.asarray(pixels), scales)
        seen = glimpse_sensor(means, jnp.asarray(locations), 20, size, scales)
        assert seen.shape == (40, scales * size * size)
        patches = np.asarray(seen).reshape(40, scales, size, size)
        for picture, location, got in zip(pixels, locations, patches, strict=True):
            centre = tuple(int(np.round((at + 1) / 2 * 20)) for at in location)
            for scale in range(scales):
                np.testing.assert_allclose(got[scale], _patch(picture, centre, size, scale), atol=1e-6)


def test_pictures_hold_the_digit_and_clutter() -> None:
    digit = jnp.full((28, 28), 255, jnp.uint8)
    others = jnp.full((4, 28, 28), 128, jnp.uint8)
    for number in range(5):
        key = jax.random.key(number)
        plain = picture(key, digit, others[:0], RamConfig(canvas=60))
        rows, columns = np.nonzero(np.asarray(plain) == 1)
        assert plain.shape == (60, 60)
        assert (len(rows), np.ptp(rows), np.ptp(columns)) == (784, 27, 27)
        cluttered = picture(key, digit, others, RamConfig(canvas=60, clutter=4))
        assert float(cluttered.sum()) > float(plain.sum())
        assert int((np.asarray(cluttered) == 1).sum()) == 784
    moved = picture(jax.random.key(0), digit, others[:0], RamConfig(shift=2))
    assert moved.shape == (28, 28)


@functools.cache
def _state() -> tuple[Any, Any, jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 28, 28), np.uint8)
    dataset = Dataset(
        images=images, labels=(np.arange(40) % 10).astype(np.int32), num_classes=10, source="x", split="train"
    )
    trainer = RamTrainer(TINY, dataset)
    pictures, labels = draw(TINY, jax.random.key(1), trainer.data, TINY.batch)
    return trainer, trainer.init(jax.random.key(0)), pictures, labels


def _norms(gradient: Any) -> dict[str, float]:
    return {
        name: float(sum(jnp.abs(leaf).sum() for leaf in jax.tree.leaves(part)))
        for name, part in gradient["params"].items()
    }


POLICY = {"location_network", "location_hidden"}


def test_reading_does_not_reach_the_location_network() -> None:
    _, state, pictures, _ = _state()
    reading = quick_jit(
        jax.grad(lambda params: jnp.sum(look(TINY, params, pictures, jax.random.key(2), 0.1)[0] ** 2))
    )
    norms = _norms(reading(state.params))
    assert all(norms[name] == 0 for name in POLICY | {"baseline"})
    assert all(norms[name] > 0 for name in norms.keys() - POLICY - {"baseline"})


def test_reinforce_reaches_the_location_network_alone() -> None:
    _, state, pictures, _ = _state()
    policy = quick_jit(
        jax.grad(lambda params: jnp.sum(look(TINY, params, pictures, jax.random.key(2), 0.1)[1]))
    )
    norms = _norms(policy(state.params))
    assert {name for name, norm in norms.items() if norm > 0} == POLICY


def test_the_baseline_is_trained_by_its_error_alone() -> None:
    _, state, pictures, _ = _state()
    baseline = quick_jit(
        jax.grad(lambda params: jnp.sum(look(TINY, params, pictures, jax.random.key(2), 0.1)[2] ** 2))
    )
    norms = _norms(baseline(state.params))
    assert {name for name, norm in norms.items() if norm > 0} == {"baseline"}


def test_locations_spread_over_the_pictures() -> None:
    _, state, pictures, _ = _state()
    still = look(TINY, state.params, pictures, jax.random.key(3), 0.0)[3]
    noisy = look(TINY, state.params, pictures, jax.random.key(3), 0.1)[3]
    assert float(jnp.abs(still - noisy)[1:].mean()) == pytest.approx(0.08, rel=0.4)  # mean of |N(0, 0.1)|
    assert float(jnp.abs(still[0] - noisy[0]).max()) == 0


def test_a_few_updates_learn_four_pictures() -> None:
    """Loss falls and accuracy leaves chance on a task that can be learnt by heart."""
    config = dataclasses.replace(TINY, batch=16, shift=0, learning_rate=3e-3, noise=0.05)
    rng = np.random.default_rng(1)
    images, labels = rng.integers(0, 2, (4, 28, 28), np.uint8) * np.uint8(255), np.arange(4, dtype=np.int32)
    dataset = Dataset(
        images=np.tile(images, (10, 1, 1)),
        labels=np.tile(labels, 10),
        num_classes=10,
        source="x",
        split="train",
    )
    trainer = RamTrainer(config, dataset)
    step = quick_jit(trainer.step)
    state = trainer.init(jax.random.key(0))
    history = []
    for number in range(config.updates):
        state, metrics = step(state, jax.random.fold_in(jax.random.key(1), number), trainer.data)
        history.append((float(metrics["cross_entropy"]), float(metrics["accuracy"])))
    assert history[0][0] > 1.5
    assert np.mean([row[0] for row in history[-5:]]) < 0.7 * history[0][0]
    assert np.mean([row[1] for row in history[-5:]]) > 0.5


def test_the_loss_is_finite_without_noise() -> None:
    _, state, pictures, labels = _state()
    quiet = dataclasses.replace(TINY, noise=0.0)
    total, _ = loss(quiet, state.params, pictures, labels, jax.random.key(0))
    assert np.isfinite(float(total))
