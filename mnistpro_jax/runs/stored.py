"""A stored run in memory, in one shape whatever wrote it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from mnistpro_jax.runs.missing import Missing, missing_of
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.setting import Setting


@dataclasses.dataclass(frozen=True, eq=False)
class StoredRun:
    """One run. name: unique among the runs that were loaded together, for people. seed: its own, None where unknown.

    records: episodes that count, in the format of ``runs.records``, by number. uncounted: how many others there
    are, by status (infrastructure failures: never scored). planned: how many episodes the run was meant to have, None
    where it does not say. control: its summary's accuracy on unmasked canvases, None without one. writer: "mnistpro",
    "reference" or "inspect". path: its folder, or its log; of a log with several, the log and the epoch's number.
    """

    name: str
    path: Path
    setting: Setting
    seed: int | None
    records: tuple[dict[str, Any], ...]
    uncounted: dict[str, int]
    planned: int | None = None
    control: float | None = None
    writer: str = "mnistpro"

    @property
    def missing(self) -> Missing | None:
        """What its accuracy lacks; None for a complete run."""
        return self.missing_of(self.planned or 0)

    def missing_of(self, planned: int) -> Missing | None:
        """What the accuracy of a run of ``planned`` episodes lacks; one that has more of them was to have these."""
        return missing_of(
            max(planned, len(self.records) + sum(self.uncounted.values())), self.records, self.uncounted
        )

    @property
    def key(self) -> str:
        """Names the run, for programs: its folder, which no other run has, whatever they are called."""
        return str(self.path.resolve())

    @property
    def outcomes(self) -> Outcomes:
        """The counted episodes as columns. Raises ValueError where there is none."""
        return Outcomes.of_records(self.records)

    def keys(self) -> list[tuple[int, tuple[int, ...]]]:
        """What names each counted episode in every run of the same list: (number, images)."""
        return [(record["episode"], tuple(record["indices"])) for record in self.records]


def common_episodes(first: StoredRun, second: StoredRun) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the counted episodes that two runs share, int64 (K,) each, in the same order."""
    rows = {key: row for row, key in enumerate(second.keys())}
    pairs = [(row, rows[key]) for row, key in enumerate(first.keys()) if key in rows]
    both = np.asarray(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
