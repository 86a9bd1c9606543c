"""What the calls to a model took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnistpro_jax.analysis.by_run import RUN, rows_of
from mnistpro_jax.analysis.sheet import Column, Row, Sheet
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.stored import StoredRun


def calls_sheet(runs: Sequence[StoredRun]) -> Sheet | None:
    """What the calls to a model took; None where no run has any."""
    fields = ("calls", "failed_attempts", "input_tokens", "output_tokens", "cost", "latency_s")
    called = [run for run in runs if any("calls" in record for record in run.records)]
    if not called:
        return None

    def total(run: StoredRun, name: str) -> float | None:
        values = [record[name] for record in run.records if isinstance(record.get(name), int | float)]
        return sum(values) if values else None

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        sums: dict[str, Any] = {name: total(run, name) for name in fields}
        calls = sums["calls"]
        seconds = sums["latency_s"] / calls if calls and sums["latency_s"] is not None else None
        return {**{name: sums[name] for name in fields[:-1]}, "latency": seconds}

    return Sheet(
        "calls",
        "Calls",
        "Sums over the counted episodes; seconds a call is their mean.",
        (
            *RUN,
            Column("calls", "calls", "count"),
            Column(
                "failed_attempts", "failed attempts", "count", "replies that said nothing the protocol knows"
            ),
            Column("input_tokens", "input tokens", "count"),
            Column("output_tokens", "output tokens", "count"),
            Column("cost", "cost", "number"),
            Column("latency", "seconds a call", "number"),
        ),
        rows_of(called, row),
    )
