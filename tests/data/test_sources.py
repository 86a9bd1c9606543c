"""``load`` finds the reader of a source, and says what it expects where there is none."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mnistpro_jax.data import DataError, load


def test_the_default_is_the_test_split_of_mnist() -> None:
    dataset = load()
    assert (dataset.source, dataset.split, len(dataset)) == ("mnist", "test", 10_000)


def test_idx_source_is_kept_as_given(idx_folder: Callable[..., pathlib.Path]) -> None:
    source = f"idx:{idx_folder()}"
    dataset = load(source, "train")
    assert (dataset.source, dataset.split, dataset.num_classes) == (source, "train", 10)


@pytest.mark.parametrize(
    "source", ["", "MNIST", "mnist:", "idx", "idx:", "tfds", "tfds:", "torch:mnist", "/data", 3, None]
)
def test_an_unknown_source_lists_the_valid_forms(source: Any) -> None:
    with pytest.raises(DataError) as caught:
        load(source, "test")
    for form in ('"mnist"', '"tfds:NAME"', '"idx:FOLDER"'):
        assert form in str(caught.value)


@pytest.mark.parametrize("split", ["validation", "TEST", "", None])
@pytest.mark.parametrize("source", ["mnist", "tfds:mnist", "idx:nowhere"])
def test_an_unknown_split_lists_the_valid_ones(source: str, split: Any) -> None:
    with pytest.raises(DataError, match="expected 'train' or 'test'"):
        load(source, split)


def test_nothing_is_kept_between_calls() -> None:
    first, second = load("mnist", "test"), load("mnist", "test")
    assert not np.shares_memory(first.images, second.images)


def test_importing_the_data_room_loads_no_optional_package() -> None:
    optional = {"tensorflow_datasets", "tensorflow", "PIL"}
    code = f"import sys, mnistpro_jax.data; print(sorted({optional} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
