"""How the tests' programs are compiled: quickly, since most of them run once or twice.

Optimising machine code changes speed, not results, and takes longer than the tests' programs run. It is for processes
to say at their start, before they import jax: ``XLA_FLAGS = flags()``.
"""

from __future__ import annotations

import importlib.metadata

QUICK: dict[str, bool | int] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    # In one piece instead of 32 for as many threads: a quarter less work.
    "xla_cpu_parallel_codegen_split_count": 1,
}
# As users compile, in spite of the process's flags: for ``jax.jit(..., compiler_options=AS_USERS)``.
AS_USERS: dict[str, bool | int] = {
    "xla_backend_optimization_level": 3,
    "xla_llvm_disable_expensive_passes": False,
    "xla_cpu_parallel_codegen_split_count": 32,
}
if importlib.metadata.version("jaxlib").startswith("0.10."):
    # Its older emitter of machine code takes less than half the time; later versions have the newer one alone.
    QUICK["xla_cpu_use_fusion_emitters"] = False
    AS_USERS["xla_cpu_use_fusion_emitters"] = True


def flags(devices: int | None = None) -> str:
    """``XLA_FLAGS`` of a process that compiles quickly. devices: how many it shall have; those of XLA otherwise."""
    spoken = [f"--{name}={str(value).lower()}" for name, value in QUICK.items()]
    if devices is not None:
        spoken.append(f"--xla_force_host_platform_device_count={devices}")
    return " ".join(spoken)
