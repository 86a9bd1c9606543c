"""Tables with one row a run: the columns that name it, and the rows of runs that have counted episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mnistpro_jax.analysis.sheet import Column, Row
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.stored import StoredRun

RUN = (Column("level", "level"), Column("run", "run"))
"""What names a run."""
MISSING = (
    Column("missing", "missing", "count", "planned episodes that are not in the accuracy"),
    Column("if_wrong", "if all missing wrong", "share", "accuracy of all planned episodes"),
    Column("if_right", "if all missing right", "share", "accuracy of all planned episodes"),
)
"""What a table of accuracy has besides where a run lacks episodes (``runs.missing``)."""
MISSING_ABOUT = (
    "Missing: episodes of the plan that are not over or not counted; the accuracy of all of them lies between what it "
    "is with the missing ones all wrong and all right. Short episodes end first: an unfinished run is biased to them."
)
"""What these columns mean."""


def missing_notes(runs: Sequence[StoredRun]) -> list[str]:
    """A sentence for each run that lacks episodes."""
    return [f"{run.name}: {run.missing.sentence}." for run in runs if run.missing is not None]


def rows_of(runs: Sequence[StoredRun], row: Callable[[StoredRun, Outcomes], Row]) -> tuple[Row, ...]:
    """``row`` of each run with counted episodes, beside what names the run."""
    return tuple(
        {"level": run.setting.level, "run": run.name, **row(run, run.outcomes)} for run in runs if run.records
    )
