"""``Dataset`` accepts what its docstring promises and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from mnistpro_jax.data import DataError, Dataset


def fields(**changes: Any) -> dict[str, Any]:
    valid: dict[str, Any] = {
        "images": np.zeros((3, 28, 28), np.uint8),
        "labels": np.array([0, 4, 2], np.int32),
        "num_classes": 5,
        "source": "made up",
        "split": "train",
    }
    return valid | changes


def test_a_valid_dataset_is_accepted_and_read_only() -> None:
    images = np.zeros((3, 28, 28), np.uint8)
    dataset = Dataset(**fields(images=images))
    assert len(dataset) == 3
    assert repr(dataset) == "Dataset(num_classes=5, source='made up', split='train')"
    with pytest.raises(ValueError, match="read-only"):
        dataset.images[0, 0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        dataset.labels[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataset.num_classes = 7  # type: ignore[misc]
    images[0, 0, 0] = 1  # the caller's own array keeps its flags


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": [[0]]}, "images is a list; expected a NumPy array of uint8 with shape (N, 28, 28)"),
        ({"images": np.zeros((3, 28, 28), np.float32)}, "images is float32"),
        ({"images": np.zeros((3, 28, 27), np.uint8)}, "shape (3, 28, 27)"),
        ({"images": np.zeros((3, 784), np.uint8)}, "shape (3, 784)"),
        ({"labels": np.zeros(3, np.int64)}, "labels is int64"),
        ({"labels": np.zeros(2, np.int32)}, "shape (2,); expected a NumPy array of int32 with shape (3)"),
        ({"labels": np.array([0, 1, 5], np.int32)}, "labels span 0..5; expected labels within 0..4"),
        ({"labels": np.array([0, 1, -1], np.int32)}, "labels span -1..1"),
        ({"num_classes": 0}, "num_classes is 0"),
        ({"num_classes": 10.0}, "num_classes is 10.0"),
        ({"images": np.zeros((0, 28, 28), np.uint8), "labels": np.zeros(0, np.int32)}, "it is empty"),
    ],
)
def test_an_invalid_field_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as caught:
        Dataset(**fields(**changes))
    assert message in str(caught.value)
    assert "'made up'" in str(caught.value)
