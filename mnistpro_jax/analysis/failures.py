"""Why an episode was not right, from what a reader made of the same canvas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mnistpro_jax.analysis.sheet import Column, Row, Sheet
from mnistpro_jax.analysis.stopping import EARLY, budget_left
from mnistpro_jax.analysis.swap import Swap
from mnistpro_jax.env.types import Ending
from mnistpro_jax.rollouts import metrics
from mnistpro_jax.runs.outcomes import Flags
from mnistpro_jax.runs.stored import StoredRun

FAILURES = ("no answer", "too early", "never seen", "not consolidated", "unreadable")
"""Why an episode was not right, first reason that holds."""


def failures(run: StoredRun, made: Swap) -> dict[str, Flags]:
    """Episodes that were not right by the reason, bool (N,) each; every one has exactly one.

    no answer: step limit or invalid action. too early: some digit not over 75 % seen with half of the budget left.
    never seen: the same with less left. not consolidated: all digits seen, and the predictor reads them right from the
    same canvas. unreadable: all seen, and the predictor is wrong as well.
    """
    outcomes = run.outcomes
    wrong = ~outcomes.correct
    answered = outcomes.ending == Ending.ANSWERED
    seen = metrics.all_digits_seen(outcomes.digit_stroke_coverage)
    early = budget_left(run, outcomes) >= EARLY
    return dict(
        zip(
            FAILURES,
            (
                wrong & ~answered,
                wrong & answered & ~seen & early,
                wrong & answered & ~seen & ~early,
                wrong & answered & seen & made.correct,
                wrong & answered & seen & ~made.correct,
            ),
            strict=True,
        )
    )


def failures_sheet(runs: Sequence[StoredRun], swaps: Mapping[str, Sequence[Swap]]) -> Sheet:
    """How often each reason came, by the first predictor of each run."""
    rows: list[Row] = []
    for run in runs:
        for made in [one for one in swaps.get(run.key, ()) if one.counted.all()][:1]:
            counts = {name.replace(" ", "_"): int(flags.sum()) for name, flags in failures(run, made).items()}
            rows.append(
                {
                    "level": run.setting.level,
                    "run": run.name,
                    "right": int(run.outcomes.correct.sum()),
                    **counts,
                }
            )
    return Sheet(
        "failures",
        "Where it went wrong",
        "Every counted episode once. Too early: answered with some digit not over 75 % seen and half of the budget "
        "left. Never seen: the same with less left. Not consolidated: all was seen, and the reader reads it right "
        "from the same canvas. Unreadable: the reader is wrong as well.",
        (
            Column("level", "level"),
            Column("run", "run"),
            Column("right", "right", "count"),
            *(Column(name.replace(" ", "_"), name, "count") for name in FAILURES),
        ),
        tuple(rows),
    )
