"""Python processes of their own: JAX reads how many devices it has, and joins other processes, once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def start(*arguments: str, devices: int = 1, cache: Path | None = None) -> subprocess.Popen[str]:
    """``python ARGUMENTS`` on the CPU, optimising little. cache: of compiled programs, between processes."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "SLURM_"))},
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_ENABLE_X64": os.environ.get("JAX_ENABLE_X64", "0"),
        "XLA_FLAGS": flags,
    }
    if cache is not None:
        environment |= {
            "JAX_COMPILATION_CACHE_DIR": str(cache),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
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
