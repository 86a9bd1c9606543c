"""Runs that several of the command's tests read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mnistpro_jax import data
from mnistpro_jax.cli import main
from mnistpro_jax.data import idx
from tests.cli.runs import RANDOM


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """What a run of the random agent wrote, by level."""
    home = tmp_path_factory.mktemp("runs")
    made = {}
    for level in (1, 2):
        made[level] = home / f"level-{level}"
        arguments = [*RANDOM, "--level", str(level), "--out", str(made[level]), "--pictures", "2", "--json"]
        assert main(arguments) == 0
    return made


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IDX files of 300 training and 30 test images: a bank that is ready at once."""
    folder = tmp_path_factory.mktemp("idx")
    for split, prefix, count in (("train", "train", 300), ("test", "t10k", 30)):
        full = data.load("mnist", split)
        idx.write(folder / f"{prefix}-images-idx3-ubyte", full.images[:count])
        idx.write(folder / f"{prefix}-labels-idx1-ubyte", full.labels[:count].astype(np.uint8))
    return folder


@pytest.fixture(scope="session")
def sweep(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A threshold sweep of an agent that reads: its folder, and the arguments."""
    folder = tmp_path_factory.mktemp("sweep")
    arguments = ["evaluate", "--agent", "serpentine", "--data", f"idx:{small_data}", "--episodes", "30"]
    arguments += ["--confidence", "0.3", "0.99"]
    assert main([*arguments, "--out", str(folder), "--json"]) == 0
    return folder, arguments
