"""How often runs were right: whole sequences, single digits, and digits by their topology."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mnistpro_jax.analysis.by_run import MISSING, MISSING_ABOUT, RUN, rows_of
from mnistpro_jax.analysis.estimates import mean, proportion
from mnistpro_jax.analysis.sheet import Column, Row, Sheet
from mnistpro_jax.rollouts import metrics
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.stored import StoredRun


def main_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """Accuracy and steps of each run."""

    def row(run: StoredRun) -> Row:
        facts: Row = {
            "level": run.setting.level,
            "run": run.name,
            "episodes": len(run.records),
            "uncounted": sum(run.uncounted.values()),
            "control": run.control,
        }
        if run.records:
            outcomes = run.outcomes
            facts |= {
                "accuracy": proportion(outcomes.correct),
                # With one digit it is the accuracy itself.
                **(
                    {"positional": mean(outcomes.digits_correct.mean(axis=1))}
                    if run.setting.level > 1
                    else {}
                ),
                "steps": mean(outcomes.steps),
                "return": mean(outcomes.returns),
            }
        if run.missing is not None:
            low, high = run.missing.bounds
            facts |= {"missing": run.missing.missing, "if_wrong": low, "if_right": high}
        return facts

    complete = all(run.missing is None for run in runs)

    return Sheet(
        "main",
        "Accuracy and steps",
        "Accuracy: all digits right. Steps count the answer. Episodes that failed for reasons outside the agent "
        "(calls that failed, refusals, cut-off replies) are in 'not counted' and never in accuracy. Intervals: 95 %, "
        "Wilson for accuracy, bootstrap over episodes for means." + ("" if complete else f" {MISSING_ABOUT}"),
        (
            *RUN,
            Column("episodes", "episodes", "count"),
            Column("accuracy", "accuracy", "share"),
            *(() if complete else MISSING),
            Column(
                "positional",
                "single digits right",
                "share",
                "share of the digits that are right in their place",
            ),
            Column("control", "control", "share", "accuracy on unmasked canvases, where the run has one"),
            Column("steps", "steps", "number"),
            Column(
                "return", "return", "number", "sum of rewards; published: -0.1 a move, +10 right, -10 wrong"
            ),
            Column("uncounted", "not counted", "count"),
        ),
        tuple(row(run) for run in runs),
    )


def digits_sheet(runs: Sequence[StoredRun]) -> Sheet | None:
    """Each place of a sequence against the whole of it; None where all runs have one digit."""
    several = [run for run in runs if run.setting.level > 1]
    if not several:
        return None
    places = max(run.setting.level for run in several)

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        shares = outcomes.digits_correct.mean(axis=0)
        seen = metrics.all_digits_seen(outcomes.digit_stroke_coverage)
        return {
            "sequence": proportion(outcomes.correct),
            "independent": float(np.prod(shares)),
            "seen": proportion(seen),
            **{f"place_{k + 1}": proportion(outcomes.digits_correct[:, k]) for k in range(run.setting.level)},
        }

    return Sheet(
        "digits",
        "Single digits and sequences",
        "Accuracy of each place, left to right, and of the whole sequence. 'If independent' is what the sequence would "
        "have if places were right or wrong by chance of each other.",
        (
            *RUN,
            *(Column(f"place_{k + 1}", f"digit {k + 1}", "share") for k in range(places)),
            Column("sequence", "sequence", "share"),
            Column("independent", "if independent", "share"),
            Column("seen", "all digits seen", "share"),
        ),
        rows_of(several, row),
    )


def topology_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """Accuracy of single digits by the topology of the digit shown."""

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        if not ((outcomes.labels >= 0) & (outcomes.labels <= 9)).all():
            return {}
        group = metrics.topology_group(outcomes.labels)
        return {
            name: proportion(outcomes.digits_correct[group == number])
            for number, name in enumerate(metrics.TOPOLOGY)
        }

    return Sheet(
        "topology",
        "Single digits by topology",
        "Share of single digits right in their place, by the group of the digit shown.",
        (
            *RUN,
            *(
                Column(name, f"{name} ({' '.join(map(str, digits))})", "share")
                for name, digits in metrics.TOPOLOGY.items()
            ),
        ),
        rows_of(runs, row),
    )
