"""Every table against plain loops over the stored records."""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from mnistpro_jax.analysis.measures import sheets
from mnistpro_jax.analysis.paired import mcnemar
from mnistpro_jax.analysis.sheet import Estimate
from mnistpro_jax.runs.intervals import wilson
from mnistpro_jax.runs.load import load_runs
from mnistpro_jax.runs.stored import StoredRun
from tests.runs import stored

BETTER = tuple((moves, "right" if number % 3 else end) for number, (moves, end) in enumerate(stored.SCRIPTS))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[StoredRun]:
    home = tmp_path_factory.mktemp("runs")
    stored.evaluate_folder(home / "a", 2)
    stored.host_folder(home / "b", 2, scripts=BETTER)
    stored.host_folder(home / "c", 1)
    stored.host_folder(home / "d", 1, failed=7, memory="grid-map")
    return load_runs([home])


def table(runs: list[StoredRun], name: str) -> dict[str, dict[str, Any]]:
    """Rows of a sheet by their run's key."""
    (sheet,) = [sheet for sheet in sheets(runs) if sheet.name == name]
    keys = {(run.setting.level, run.name): run.key for run in runs}
    return {keys[row["level"], row["run"]]: dict(row) for row in sheet.rows}


def test_main(runs: list[StoredRun]) -> None:
    rows = table(runs, "main")
    assert len(rows) == 4
    for run in runs:
        row, records = rows[run.key], run.records
        assert row["episodes"] == len(records)
        assert row["uncounted"] == sum(run.uncounted.values())
        if not records:
            assert "accuracy" not in row
            continue
        right = sum(record["correct"] for record in records)
        assert row["accuracy"] == Estimate(right / len(records), *wilson(right, len(records)))
        assert row["steps"].value == pytest.approx(mean(record["steps"] for record in records))
        assert row["steps"].low <= row["steps"].value <= row["steps"].high
        if run.setting.level > 1:
            assert row["positional"].value == pytest.approx(mean(mean(r["digits_correct"]) for r in records))


def test_paired(runs: list[StoredRun]) -> None:
    (sheet,) = [sheet for sheet in sheets(runs) if sheet.name == "paired"]
    (row,) = sheet.rows
    assert row["level"] == 2
    here = {run.name: run for run in runs if run.setting.level == 2}
    first, second = here[row["first"]], here[row["second"]]
    pairs = [(a["correct"], b["correct"]) for a, b in zip(first.records, second.records, strict=False)]
    assert row["episodes"] == len(pairs) == 5
    only = sum(a and not b for a, b in pairs), sum(b and not a for a, b in pairs)
    assert (row["first_only"], row["second_only"]) == only
    assert row["p"] == row["holm"] == mcnemar(*only)


def test_exploration_and_endings(runs: list[StoredRun]) -> None:
    exploration, endings = table(runs, "exploration"), table(runs, "endings")
    for run in runs:
        if not run.records:
            assert run.key not in exploration
            continue
        row = exploration[run.key]
        for name, field in (
            ("stroke", "stroke_coverage"),
            ("area_readable", "area_coverage_readable"),
            ("moves", "moves"),
        ):
            assert row[name].value == pytest.approx(mean(record[field] for record in run.records))
        assert row["revisits"].value == pytest.approx(
            mean(r["revisits"] / (r["moves"] + 1) for r in run.records)
        )
        seen = [all(share > 0.75 for share in record["digit_stroke_coverage"]) for record in run.records]
        assert row["seen"].value == mean(seen)
        ended = endings[run.key]
        assert ended["right"] == sum(record["correct"] for record in run.records)
        assert sum(ended[name] for name in ("right", "wrong", "limit", "invalid")) == len(run.records)
        assert ended["status_api_error"] == sum(run.uncounted.values())


def test_digits_conditioned_topology(runs: list[StoredRun]) -> None:
    digits, conditioned, topology = (table(runs, name) for name in ("digits", "conditioned", "topology"))
    for run in runs:
        if not run.records:
            continue
        if run.setting.level == 2:
            row = digits[run.key]
            places = [mean(record["digits_correct"][k] for record in run.records) for k in range(2)]
            assert [row["place_1"].value, row["place_2"].value] == places
            assert row["independent"] == pytest.approx(places[0] * places[1])
        row = conditioned[run.key]
        assert sum(row[f"count_{k}"] for k in range(4)) == len(run.records)
        last = [record["correct"] for record in run.records if min(record["digit_stroke_coverage"]) > 0.75]
        assert row["count_3"] == len(last)
        assert row["accuracy_3"].value == (mean(last) if last else None)
        strokes = [
            flag
            for record in run.records
            for label, flag in zip(record["labels"], record["digits_correct"], strict=True)
            if label in (1, 4, 7)
        ]
        assert topology[run.key]["strokes"].value == (mean(strokes) if strokes else None)


def test_stopping_and_calls(runs: list[StoredRun]) -> None:
    stopping, calls = table(runs, "stopping"), table(runs, "calls")
    for run in runs:
        if not run.records:
            continue
        row = stopping[run.key]
        answers = [record for record in run.records if record["ending"] == "ANSWERED"]
        wrong = [record for record in answers if not record["correct"]]
        assert row["answered"] == len(answers)
        if wrong:
            assert row["left_wrong"].value == pytest.approx(
                mean((36 - record["steps"]) / 36 for record in wrong)
            )
            early = [r["steps"] <= 18 and min(r["digit_stroke_coverage"]) <= 0.75 for r in wrong]
            assert row["optimistic"].value == mean(early)
        assert (run.key in calls) == (run.setting.harness == "turns")
        if run.key in calls:
            steps = sum(record["steps"] for record in run.records)
            assert calls[run.key]["input_tokens"] == 100 * steps
            assert calls[run.key]["latency"] == pytest.approx(0.5)
