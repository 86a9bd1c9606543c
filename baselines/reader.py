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

from baselines.bounds import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, SMOOTHING, Range, check_fields
from baselines.held_out import HELD_OUT, on_device, split
from baselines.optimisers import Averaged, adamw_cosine
from baselines.prefixes import Augmentation, prefixes
from mnistpro_jax.agents.learned.networks import ReaderNetwork
from mnistpro_jax.agents.reader import native_counts
from mnistpro_jax.data import Dataset
from mnistpro_jax.rollouts.sharding import split_batch


@dataclasses.dataclass(frozen=True)
class ReaderConfig:
    """See ``baselines.configs``. batch: digits an update, a multiple of 4: half come alone, half in pairs. held_out:
    images at the training set's end that are never trained on. smoothing: of the averaged parameters, per update.
    Raises ValueError for a value out of range."""

    channels: tuple[int, ...] = (32, 64, 128)
    strides: tuple[int, ...] = (2, 2, 2)
    hidden: int = 256
    updates: int = 12_000
    batch: int = 256
    learning_rate: float = 2e-3
    weight_decay: float = 1e-2
    smoothing: float = 0.998
    held_out: int = HELD_OUT
    longest: int = 24
    whole: float = 0.15
    augmentation: Augmentation = dataclasses.field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        check_fields(
            self,
            channels=COUNT,
            strides=Range(1, 28),
            hidden=COUNT,
            updates=COUNT,
            batch=COUNT,
            learning_rate=POSITIVE,
            weight_decay=NOT_NEGATIVE,
            smoothing=SMOOTHING,
            held_out=COUNT,
            longest=Range(1, 1000),
            whole=SHARE,
        )
        if len(self.channels) != len(self.strides):
            raise ValueError(
                f"channels is {self.channels!r} and strides {self.strides!r}; expected as many of one as of the other"
            )
        if self.batch % 4:
            raise ValueError(f"batch is {self.batch}; expected a multiple of 4: half alone, half in pairs")

    @property
    def network(self) -> ReaderNetwork:
        """The network that is trained."""
        return ReaderNetwork(self.channels, self.strides, self.hidden)


class ReaderTrainer:
    """See ``baselines.loop.Trainer``."""

    def __init__(self, config: ReaderConfig, dataset: Dataset) -> None:
        self.config = config
        kept, held_out = split(dataset, config.held_out)
        about = jax.device_put(information(dataset.images))
        self.data = (*on_device(kept), about)
        self.held_out = (*on_device(held_out), about)

    def init(self, key: jax.Array) -> Averaged:
        """The state before the first update."""
        params = self.config.network.init(key, jnp.zeros((1, 28, 28, 2), jnp.float32))
        return Averaged.start(params, _optimiser(self.config))

    def step(self, state: Averaged, key: jax.Array, data: Any) -> tuple[Averaged, dict[str, jax.Array]]:
        """One update."""
        config = self.config
        half = config.batch // 2
        make = functools.partial(
            prefixes, how=config.augmentation, longest=config.longest, whole=config.whole, batch=half
        )
        one_key, two_key = jax.random.split(key)
        parts = make(one_key, *data, num_digits=1), make(two_key, *data, num_digits=2)
        shares, labels = split_batch(tuple(jnp.concatenate(pair) for pair in zip(*parts, strict=True)))

        def loss_of(params: Any) -> tuple[jax.Array, jax.Array]:
            logits = config.network.apply(params, shares)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, jnp.mean(jnp.argmax(logits, -1) == labels, dtype=jnp.float32)

        (loss, accuracy), gradient = jax.value_and_grad(loss_of, has_aux=True)(state.params)
        state = state.descend(gradient, _optimiser(config), config.smoothing)
        return state, {"loss": loss, "accuracy": accuracy}

    def evaluate(self, state: Averaged, key: jax.Array) -> dict[str, float]:
        """Accuracy, mean loss and calibration error on held-out images: whole, and partly revealed."""
        whole = _score(self.config, state.averaged, key, self.held_out, 1.0)
        partly = _score(self.config, state.averaged, key, self.held_out, 0.0)
        return {
            **{f"whole_{name}": float(value) for name, value in whole.items()},
            **{f"partly_{name}": float(value) for name, value in partly.items()},
        }


def information(images: np.ndarray) -> np.ndarray:
    """Share of the images' variance in each native pixel of the canvas, float32 (28, 28), summing to 1."""
    variance = (native_counts(images).astype(np.float32) / 64).var(axis=0)
    return (variance / variance.sum()).astype(np.float32)


def _optimiser(config: ReaderConfig) -> optax.GradientTransformation:
    return adamw_cosine(config.learning_rate, config.updates, weight_decay=config.weight_decay)


@functools.partial(jax.jit, static_argnames="config")
def _score(
    config: ReaderConfig, params: Any, key: jax.Array, data: Any, whole: float | jax.Array
) -> dict[str, jax.Array]:
    """On as many draws as there are held-out images: accuracy, loss and expected calibration error (15 bins)."""
    images, labels, about = data
    chunk = min(500, len(labels))

    def score(carry: None, part: Any) -> tuple[None, tuple[jax.Array, jax.Array]]:
        key, images, labels = part
        shares, drawn = prefixes(key, images, labels, about, batch=chunk, longest=config.longest, whole=whole)
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
