"""Train a reader: cross entropy on canvases that are revealed by random walks, and on whole ones.

The network reads one digit at a time; half of each batch comes from scenes of one digit and half from scenes of
two, so that one reader serves any number of digits.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from baselines.optimisers import adamw_cosine
from baselines.prefixes import Augmentation, prefixes
from mnistpro_jax.agents.learned.networks import ReaderNetwork
from mnistpro_jax.types import pytree


@dataclasses.dataclass(frozen=True)
class ReaderConfig:
    """See ``baselines.configs``. batch: digits an update. held_out: images at the training set's end that are
    never trained on. smoothing: of the averaged parameters, per update."""

    channels: tuple[int, ...] = (32, 64, 128)
    strides: tuple[int, ...] = (2, 2, 2)
    hidden: int = 128
    updates: int = 9_000
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    smoothing: float = 0.998
    held_out: int = 5_000
    longest: int = 24
    whole: float = 0.15
    augmentation: Augmentation = dataclasses.field(default_factory=Augmentation)

    @property
    def network(self) -> ReaderNetwork:
        """The network that is trained."""
        return ReaderNetwork(self.channels, self.strides, self.hidden)


@pytree
class ReaderState:
    """params, averaged: parameters of the network, the second a running mean. optimiser: optax's state."""

    params: Any
    averaged: Any
    optimiser: Any


class ReaderTrainer:
    """See ``baselines.loop.Trainer``."""

    def __init__(self, config: ReaderConfig, images: np.ndarray, labels: np.ndarray) -> None:
        self.config = config
        kept = len(labels) - config.held_out
        self.data = (jax.device_put(images[:kept]), jax.device_put(labels[:kept].astype(np.int32)))
        self.held_out = (jax.device_put(images[kept:]), jax.device_put(labels[kept:].astype(np.int32)))

    def init(self, key: jax.Array) -> ReaderState:
        """The state before the first update."""
        params = self.config.network.init(key, jnp.zeros((1, 28, 28, 2), jnp.float32))
        optimiser = _optimiser(self.config).init(params)
        return ReaderState(params, params, optimiser)

    def step(self, state: ReaderState, key: jax.Array, data: Any) -> tuple[ReaderState, dict[str, jax.Array]]:
        """One update."""
        config = self.config
        half = config.batch // 2
        make = functools.partial(
            prefixes, how=config.augmentation, longest=config.longest, whole=config.whole, batch=half
        )
        one_key, two_key = jax.random.split(key)
        parts = make(one_key, *data, num_digits=1), make(two_key, *data, num_digits=2)
        shares, labels = (jnp.concatenate(pair) for pair in zip(*parts, strict=True))

        def loss_of(params: Any) -> tuple[jax.Array, jax.Array]:
            logits = config.network.apply(params, shares)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, jnp.mean(jnp.argmax(logits, -1) == labels, dtype=jnp.float32)

        (loss, accuracy), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        changes, moments = _optimiser(config).update(gradient, state.optimiser, state.params)
        params = optax.apply_updates(state.params, changes)
        averaged = optax.incremental_update(params, state.averaged, 1 - config.smoothing)
        return ReaderState(params, averaged, moments), {"loss": loss, "accuracy": accuracy}

    def evaluate(self, state: ReaderState, key: jax.Array) -> dict[str, float]:
        """Accuracy, mean loss and calibration error on held-out images: whole, and partly revealed."""
        whole = _score(self.config, state.averaged, key, self.held_out, 1.0)
        partly = _score(self.config, state.averaged, key, self.held_out, 0.0)
        return {
            **{f"whole_{name}": float(value) for name, value in whole.items()},
            **{f"partly_{name}": float(value) for name, value in partly.items()},
        }


def _optimiser(config: ReaderConfig) -> optax.GradientTransformation:
    return adamw_cosine(config.learning_rate, config.updates, weight_decay=config.weight_decay)


@functools.partial(jax.jit, static_argnames="config")
def _score(
    config: ReaderConfig, params: Any, key: jax.Array, data: Any, whole: float | jax.Array
) -> dict[str, jax.Array]:
    """On as many draws as there are held-out images: accuracy, loss and expected calibration error (15 bins)."""
    images, labels = data
    chunk = 500

    def score(carry: None, part: Any) -> tuple[None, tuple[jax.Array, jax.Array]]:
        key, images, labels = part
        shares, drawn = prefixes(key, images, labels, batch=chunk, longest=config.longest, whole=whole)
        return None, (config.network.apply(params, shares), drawn)

    count = len(labels) // chunk
    parts = (
        jax.random.split(key, count),
        images[: count * chunk].reshape(count, chunk, 28, 28),
        labels[: count * chunk].reshape(count, chunk),
    )
    _, (logits, drawn) = jax.lax.scan(score, None, parts)
    logits, drawn = logits.reshape(-1, logits.shape[-1]), drawn.reshape(-1)
    right = (jnp.argmax(logits, -1) == drawn).astype(jnp.float32)
    return {
        "accuracy": jnp.mean(right),
        "loss": optax.softmax_cross_entropy_with_integer_labels(logits, drawn).mean(),
        "calibration_error": calibration_error(jnp.max(jax.nn.softmax(logits), -1), right),
    }


def calibration_error(confidence: jax.Array, right: jax.Array, bins: int = 15) -> jax.Array:
    """Expected calibration error: mean over equal bins of |accuracy - confidence|, weighed by their sizes.

    confidence, right: float32 (N,), 0..1. Returns float32 ().
    """
    bin_of = jnp.minimum((confidence * bins).astype(jnp.int32), bins - 1)
    gap = jax.ops.segment_sum(right - confidence, bin_of, bins)
    return jnp.sum(jnp.abs(gap)) / jnp.float32(len(right))
