"""Tables with one row a run: the columns that name it, and the rows of runs that have counted episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mnistpro_jax.analysis.sheet import Column, Row
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.stored import StoredRun

RUN = (Column("level", "level"), Column("run", "run"))
"""What names a run."""


def rows_of(runs: Sequence[StoredRun], row: Callable[[StoredRun, Outcomes], Row]) -> tuple[Row, ...]:
    """``row`` of each run with counted episodes, beside what names the run."""
    return tuple(
        {"level": run.setting.level, "run": run.name, **row(run, run.outcomes)} for run in runs if run.records
    )
