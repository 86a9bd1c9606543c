"""Runs against each other, on the episodes that both counted."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mnistpro_jax.analysis.paired import compare, holm
from mnistpro_jax.analysis.sheet import Column, Estimate, Row, Sheet
from mnistpro_jax.runs.stored import StoredRun, common_episodes

_ALL_PAIRS = 6  # runs of a level up to which all pairs are tested


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
