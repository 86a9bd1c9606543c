"""What the stored episodes of several runs say, as sheets. Definitions: ``mnistpro_jax.rollouts.metrics``, README."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax.analysis.paired import compare, holm
from mnistpro_jax.analysis.sheet import Column, Estimate, Row, Sheet
from mnistpro_jax.env.types import Ending
from mnistpro_jax.rollouts import metrics
from mnistpro_jax.runs.intervals import bootstrap_mean, wilson
from mnistpro_jax.runs.outcomes import Flags, Floats, Outcomes
from mnistpro_jax.runs.stored import StoredRun, common_episodes

BINS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Edges of the coverage groups; the last group is the benchmark's "seen", above 0.75."""
EARLY = 0.5
"""Share of the budget that is left when an answer counts as early."""
_ALL_PAIRS = 6  # runs of a level up to which all pairs are tested

_RUN = (Column("level", "level"), Column("run", "run"))


def proportion(flags: npt.ArrayLike) -> Estimate:
    """A share of true values with its Wilson interval."""
    values = np.asarray(flags, bool)
    if not values.size:
        return Estimate(None, None, None)
    return Estimate(float(values.mean()), *wilson(int(values.sum()), values.size))


def mean(values: npt.ArrayLike) -> Estimate:
    """A mean over episodes with its bootstrap interval."""
    sample = np.asarray(values, np.float64)
    if not sample.size:
        return Estimate(None, None, None)
    return Estimate(float(sample.mean()), *bootstrap_mean(sample))


def sheets(runs: Sequence[StoredRun]) -> list[Sheet]:
    """All tables that stored episodes alone can fill. A run without counted episodes is listed in the first."""
    makers: tuple[Callable[[Sequence[StoredRun]], Sheet | None], ...] = (
        main_sheet,
        paired_sheet,
        exploration_sheet,
        endings_sheet,
        digits_sheet,
        conditioned_sheet,
        topology_sheet,
        stopping_sheet,
        calls_sheet,
    )
    made = [maker(runs) for maker in makers]
    return [sheet for sheet in made if sheet is not None and sheet.rows]


def _each(runs: Sequence[StoredRun], row: Callable[[StoredRun, Outcomes], Row]) -> tuple[Row, ...]:
    return tuple(
        {"level": run.setting.level, "run": run.name, **row(run, run.outcomes)} for run in runs if run.records
    )


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
        return facts

    return Sheet(
        "main",
        "Accuracy and steps",
        "Accuracy: all digits right. Steps count the answer. Episodes that failed for reasons outside the agent "
        "(calls that failed, refusals, cut-off replies) are in 'not counted' and never in accuracy. Intervals: 95 %, "
        "Wilson for accuracy, bootstrap over episodes for means.",
        (
            *_RUN,
            Column("episodes", "episodes", "count"),
            Column("accuracy", "accuracy", "share"),
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


def paired_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """Pairs of runs on the episodes that both counted."""
    rows: list[Row] = []
    p_values: list[float] = []
    for first, second in pairs_to_test(runs):
        here, there = common_episodes(first, second)
        test = compare(first.outcomes.correct[here], second.outcomes.correct[there])
        p_values.append(test.p)
        rows.append(
            {
                "level": first.setting.level,
                "first": first.name,
                "second": second.name,
                "episodes": test.episodes,
                "first_only": test.first_only,
                "second_only": test.second_only,
                "difference": Estimate(test.difference, *test.interval),
                "p": test.p,
            }
        )
    for row, adjusted in zip(rows, holm(p_values), strict=True):
        row["holm"] = adjusted
    return Sheet(
        "paired",
        "Paired tests on the same episodes",
        "Second less first, in points of accuracy, over the episodes that both counted; p: two-sided exact McNemar "
        f"test; Holm: adjusted for all pairs of this table. With more than {_ALL_PAIRS} runs of a level, pairs that "
        "differ in one setting alone are tested.",
        (
            Column("level", "level"),
            Column("first", "first"),
            Column("second", "second"),
            Column("episodes", "episodes", "count"),
            Column("first_only", "first alone right", "count"),
            Column("second_only", "second alone right", "count"),
            Column("difference", "difference", "points"),
            Column("p", "p", "p"),
            Column("holm", "p, Holm", "p"),
        ),
        tuple(rows),
    )


def pairs_to_test(runs: Sequence[StoredRun]) -> list[tuple[StoredRun, StoredRun]]:
    """Pairs of one level that share counted episodes, in order."""
    counted = [run for run in runs if run.records]
    many = {
        level
        for level in {run.setting.level for run in counted}
        if sum(run.setting.level == level for run in counted) > _ALL_PAIRS
    }
    return [
        (first, second)
        for first, second in itertools.combinations(counted, 2)
        if first.setting.level == second.setting.level
        and (first.setting.level not in many or _differ_in_one(first, second))
        and len(common_episodes(first, second)[0])
    ]


def _differ_in_one(first: StoredRun, second: StoredRun) -> bool:
    names = ("model", "memory", "horizon", "window", "harness", "others")
    return sum(getattr(first.setting, name) != getattr(second.setting, name) for name in names) <= 1


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
            *_RUN,
            Column("stroke", "stroke seen", "share"),
            Column("stroke_readable", "readable", "share"),
            Column("area", "area seen", "share"),
            Column("area_readable", "readable", "share"),
            Column("revisits", "revisits", "share"),
            Column("moves", "moves", "number"),
            Column("seen", "all digits seen", "share"),
        ),
        _each(runs, row),
    )


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
            *_RUN,
            Column("right", "answered right", "count"),
            Column("wrong", "answered wrong", "count"),
            Column("limit", "step limit", "count"),
            Column("invalid", "invalid action", "count"),
            *(Column(f"status_{status}", status.replace("_", " "), "count") for status in statuses),
        ),
        _each(runs, row),
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
            *_RUN,
            *(Column(f"place_{k + 1}", f"digit {k + 1}", "share") for k in range(places)),
            Column("sequence", "sequence", "share"),
            Column("independent", "if independent", "share"),
            Column("seen", "all digits seen", "share"),
        ),
        _each(several, row),
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
        (*_RUN, *columns),
        _each(runs, row),
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
            *_RUN,
            *(
                Column(name, f"{name} ({' '.join(map(str, digits))})", "share")
                for name, digits in metrics.TOPOLOGY.items()
            ),
        ),
        _each(runs, row),
    )


def stopping_sheet(runs: Sequence[StoredRun]) -> Sheet:
    """What was seen and what was left of the budget when an answer was given."""

    def row(run: StoredRun, outcomes: Outcomes) -> Row:
        answered = outcomes.ending == Ending.ANSWERED
        left = (run.setting.budget - outcomes.steps) / run.setting.budget
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
            *_RUN,
            Column("answered", "answers", "count"),
            Column("left_right", "budget left, right", "share"),
            Column("left_wrong", "budget left, wrong", "share"),
            Column("seen_right", "stroke seen, right", "share"),
            Column("seen_wrong", "stroke seen, wrong", "share"),
            Column("early", "early answers", "share"),
            Column("early_accuracy", "accuracy of early", "share"),
            Column("optimistic", "over-optimistic", "share"),
        ),
        _each(runs, row),
    )


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
            *_RUN,
            Column("calls", "calls", "count"),
            Column(
                "failed_attempts", "failed attempts", "count", "replies that said nothing the protocol knows"
            ),
            Column("input_tokens", "input tokens", "count"),
            Column("output_tokens", "output tokens", "count"),
            Column("cost", "cost", "number"),
            Column("latency", "seconds a call", "number"),
        ),
        _each(called, row),
    )
