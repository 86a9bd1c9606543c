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

TINY = RamConfig(batch=8, glimpses=3, held_out=10, updates=50)
_means = jax.jit(box_means, static_argnums=1)
_sense = jax.jit(glimpse_sensor, static_argnums=(2, 3, 4))
_picture = jax.jit(picture, static_argnums=3)


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
        seen = _sense(_means(pixels, scales), locations, 20, size, scales)
        assert seen.shape == (40, scales * size * size)
        patches = np.asarray(seen).reshape(40, scales, size, size)
        for original, location, got in zip(pixels, locations, patches, strict=True):
            centre = tuple(int(np.round((at + 1) / 2 * 20)) for at in location)
            for scale in range(scales):
                np.testing.assert_allclose(got[scale], _patch(original, centre, size, scale), atol=1e-6)


def test_pictures_hold_the_digit_and_clutter() -> None:
    digit = np.full((28, 28), 255, np.uint8)
    others = np.full((4, 28, 28), 128, np.uint8)
    for number in range(5):
        key = jax.random.key(number)
        plain = _picture(key, digit, others[:0], RamConfig(canvas=60))
        rows, columns = np.nonzero(np.asarray(plain) == 1)
        assert plain.shape == (60, 60)
        assert (len(rows), np.ptp(rows), np.ptp(columns)) == (784, 27, 27)
        cluttered = _picture(key, digit, others, RamConfig(canvas=60, clutter=4))
        assert float(cluttered.sum()) > float(plain.sum())
        assert int((np.asarray(cluttered) == 1).sum()) == 784
    moved = _picture(jax.random.key(0), digit, others[:0], RamConfig(shift=2))
    assert moved.shape == (28, 28)


@functools.cache
def _state() -> tuple[Any, Any, jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 28, 28), np.uint8)
    dataset = Dataset(
        images=images, labels=(np.arange(40) % 10).astype(np.int32), num_classes=10, source="x", split="train"
    )
    trainer = RamTrainer(TINY, dataset)
    pictures, labels = jax.jit(functools.partial(draw, TINY, batch=TINY.batch))(
        jax.random.key(1), data=trainer.data
    )
    return trainer, jax.jit(trainer.init)(jax.random.key(0)), pictures, labels


_look = jax.jit(functools.partial(look, TINY, mirror=True), static_argnames="noise")


POLICY = {"location_network", "location_hidden"}


@functools.cache
def _norms() -> dict[str, dict[str, float]]:
    """Size of the gradient of each output of a rollout in each network: {output: {network: norm}}."""
    pictures = _state()[2]
    config = dataclasses.replace(TINY, aims_by_sight=True)
    shapes = (TINY.batch, 256), (TINY.batch, 64), (TINY.batch, 2)
    params = jax.jit(config.network.init)(jax.random.key(0), *(jnp.zeros(shape) for shape in shapes))
    assert params["params"]["location_hidden"]["kernel"].shape == (256 + 64 + 2, 128)

    def sums(params: Any) -> jax.Array:
        seen = look(config, params, pictures, jax.random.key(2), 0.1, mirror=True)
        parts = (seen.logits**2, seen.log_density, seen.baseline**2, seen.elsewhere**2)
        return jnp.stack([jnp.sum(part) for part in parts])

    slopes = jax.tree.map(np.asarray, jax.jit(jax.jacrev(sums))(params)["params"])
    return {
        output: {
            name: float(sum(np.abs(leaf[row]).sum() for leaf in jax.tree.leaves(part)))
            for name, part in slopes.items()
        }
        for row, output in enumerate(("logits", "log_density", "baseline", "elsewhere"))
    }


def test_reading_does_not_reach_the_location_network() -> None:
    norms = _norms()["logits"]
    assert all(norms[name] == 0 for name in POLICY | {"baseline"})
    assert all(norms[name] > 0 for name in norms.keys() - POLICY - {"baseline"})


def test_reinforce_reaches_the_location_network_alone() -> None:
    assert {name for name, norm in _norms()["log_density"].items() if norm > 0} == POLICY


def test_the_baseline_is_trained_by_its_error_alone() -> None:
    assert {name for name, norm in _norms()["baseline"].items() if norm > 0} == {"baseline"}


