"""What the command's tests share: a quick run of the random agent, its summary, and what an error looks like."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    environment = {name: value for name, value in os.environ.items() if name != "MNISTPRO_DEBUG"}
    command = [sys.executable, "-m", "mnistpro_jax", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
