"""Small data sets for the tests of the data room; nothing here reaches outside the repository."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from mnistpro_jax.data import idx

Images = npt.NDArray[np.uint8]


@pytest.fixture
def pictures() -> tuple[Images, Images]:
    """Twelve random pictures, uint8 (12, 28, 28), and their labels, uint8 (12,) within 0..9."""
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (12, 28, 28)).astype(np.uint8)
    labels = (np.arange(12) % 10).astype(np.uint8)
    return images, labels


@pytest.fixture
def idx_folder(tmp_path: pathlib.Path, pictures: tuple[Images, Images]) -> Callable[..., pathlib.Path]:
    """Writes the twelve pictures as the files of both splits: ``idx_folder(mark="-", ending="")``."""

    def write(mark: str = "-", ending: str = "") -> pathlib.Path:
        images, labels = pictures
        for prefix in ("train", "t10k"):
            idx.write(tmp_path / f"{prefix}-images{mark}idx3-ubyte{ending}", images)
            idx.write(tmp_path / f"{prefix}-labels{mark}idx1-ubyte{ending}", labels)
        return tmp_path

    return write
