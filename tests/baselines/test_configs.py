"""Configurations by name with changes, and the images that nothing is trained on."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from baselines.configs import CONFIGS, config
from baselines.held_out import split
from mnistpro_jax.data import Dataset


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_configurations_come_back_from_json(name: str) -> None:
    stored = json.loads(json.dumps(dataclasses.asdict(CONFIGS[name])))
    assert config(name, stored) == CONFIGS[name]
    assert config(name, {"updates": 7}).updates == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"update": 3}, "unknown field 'update'; expected one of .*updates"),
        ({"updates": "3"}, "updates is '3'; expected a value like 12000"),
        ({"updates": 3.5}, "updates is 3.5"),
        ({"channels": 3}, "channels is 3; expected a value like"),
        ({"augmentation": {"twist": 1.0}}, "unknown field 'twist'"),
    ],
)
def test_other_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config("reader", changes)


def test_whole_numbers_do_for_floats() -> None:
    assert config("reader", {"learning_rate": 1}).learning_rate == 1.0
    assert config("reader", {"channels": [8, 8], "strides": [2, 2]}).channels == (8, 8)


def test_held_out_images_are_the_last() -> None:
    labels = np.arange(10, dtype=np.int32)
    dataset = Dataset(np.zeros((10, 28, 28), np.uint8), labels, 10, "x", "train")
    kept, last = split(dataset, 3)
    assert (kept.labels.tolist(), last.labels.tolist()) == (list(range(7)), [7, 8, 9])
    for wrong in (0, 10):
        with pytest.raises(ValueError, match=f"held_out is {wrong}"):
            split(dataset, wrong)
