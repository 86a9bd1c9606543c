"""What the command's tests share: a quick run of the random agent, its summary, and what an error looks like."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import pytest

COUNT = 20
RANDOM = ["evaluate", "--agent", "random", "--episodes", str(COUNT), "--seed", "5"]


def summary_of(folder: Path) -> dict[str, Any]:
    loaded = json.loads((folder / "summary.json").read_text())
    assert isinstance(loaded, dict)
    return loaded


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed: nothing on standard output, and one line that begins as every error does."""
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.startswith("mnistpro: error: ")
    assert "Traceback" not in printed.err
    return printed.err


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment.pop("MNISTPRO_DEBUG", None)
    command = [sys.executable, "-m", "mnistpro_jax", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


@contextlib.contextmanager
def quick_compilation() -> Iterator[None]:
    """Programs here run once or twice: optimising them would take longer than running them."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
