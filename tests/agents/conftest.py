"""A small bank, the reader built from it, and observations made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mnistpro_jax import data
from mnistpro_jax.agents.reader import EmpiricalBayesReader, build_reader

BANK = 400


@pytest.fixture(scope="session")
def train() -> data.Dataset:
    full = data.load("mnist", "train")
    return data.Dataset(full.images[:BANK], full.labels[:BANK], full.num_classes, full.source, full.split)


@pytest.fixture(scope="session")
def held_out() -> data.Dataset:
    full = data.load("mnist", "train")
    rows = np.arange(BANK, BANK + 300)
    return data.Dataset(full.images[rows], full.labels[rows], full.num_classes, full.source, full.split)


@pytest.fixture(scope="session")
def reader(train: data.Dataset) -> EmpiricalBayesReader:
    return build_reader(train)
