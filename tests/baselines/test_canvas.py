"""What PPO learns from: advantages against a slow reference, episodes that end as the agent's do."""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from baselines.canvas import CanvasConfig, CanvasTrainer, advantages, play, weighted_mean
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.data import Dataset


def test_advantages_stop_at_answers() -> None:
    rng = np.random.default_rng(0)
    steps, lanes, discount, trace = 9, 5, 0.9, 0.7
    reward, value = rng.normal(size=(2, steps, lanes)).astype(np.float32)
    last = rng.normal(size=lanes).astype(np.float32)
    moved = rng.random((steps, lanes)) < 0.7
    want = np.zeros((steps, lanes))
    for lane in range(lanes):
        for step in range(steps):
            if not moved[step, lane]:
                continue
            weight = 1.0
            for later in range(step, steps):
                if not moved[later, lane]:
                    break
                following = last[lane] if later + 1 == steps else value[later + 1, lane]
                if later + 1 < steps and not moved[later + 1, lane]:
                    following = 0.0
                want[step, lane] += weight * (reward[later, lane] + discount * following - value[later, lane])
                weight *= discount * trace
    got = advantages(*map(jnp.asarray, (reward, value, last, moved)), discount, trace)
    np.testing.assert_allclose(got, want, atol=1e-5)


@functools.cache
def _trainer() -> CanvasTrainer:
    rng = np.random.default_rng(0)
    dataset = Dataset(
        images=rng.integers(0, 256, (60, 28, 28), np.uint8),
        labels=(np.arange(60) % 10).astype(np.int32),
        num_classes=10,
        source="x",
        split="train",
    )
    config = CanvasConfig(worlds=((1, 8, 6), (2, 4, 7)), updates=4, held_out=20, minibatches=2, epochs=1)
    return CanvasTrainer(config, dataset, shipped.load_reader()[0])


def test_episodes_end_once_the_reader_is_sure() -> None:
    """Where any confidence will do, every step answers; where none will, none does."""
    trainer = _trainer()
    state = jax.jit(trainer.init)(jax.random.key(0))
    env, (params, _) = trainer.envs[0], trainer.data[0]
    explorer = trainer._explorer(state.params, env)
    for needed, share in (((0.0, 1e-6), 1.0), ((1.5, 2.0), 0.0)):
        low, high = needed
        if low >= 1:  # more than certain: 1 minus it has no logarithm
            low, high = 1 - 1e-7, 1 - 1e-7
        config = dataclasses.replace(trainer.config, needed=(low, high))
        run = jax.jit(
            lambda key, config=config: play(env, params, trainer.data[1], explorer, key, 8, 6, config)
        )
        moves, answered = jax.tree.map(np.asarray, run(jax.random.key(1)))
        assert moves.features.shape[:2] == answered.shape == (6, 8)
        np.testing.assert_array_equal(moves.moved, ~answered)
        assert answered.mean() == share
        assert not moves.advantage[answered].any()


def test_an_update_changes_the_network() -> None:
    trainer = _trainer()
    state = jax.jit(trainer.init)(jax.random.key(0))
    after, metrics = jax.jit(trainer.step)(state, jax.random.key(2), trainer.data)
    assert all(np.isfinite(float(value)) for value in metrics.values())
    assert {"answers_1", "answers_2", "entropy", "value_explains"} == metrics.keys()
    moved = jax.tree.map(lambda new, old: np.abs(np.subtract(new, old)).max(), after.params, state.params)
    assert max(jax.tree.leaves(moved)) > 0


def test_weighted_mean() -> None:
    values, weights = jnp.asarray([1.0, 5.0, 9.0]), jnp.asarray([1.0, 0.0, 1.0])
    assert float(weighted_mean(values, weights)) == 5.0
    assert float(weighted_mean(values, 0 * weights)) == 0.0
