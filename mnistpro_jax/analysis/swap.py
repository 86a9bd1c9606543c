"""Predictor swap: another reader on the canvases that a run had fused, its trajectories left as they were.

What an agent saw and what it made of it come apart: a reader that is right where the agent was wrong found the evidence
there. With the agent's own model as the predictor this is the benchmark's offline canvas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mnistpro_jax.analysis.estimates import proportion
from mnistpro_jax.analysis.paired import compare
from mnistpro_jax.analysis.predictors import NOT_COUNTED, Digits, FixedCanvas, Predictor
from mnistpro_jax.analysis.sheet import Column, Estimate, Row, Sheet
from mnistpro_jax.render.seen import seen_mask
from mnistpro_jax.runs.canvases import canvases
from mnistpro_jax.runs.outcomes import Flags
from mnistpro_jax.runs.stored import StoredRun

_AT_ONCE = 512  # episodes whose canvases are held at a time


@dataclasses.dataclass(frozen=True, eq=False)
class Swap:
    """What a predictor made of the counted episodes of a run, in their order.

    correct: bool (N,), all digits of the fixed canvas read right. control: bool (N,), the same of the whole canvas.
    counted, control_counted: bool (N,), which of them have an outcome.
    """

    predictor: str
    answers: tuple[Digits | None, ...]
    correct: Flags
    control: Flags
    counted: Flags
    control_counted: Flags


def swap(run: StoredRun, predictor: Predictor, report: Callable[[int, int], None] | None = None) -> Swap:
    """Let a predictor read the canvases that a run ended with. What the outline hid stays hidden.

    report: called with (episodes read, episodes). Raises DataError where the images are not there.
    """
    answers: list[Digits | None] = []
    control: list[Digits | None] = []
    window, readable = run.setting.window, run.setting.outline
    for first in range(0, len(run.records), _AT_ONCE):
        block = run.records[first : first + _AT_ONCE]
        fixed = [
            FixedCanvas(
                canvas, seen_mask(canvas.shape, record["windows"], window, readable), run.setting.level
            )
            for record, canvas in canvases(block)
        ]
        whole = [FixedCanvas(one.canvas, np.ones_like(one.seen), one.level) for one in fixed]
        answers += predictor.read(fixed)
        control += predictor.read(whole)
        if report is not None:
            report(first + len(block), len(run.records))
    labels = [tuple(record["labels"]) for record in run.records]

    def flags(read: list[Digits | None]) -> tuple[Flags, Flags]:
        right = [answer == label for answer, label in zip(read, labels, strict=True)]
        return np.asarray(right, bool), np.asarray([answer != NOT_COUNTED for answer in read], bool)

    (correct, counted), (whole_correct, whole_counted) = flags(answers), flags(control)
    return Swap(predictor.name, tuple(answers), correct, whole_correct, counted, whole_counted)


def swap_sheet(runs: Sequence[StoredRun], swaps: Mapping[str, Sequence[Swap]]) -> Sheet:
    """Each run's own accuracy beside each predictor's on the same canvases. swaps: by ``StoredRun.key``."""
    rows: list[Row] = []
    for run in runs:
        for made in swaps.get(run.key, ()):
            own, swapped = run.outcomes.correct[made.counted], made.correct[made.counted]
            test = compare(own, swapped)
            rows.append(
                {
                    "level": run.setting.level,
                    "run": run.name,
                    "predictor": made.predictor,
                    "own": proportion(own),
                    "episodes": test.episodes,
                    "swapped": proportion(swapped),
                    "difference": Estimate(test.difference, *test.interval),
                    "p": test.p,
                    "control": proportion(made.control[made.control_counted]),
                }
            )
    return Sheet(
        "swap",
        "Predictor swap",
        "Another reader on the canvases that each run had fused when it ended, trajectories unchanged; episodes "
        "without an answer included. p: exact McNemar against the run's own answers. Control: the same reader on "
        "whole canvases.",
        (
            Column("level", "level"),
            Column("run", "run"),
            Column("predictor", "predictor"),
            Column("episodes", "episodes", "count"),
            Column("own", "own answers", "share"),
            Column("swapped", "predictor's", "share"),
            Column("difference", "difference", "points"),
            Column("p", "p", "p"),
            Column("control", "control", "share"),
        ),
        tuple(rows),
    )
