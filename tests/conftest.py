"""Fixtures that several test modules share; worlds and players are in ``tests.episodes``."""

from __future__ import annotations

import os

# Before anything imports jax: the suite spends most of its time in the compiler, and optimising machine code
# changes speed alone, not results.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

import pytest

from mnistpro_jax import data
from tests import episodes


@pytest.fixture(scope="session")
def mnist_test() -> data.Dataset:
    """The MNIST test split."""
    return episodes.mnist_test()


@pytest.fixture(scope="session")
def edge_digits() -> data.Dataset:
    """64 digits; 18 of them have ink in an outermost column."""
    return episodes.edge_digits()
