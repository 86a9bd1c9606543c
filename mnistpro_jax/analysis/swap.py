"""Predictor swap: another reader on the canvases that a run had fused, its trajectories left as they were.

What an agent saw and what it made of it come apart: a reader that is right where the agent was wrong found the evidence
there. With the agent's own model as the predictor this is the benchmark's offline canvas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import numpy as np
import numpy.typing as npt

from mnistpro_jax.analysis.measures import EARLY, proportion
from mnistpro_jax.analysis.paired import compare
from mnistpro_jax.analysis.sheet import Column, Estimate, Row, Sheet
from mnistpro_jax.env.types import Ending, FusedCanvas
from mnistpro_jax.render.seen import seen_mask
from mnistpro_jax.rollouts import metrics
from mnistpro_jax.runs.canvases import canvases
from mnistpro_jax.runs.outcomes import Flags
from mnistpro_jax.runs.stored import StoredRun

Pixels = npt.NDArray[np.uint8]
Digits = tuple[int, ...]

NOT_COUNTED: Digits = ()
"""The answer of a predictor that failed for a reason outside it: no outcome, and never a wrong one."""

_READ_AT_ONCE = 64
_AT_ONCE = 512  # episodes whose canvases are held at a time


@dataclasses.dataclass(frozen=True, eq=False)
class FixedCanvas:
    """What an episode left: the canvas and which of it was seen.

    canvas: uint8 (H, W), 0 stroke and 255 background. seen: bool (H, W). level: digits.
    """

    canvas: Pixels
    seen: npt.NDArray[np.bool_]
    level: int

    def picture(self) -> Pixels:
        """The composite picture, grey where nothing was seen: numbers of ``render.published.PALETTE``, uint8 (H, W)."""
        return np.where(self.seen, (self.canvas & 1) + np.uint8(1), np.uint8(0))

    def counts(self, native: int = 28) -> tuple[Pixels, Pixels]:
        """(stroke, revealed) pixels per native pixel, uint8 (native, native n), as readers take them."""
        height, width = self.canvas.shape
        factor = height // native

        def pooled(mask: npt.NDArray[np.bool_]) -> Pixels:
            blocks = mask.reshape(native, factor, width // factor, factor)
            counts: Pixels = blocks.sum(axis=(1, 3)).astype(np.uint8)
            return counts

        return pooled(self.seen & (self.canvas == 0)), pooled(self.seen)


class Predictor(Protocol):
    """Reads fused canvases. ``name`` is for people. Models behind an API fit in here as well."""

    name: str

    def read(self, fixed: Sequence[FixedCanvas]) -> list[Digits | None]:
        """The answer to each canvas; None where it gave none, ``NOT_COUNTED`` where it was not able to. All canvases
        have one size."""


class ReaderPredictor:
    """A reader of ours (``agents.reader.Reader``) as a predictor."""

    def __init__(self, name: str, reader: Any) -> None:
        self.name = name
        self._reader = reader

    def read(self, fixed: Sequence[FixedCanvas]) -> list[Digits | None]:
        """See ``Predictor``."""
        stroke, revealed = (np.stack(part) for part in zip(*(one.counts() for one in fixed), strict=True))
        answers: list[Digits | None] = []
        for first in range(0, len(fixed), _READ_AT_ONCE):
            # The last block is filled up, so that all have the shape that was compiled.
            rows = np.minimum(np.arange(first, first + _READ_AT_ONCE), len(fixed) - 1)
            digits = np.asarray(_digits(self._reader, stroke[rows], revealed[rows]))
            answers += [tuple(row) for row in digits[: len(fixed) - first].tolist()]
        return answers


@jax.jit
def _digits(reader: Any, stroke: jax.Array, revealed: jax.Array) -> jax.Array:
    """int32 (B, n) from counts (B, 28, 28 n)."""
    return jax.vmap(lambda s, r: reader.posterior(FusedCanvas(s, r)).digits)(stroke, revealed)


def shipped_predictor() -> ReaderPredictor:
    """The trained reader in the package."""
    from mnistpro_jax.agents.learned.shipped import load_reader

    return ReaderPredictor("shipped", load_reader()[0])


def bank_predictor(source: str = "mnist") -> ReaderPredictor:
    """The reader that compares with every training image of a source."""
    from mnistpro_jax import data
    from mnistpro_jax.agents.reader import build_reader

    return ReaderPredictor("bank", build_reader(data.load(source, "train")))


PREDICTORS: dict[str, Callable[[], Predictor]] = {"shipped": shipped_predictor, "bank": bank_predictor}
"""Readers by name."""


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
    early = (run.setting.budget - outcomes.steps) / run.setting.budget >= EARLY
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
