"""How episodes ended, and what was seen and left of the budget when an answer was given."""

from __future__ import annotations

from collections.abc import Sequence

from mnistpro_jax.analysis.by_run import RUN, rows_of
from mnistpro_jax.analysis.estimates import mean, proportion
from mnistpro_jax.analysis.sheet import Column, Row, Sheet
from mnistpro_jax.env.types import Ending
from mnistpro_jax.rollouts import metrics
from mnistpro_jax.runs.outcomes import Floats, Outcomes
from mnistpro_jax.runs.stored import StoredRun

EARLY = 0.5
"""Share of the budget that is left when an answer counts as early."""


def endings_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """Why episodes ended."""
    statuses = sorted({status for run in runs for status in run.uncounted})

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        answered = outcomes.ending == Ending.ANSWERED
        return {
            "right": int((answered & outcomes.correct).sum()),
            "wrong": int((answered & ~outcomes.correct).sum()),
            "limit": int((outcomes.ending == Ending.STEP_LIMIT).sum()),
            "invalid": int((outcomes.ending == Ending.INVALID_ACTION).sum()),
            **{f"status_{status}": run.uncounted.get(status, 0) for status in statuses},
        }

    return Sheet(
        "endings",
        "Endings",
        "How many episodes ended in which way. Invalid: no reply that the protocol knows. Counts to the right of it "
        "are episodes that failed outside the agent; they are not scored.",
        (
            *RUN,
            Column("right", "answered right", "count"),
            Column("wrong", "answered wrong", "count"),
            Column("limit", "step limit", "count"),
            Column("invalid", "invalid action", "count"),
            *(Column(f"status_{status}", status.replace("_", " "), "count") for status in statuses),
        ),
        rows_of(runs, row),
    )


def stopping_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """What was seen and what was left of the budget when an answer was given."""

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        answered = outcomes.ending == Ending.ANSWERED
        left = budget_left(run, outcomes)
        seen = metrics.all_digits_seen(outcomes.digit_stroke_coverage)
        right, wrong = answered & outcomes.correct, answered & ~outcomes.correct
        early = answered & (left >= EARLY) & ~seen
        return {
            "answered": int(answered.sum()),
            "left_right": mean(left[right]),
            "left_wrong": mean(left[wrong]),
            "seen_right": mean(outcomes.stroke_coverage[right]),
            "seen_wrong": mean(outcomes.stroke_coverage[wrong]),
            "early": proportion(early[answered]),
            "early_accuracy": proportion(outcomes.correct[early]),
            "optimistic": proportion(early[wrong]),
        }

    return Sheet(
        "stopping",
        "Stopping",
        "At the moment of the answer: share of the budget that was left, and stroke coverage. Early: at least half of "
        "the budget left and some digit not over 75 % seen. Over-optimistic: of the wrong answers, the early ones.",
        (
            *RUN,
            Column("answered", "answers", "count"),
            Column("left_right", "budget left, right", "share"),
            Column("left_wrong", "budget left, wrong", "share"),
            Column("seen_right", "stroke seen, right", "share"),
            Column("seen_wrong", "stroke seen, wrong", "share"),
            Column("early", "early answers", "share"),
            Column("early_accuracy", "accuracy of early", "share"),
            Column("optimistic", "over-optimistic", "share"),
        ),
        rows_of(runs, row),
    )


def budget_left(run: StoredRun, outcomes: Outcomes) -> Floats:
    """Share of the budget that was left when each counted episode ended, float64 (N,)."""
    left: Floats = (run.setting.budget - outcomes.steps) / run.setting.budget
    return left