def test_nothing_is_trained_by_the_reading_elsewhere() -> None:
    assert all(norm == 0 for norm in _norms()["elsewhere"].values())


def test_locations_spread_over_the_pictures() -> None:
    _, state, pictures, _ = _state()
    still, noisy = (
        np.asarray(_look(state.params, pictures, jax.random.key(3), noise=by).locations) for by in (0.0, 0.1)
    )
    assert np.abs(still - noisy)[1:].mean() == pytest.approx(0.08, rel=0.4)  # mean of |N(0, 0.1)|
    assert np.abs(still[0] - noisy[0]).max() == 0


def test_elsewhere_is_the_reading_on_the_other_side_of_the_mean() -> None:
    _, state, pictures, _ = _state()
    key, network = jax.random.key(4), TINY.network
    still, seen = (
        jax.tree.map(np.asarray, _look(state.params, pictures, key, noise=by)) for by in (0.0, 0.1)
    )
    np.testing.assert_allclose(seen.elsewhere[0], seen.logits[0], atol=1e-5)

    @jax.jit
    def read(core: jax.Array, location: jax.Array) -> tuple[jax.Array, jax.Array]:
        patches = glimpse_sensor(box_means(pictures, 1), location, 28, TINY.glimpse, 1)
        outputs: Any = network.apply(state.params, core, patches, location)
        return outputs[0], outputs[1]

    core, _ = read(np.zeros((TINY.batch, network.core_size), np.float32), seen.locations[0])
    # Without noise the second location is the mean of the first draw.
    mean, drawn = still.locations[1], seen.locations[1]
    np.testing.assert_allclose(read(core, drawn)[1], seen.logits[1], atol=1e-5)
    np.testing.assert_allclose(read(core, 2 * mean - drawn)[1], seen.elsewhere[1], atol=1e-5)
    assert np.abs(seen.elsewhere[1] - seen.logits[1]).max() > 1e-3


def test_mirrored_credit_is_the_slope_of_the_next_reading() -> None:
    """Against finite differences: its expectation is twice the slope of the next cross entropy in the mean."""
    config = dataclasses.replace(TINY, glimpses=2, noise=0.15, credit="mirrored", policy_weight=1.0)
    networks = _state()[1].params["params"]
    # One picture, brighter to the lower right: a slope that a thousand draws show.
    rows, columns = np.mgrid[:28, :28] / 28
    pictures = np.tile((0.4 * rows + 0.6 * columns).astype(np.float32), (1000, 1, 1))
    labels = np.zeros(1000, np.int32)

    def at(bias: jax.Array, networks: Any) -> tuple[jax.Array, jax.Array]:
        moved = {**networks, "location_network": {**networks["location_network"], "bias": bias}}
        total, metrics = loss(config, {"params": moved}, pictures, labels, jax.random.key(6))
        return total, metrics["cross_entropy"]

    slope_and_reading = jax.jit(jax.grad(at, has_aux=True))
    bias = np.asarray([0.2, -0.1], np.float32)
    slope, _ = slope_and_reading(bias, networks)
    for axis in range(2):
        step = 0.1 * np.eye(2, dtype=np.float32)[axis]
        higher, lower = (float(slope_and_reading(bias + way, networks)[1]) for way in (step, -step))
        assert float(slope[axis]) == pytest.approx(2 * (higher - lower) / 0.2, rel=0.2)


def test_another_credit_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of final, mirrored"):
        RamConfig(credit="none")


@pytest.mark.parametrize("credit", ["final", "mirrored"])
def test_a_few_updates_learn_four_pictures(credit: str) -> None:
    """Loss falls and accuracy leaves chance on a task that can be learnt by heart."""
    config = dataclasses.replace(TINY, batch=16, shift=0, learning_rate=3e-3, noise=0.05, credit=credit)
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
    step = jax.jit(trainer.step)
    state = jax.jit(trainer.init)(jax.random.key(0))
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
    total, _ = jax.jit(functools.partial(loss, quiet))(state.params, pictures, labels, jax.random.key(0))
    assert np.isfinite(float(total))
