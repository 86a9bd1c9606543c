"""Fixtures that several test modules share; worlds and players are in ``tests.episodes``."""

from __future__ import annotations

import os
import shutil
import tempfile

# Before anything imports jax: the suite spends most of its time in the compiler, and optimising machine code
# changes speed alone, not results.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

# The same programs are compiled by both workers and by every command that a test starts: once is enough. What a run
# compiled goes with it, so that no run rests on another.
os.environ["MNISTPRO_TESTS_CACHE"] = (
    "" if os.environ.get("JAX_COMPILATION_CACHE_DIR") else tempfile.mkdtemp(prefix="mnistpro-tests-")
)
os.environ["JAX_COMPILATION_CACHE_DIR"] = (
    os.environ["MNISTPRO_TESTS_CACHE"] or os.environ["JAX_COMPILATION_CACHE_DIR"]
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.2"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"

import pytest

from mnistpro_jax import data
from tests import episodes


def pytest_unconfigure() -> None:
    """Remove the cache, at the end of the process that made it: workers inherit it, and a given one stays."""
    if os.environ["MNISTPRO_TESTS_CACHE"]:
        shutil.rmtree(os.environ["MNISTPRO_TESTS_CACHE"], ignore_errors=True)


@pytest.fixture(scope="session")
def mnist_test() -> data.Dataset:
    """The MNIST test split."""
    return episodes.mnist_test()


@pytest.fixture(scope="session")
def edge_digits() -> data.Dataset:
    """64 digits; 18 of them have ink in an outermost column."""
    return episodes.edge_digits()
