"""How every test process compiles, and fixtures that several test modules share; worlds are in ``tests.episodes``."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.compiling import flags

# Before anything imports jax: the suite spends most of its time in the compiler. Processes that tests start inherit it.
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags()}".strip()

# The same programs are compiled by both workers and by every command that a test starts: once is enough. What a run
# compiled goes with it, so that no run rests on another.
os.environ["MNISTPRO_TESTS_CACHE"] = (
    "" if os.environ.get("JAX_COMPILATION_CACHE_DIR") else tempfile.mkdtemp(prefix="mnistpro-tests-")
)
os.environ["JAX_COMPILATION_CACHE_DIR"] = (
    os.environ["MNISTPRO_TESTS_CACHE"] or os.environ["JAX_COMPILATION_CACHE_DIR"]
)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"

import jax

from mnistpro_jax import data
from tests import episodes

MUCH = 700 * 2**20  # bytes

# In the background of a shell Ctrl-C is ignored, and so it would be in every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What is imported by now stays: the collector need not go through it again and again while programs are traced."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Between rooms, drop compiled programs: each room has worlds of its own, and together they fill gigabytes. Between
    modules of a room only where much has come together."""
    if nextitem is not None and nextitem.path == item.path:
        return
    if nextitem is None or nextitem.path.parent != item.path.parent or _resident() > MUCH:
        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":  # what is free goes back, which the C library does not do by itself
            ctypes.CDLL(None).malloc_trim(0)


def _resident() -> int:
    """Bytes of memory that this process holds; 0 where that is not told."""
    told = Path("/proc/self/statm")
    return int(told.read_text().split()[1]) * resource.getpagesize() if told.exists() else 0


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
