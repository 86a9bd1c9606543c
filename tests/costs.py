"""What tests cost, by module: ``python -m pytest -p tests.costs`` prints a table at the end.

compiled: programs that XLA compiled, a measure without noise on a busy machine. traced_s, compiler_s: seconds in JAX's
tracing and lowering and in the compiler. cpu_s: processor seconds, those of started processes included. peak_mb: the
worker's highest resident memory so far.
"""

from __future__ import annotations

import collections
import json
import os
import resource
from collections.abc import Iterator
from typing import Any

import pytest

_TRACED = ("/jax/core/compile/jaxpr_trace_duration", "/jax/core/compile/jaxpr_to_mlir_module_duration")
_COMPILED = "/jax/core/compile/backend_compile_duration"
_LOADED = "/jax/compilation_cache/cache_retrieval_time_sec"
_UNITS = ("compiled", "loaded", "compiler_s", "traced_s", "cpu_s")
_spent: collections.Counter[str] = collections.Counter()
_before: dict[str, float] = {}


def _heard(event: str, seconds: float, **_: Any) -> None:
    if event in _TRACED:
        _spent["traced_s"] += seconds
    elif event == _COMPILED:
        _spent["compiled"] += 1
        _spent["compiler_s"] += seconds
    elif event == _LOADED:
        _spent["loaded"] += 1


def _now() -> dict[str, float]:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    processor = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return {**{unit: _spent[unit] for unit in _UNITS}, "cpu_s": processor}


def pytest_collection_finish() -> None:
    """Import jax only now: ``tests.conftest`` says first how it shall compile."""
    import jax

    jax.monitoring.register_event_duration_secs_listener(_heard)
    _before.update(_now())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[Any]:
    """Every report carries what its phase cost, from a worker to the process that prints."""
    report = yield
    now = _now()
    report.costs = {unit: now[unit] - _before[unit] for unit in _UNITS}
    report.costs["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    _before.update(now)
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    modules: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    tests: collections.Counter[str] = collections.Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if not hasattr(report, "costs"):
            continue
        module = modules[report.nodeid.split("::")[0]]
        peak = max(module["peak_mb"], report.costs["peak_mb"])
        module.update(report.costs)
        module["peak_mb"] = peak
        tests[report.nodeid] += report.costs["cpu_s"]
    units = (*_UNITS, "peak_mb")
    terminalreporter.section("costs")
    terminalreporter.write_line("".join(f"{unit:>11}" for unit in units))
    for name in sorted(modules, key=lambda name: -modules[name]["cpu_s"]):
        terminalreporter.write_line("".join(f"{modules[name][unit]:11.1f}" for unit in units) + f"  {name}")
    total = sum((modules[name] for name in modules), collections.Counter())
    terminalreporter.write_line("".join(f"{total[unit]:11.1f}" for unit in _UNITS) + "  all")
    if where := os.environ.get("MNISTPRO_TESTS_COSTS"):
        with open(where, "w", encoding="utf-8") as file:
            json.dump({"modules": modules, "tests": tests}, file)
