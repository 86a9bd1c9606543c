"""Agents without training do the same on every machine: under two instruction sets, and as they did before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.agents.play_few import digests
from tests.compiling import flags

GOLDEN = {
    "reader": "9561cc6695721188",
    "posteriors": "af5c856cc246609d",
    "observer": "43d3363c88a9c301",
    "coverage": "fa0a5c4e2247ca6e",
    "random-walk": "62b8ca885cf2b7e7",
}


def test_beliefs_and_decisions_do_not_depend_on_the_instruction_set() -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(root)}
    environment["XLA_FLAGS"] = f"{flags()} --xla_cpu_max_isa=SSE4_2"
    environment |= {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "1"}  # of numpy's products
    command = [sys.executable, "-m", "tests.agents.play_few"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == GOLDEN
    assert digests() == GOLDEN
