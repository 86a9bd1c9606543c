"""Python processes of their own: JAX reads how many devices it has, and joins other processes, once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.compiling import flags

ROOT = Path(__file__).parents[2]


def start(*arguments: str, devices: int = 1) -> subprocess.Popen[str]:
    """``python ARGUMENTS`` on the CPU, compiling quickly; what it compiles, the run's other processes share."""
    kept = ("JAX_ENABLE_X64", "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(kept) or not name.startswith(("JAX_", "SLURM_"))
    }
    environment |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags(devices)}
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    )


def finish(process: subprocess.Popen[str], timeout: float = 400) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)."""
    try:
        output, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, output, errors


def free_port() -> int:
    """A port of the loopback address that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
