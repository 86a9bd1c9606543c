"""What was seen, and accuracy by how much of it."""

from __future__ import annotations

from collections.abc import Sequence

from mnistpro_jax.analysis.by_run import RUN, rows_of
from mnistpro_jax.analysis.estimates import mean, proportion
from mnistpro_jax.analysis.sheet import Column, Row, Sheet
from mnistpro_jax.rollouts import metrics
from mnistpro_jax.runs.outcomes import Flags, Floats, Outcomes
from mnistpro_jax.runs.stored import StoredRun

BINS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Edges of the coverage groups; the last group is the benchmark's "seen", above 0.75."""


def exploration_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """What was seen, in both definitions, and how often again."""

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        return {
            "stroke": mean(outcomes.stroke_coverage),
            "stroke_readable": mean(outcomes.stroke_coverage_readable),
            "area": mean(outcomes.area_coverage),
            "area_readable": mean(outcomes.area_coverage_readable),
            "revisits": mean(outcomes.revisit_rate),
            "moves": mean(outcomes.moves),
            "seen": proportion(metrics.all_digits_seen(outcomes.digit_stroke_coverage)),
        }

    return Sheet(
        "exploration",
        "Exploration",
        "Share of the stroke and of the canvas inside the union of windows: whole windows, as published, and readable "
        "ones, less the ring that the outline hides. Revisits: share of observations whose window had been shown "
        "before. Seen: every digit has over 75 % of its stroke inside the windows.",
        (
            *RUN,
            Column("stroke", "stroke seen", "share"),
            Column("stroke_readable", "readable", "share"),
            Column("area", "area seen", "share"),
            Column("area_readable", "readable", "share"),
            Column("revisits", "revisits", "share"),
            Column("moves", "moves", "number"),
            Column("seen", "all digits seen", "share"),
        ),
        rows_of(runs, row),
    )


def conditioned_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """Accuracy by how much of the least seen digit was seen."""
    groups = range(len(BINS) - 1)

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        least = least_seen(outcomes)
        facts: Row = {}
        for number in groups:
            chosen = in_bin(least, number)
            facts |= {
                f"count_{number}": int(chosen.sum()),
                f"accuracy_{number}": proportion(outcomes.correct[chosen]),
            }
        return facts

    columns = []
    for number in groups:
        name = f"{100 * BINS[number]:g} to {100 * BINS[number + 1]:g} %"
        columns += [
            Column(f"count_{number}", f"{name}: episodes", "count"),
            Column(f"accuracy_{number}", "accuracy", "share"),
        ]
    return Sheet(
        "conditioned",
        "Accuracy by what was seen",
        "Episodes by the stroke coverage (whole windows) of the digit that was seen least. The last group is what the "
        "benchmark calls seen: who fails there had the evidence and did not use it.",
        (*RUN, *columns),
        rows_of(runs, row),
    )


def least_seen(outcomes: Outcomes) -> Floats:
    """Stroke coverage of the digit that was seen least, float64 (N,)."""
    least: Floats = outcomes.digit_stroke_coverage.min(axis=1)
    return least


def in_bin(coverage: Floats, number: int) -> Flags:
    """Which episodes fall into a coverage group: (low, high], and 0 itself in the first."""
    low, high = BINS[number], BINS[number + 1]
    chosen: Flags = (coverage <= high) & ((coverage > low) | (number == 0))
    return chosen
