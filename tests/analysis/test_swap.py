"""Predictor swap: what is handed to a predictor, and what is made of its answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mnistpro_jax.analysis.failures import failures, failures_sheet
from mnistpro_jax.analysis.predictors import Digits, FixedCanvas, shipped_predictor
from mnistpro_jax.analysis.swap import swap, swap_sheet
from mnistpro_jax.render.published import PALETTE
from mnistpro_jax.runs.load import load_run
from mnistpro_jax.runs.stored import StoredRun
from tests.runs import stored


class Counting:
    """Answers with the label where most of the stroke is there: it knows the labels by their canvas."""

    name = "counting"

    def __init__(self, level: int) -> None:
        worlds = stored.episodes(level)
        self._labels = {world.canvas.tobytes(): tuple(world.labels) for world in worlds}
        self.seen: list[FixedCanvas] = []

    def read(self, fixed: Sequence[FixedCanvas]) -> list[Digits | None]:
        self.seen += fixed
        return [
            self._labels[one.canvas.tobytes()]
            if (one.seen & (one.canvas == 0)).sum() > 0.5 * (one.canvas == 0).sum()
            else None
            for one in fixed
        ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    return load_run(stored.evaluate_folder(tmp_path_factory.mktemp("run") / "a", 2))


def test_a_predictor_sees_what_the_agent_saw(run: StoredRun) -> None:
    predictor = Counting(2)
    made = swap(run, predictor)
    worlds = stored.episodes(2)
    fixed, whole = predictor.seen[: len(worlds)], predictor.seen[len(worlds) :]
    for one, full, world in zip(fixed, whole, worlds, strict=True):
        np.testing.assert_array_equal(one.seen, world.readable)
        np.testing.assert_array_equal(one.canvas, world.canvas)
        for counts, expected in zip(one.counts(), world.fused_native(readable=True), strict=True):
            np.testing.assert_array_equal(counts, expected)
        picture = np.asarray(PALETTE, np.uint8)[one.picture()]
        assert (picture[~world.readable] == 128).all()
        np.testing.assert_array_equal(picture[world.readable][:, 0], world.canvas[world.readable])
        assert full.seen.all()
    assert made.control.all()
    over_half = [sum(w.stroke_seen_readable) > 0.5 * sum(w.stroke_total) for w in worlds]
    assert made.correct.tolist() == over_half
    (row,) = swap_sheet([run], {run.key: [made]}).rows
    assert row["swapped"].value == np.mean(over_half)


def test_every_failure_has_one_reason(run: StoredRun) -> None:
    made = swap(run, Counting(2))
    reasons = failures(run, made)
    wrong = ~run.outcomes.correct
    np.testing.assert_array_equal(sum(flags.astype(int) for flags in reasons.values()), wrong)
    assert reasons["no answer"].sum() == sum(record["ending"] != "ANSWERED" for record in run.records)
    (row,) = failures_sheet([run], {run.key: [made]}).rows
    assert row["right"] + sum(row[name.replace(" ", "_")] for name in reasons) == len(run.records)


def test_the_shipped_reader_reads_whole_canvases(tmp_path: Path) -> None:
    short = load_run(stored.evaluate_folder(tmp_path / "a", 1))
    made = swap(short, shipped_predictor())
    assert made.control.mean() >= 6 / 7  # it reads over 99 % of whole canvases
    assert len(made.answers) == len(short.records)
