"""A trained network as a reader: the same questions as to ``agents.reader.EmpiricalBayesReader``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.learned.networks import ReaderNetwork
from mnistpro_jax.agents.reader import Beliefs
from mnistpro_jax.env.types import FusedCanvas, pytree, static_field


@pytree
class DigitBeliefs(Beliefs):
    """What the network believes of each of n digits: classes, float32 (n, C), summing to 1."""

    classes: jax.Array


@pytree
class LearnedReader:
    """Reads a fused canvas at native resolution, one digit at a time, so that it serves any number of digits.

    params: of ``network``. temperature: float32 (), what the logits are divided by. information: float32 (28, 28),
    share of the training images' variance in each native pixel, summing to 1 (what a planner weighs unseen pixels
    with). cell: canvas pixels per native pixel, squared. world: (field, value) of each field of ``Geometry`` that its
    training fixed; empty where nothing is known of it.
    """

    params: Any
    temperature: jax.Array
    information: jax.Array
    network: ReaderNetwork = static_field(default=ReaderNetwork())
    cell: int = static_field(default=64)
    world: tuple[tuple[str, int], ...] = static_field(default=())

    def posterior(self, fused: FusedCanvas) -> DigitBeliefs:
        """What the revealed pixels say. fused: uint8 (28, 28 n) counts."""
        counts = jnp.stack([self.split(fused.stroke), self.split(fused.revealed)], axis=-1)
        shares = counts.astype(jnp.float32) / jnp.float32(self.cell)
        logits = self.network.apply(self.params, shares)
        assert isinstance(logits, jax.Array)
        return DigitBeliefs(jax.nn.softmax(logits / self.temperature, axis=-1))

    def split(self, counts: jax.Array) -> jax.Array:
        """Counts of a canvas by digit: (h, n * w) -> (n, h, w)."""
        height, width = self.information.shape
        if counts.ndim != 2 or counts.shape[0] != height or counts.shape[1] % width:
            raise ValueError(
                f"the canvas has shape {counts.shape}; this reader was trained on ({height}, {width} n) counts per "
                "native pixel: use observation 'canvas' and a canvas of the published proportions"
            )
        return counts.reshape(height, -1, width).swapaxes(0, 1)
