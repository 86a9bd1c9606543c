"""One row of measures an episode, as numpy columns: what summaries and records are made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

import jax
import numpy as np
import numpy.typing as npt

from mnistpro_jax.env.types import Ending, EpisodeStatistics
from mnistpro_jax.rollouts import metrics

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, eq=False)
class Outcomes:
    """N episodes of n digits. Shares are 0..1; their definitions are in ``mnistpro_jax.rollouts.metrics``.

    labels, answers: int64 (N, n); an answer is -1 where none was given. ending: int64 (N,), an ``Ending``.
    correct: bool (N,). digits_correct: bool (N, n). steps, moves, revisits: int64 (N,). stroke_coverage,
    stroke_coverage_readable, area_coverage, area_coverage_readable: float64 (N,). digit_stroke_coverage,
    digit_stroke_coverage_readable: float64 (N, n). returns: float64 (N,), sums of rewards.
    """

    labels: Integers
    answers: Integers
    ending: Integers
    correct: Flags
    digits_correct: Flags
    steps: Integers
    moves: Integers
    revisits: Integers
    stroke_coverage: Floats
    stroke_coverage_readable: Floats
    area_coverage: Floats
    area_coverage_readable: Floats
    digit_stroke_coverage: Floats
    digit_stroke_coverage_readable: Floats
    returns: Floats

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_digits(self) -> int:
        """Digits of a scene."""
        return int(self.labels.shape[1])

    @classmethod
    def of(cls, statistics: EpisodeStatistics, canvas_pixels: int) -> Self:
        """Outcomes of finished episodes.

        statistics: with one leading axis of N >= 1 episodes, e.g. ``Trajectories.statistics``. canvas_pixels:
        height times width. Raises ValueError for another shape.
        """
        host: Any = jax.tree.map(np.asarray, statistics)
        if host.label.ndim != 2 or len(host.label) == 0:
            raise ValueError(
                f"labels have shape {host.label.shape}; expected (episodes, digits), at least one episode"
            )
        return cls(
            labels=_integers(host.label),
            answers=_integers(host.answer),
            ending=_integers(host.ending),
            correct=np.asarray(host.correct, bool),
            digits_correct=np.asarray(host.digits_correct, bool),
            steps=_integers(host.steps),
            moves=_integers(host.moves),
            revisits=_integers(host.revisits),
            stroke_coverage=metrics.stroke_coverage(host),
            stroke_coverage_readable=metrics.stroke_coverage_readable(host),
            area_coverage=metrics.area_coverage(host, canvas_pixels),
            area_coverage_readable=metrics.area_coverage_readable(host, canvas_pixels),
            digit_stroke_coverage=metrics.digit_stroke_coverage(host),
            digit_stroke_coverage_readable=metrics.digit_stroke_coverage_readable(host),
            # Rewards are summed in float32; beyond its precision there is only noise such as 9.600000381.
            returns=np.asarray(host.episode_return, np.float64).round(5),
        )

    @classmethod
    def of_records(cls, records: Sequence[dict[str, Any]]) -> Self:
        """Outcomes of stored episodes (``runs.records.read_episodes``), all of one level.

        Raises ValueError for none, for records of different levels, and for episodes that do not count (``correct`` is
        null, because a call to a model failed): leave these out.
        """
        unknown = [record["episode"] for record in records if record["correct"] is None]
        if unknown:
            raise ValueError(
                f"episode {unknown[0]} has no outcome, because a call failed; leave such episodes out"
            )
        levels = {record["level"] for record in records}
        if len(levels) != 1:
            found = ", ".join(map(str, sorted(levels))) or "no records"
            raise ValueError(f"expected episode records of one level, at least one; got {found}")
        nothing = [-1] * levels.pop()

        def column(name: str, dtype: type) -> Any:
            return np.asarray([record[name] for record in records], dtype)

        return cls(
            labels=column("labels", np.int64),
            answers=np.asarray([record["answer"] or nothing for record in records], np.int64),
            ending=np.asarray([Ending[record["ending"]] for record in records], np.int64),
            correct=column("correct", np.bool_),
            digits_correct=column("digits_correct", np.bool_),
            steps=column("steps", np.int64),
            moves=column("moves", np.int64),
            revisits=column("revisits", np.int64),
            stroke_coverage=column("stroke_coverage", np.float64),
            stroke_coverage_readable=column("stroke_coverage_readable", np.float64),
            area_coverage=column("area_coverage", np.float64),
            area_coverage_readable=column("area_coverage_readable", np.float64),
            digit_stroke_coverage=column("digit_stroke_coverage", np.float64),
            digit_stroke_coverage_readable=column("digit_stroke_coverage_readable", np.float64),
            returns=column("return", np.float64),
        )

    @property
    def revisit_rate(self) -> Floats:
        """float64 (N,); see ``metrics.revisit_rate``."""
        rate: Floats = metrics.revisit_rate(self)
        return rate


def _integers(values: Any) -> Integers:
    return np.asarray(values, np.int64)
