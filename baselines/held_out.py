"""Images that no network's parameters are trained on: the last ones of the training split.

Choices are made on them: when a network is good, a reader's temperature (``baselines.export``), thresholds
(``baselines.tune``). One thing of a learned reader does come from all training images, these included: its map of prior
information (``baselines.reader.information``), the variance of each pixel, by which planner and canvas agent look. It
knows no labels.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

from mnistpro_jax.data import Dataset

HELD_OUT = 5_000


def split(dataset: Dataset, held_out: int = HELD_OUT) -> tuple[Dataset, Dataset]:
    """(the images to train on, the last ``held_out`` ones). ValueError where nothing would be left."""
    kept = len(dataset.labels) - held_out
    if held_out < 1 or kept < 1:
        raise ValueError(f"held_out is {held_out}; expected 1 to {len(dataset.labels) - 1}")
    first, last = slice(None, kept), slice(kept, None)
    return (
        dataclasses.replace(dataset, images=dataset.images[first], labels=dataset.labels[first]),
        dataclasses.replace(dataset, images=dataset.images[last], labels=dataset.labels[last]),
    )


def on_device(dataset: Dataset) -> tuple[jax.Array, jax.Array]:
    """(images, uint8 (N, 28, 28); labels, int32 (N,)) as arguments for compiled programs."""
    return jax.device_put(dataset.images), jax.device_put(dataset.labels.astype(np.int32))
