"""Agents without training do the same on every machine: under two instruction sets, and as they did before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.compiling import flags

GOLDEN = {
    "reader": "c4a608e95f9989db",
    "random-walk 1": "52a409c44d545d91",
    "observer 2": "372bb697d88b4925",
    "coverage 2": "fb1e4a65045207bc",
}


def test_decisions_do_not_depend_on_the_instruction_set() -> None:
    """Where only "reader" differs, a LAPACK rounded a direction to another whole number."""
    root = Path(__file__).parents[2]
    started = []
    for instructions in ("", " --xla_cpu_max_isa=SSE4_2"):
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(root)}
        environment["XLA_FLAGS"] = flags() + instructions
        command = [sys.executable, "-m", "tests.agents.play_few"]
        started.append(
            subprocess.Popen(
                command, cwd=root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        )
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert json.loads(out) == GOLDEN
