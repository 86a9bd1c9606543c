"""Two settings on the same episodes: who is right where the other is wrong."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from mnistpro_jax.runs.intervals import Z95
from mnistpro_jax.runs.outcomes import Flags


@dataclasses.dataclass(frozen=True)
class PairedTest:
    """Outcomes of two settings on the same episodes.

    episodes: how many both played. both, first_only, second_only, neither: who was right. p: two-sided exact McNemar.
    """

    both: int
    first_only: int
    second_only: int
    neither: int

    @property
    def episodes(self) -> int:
        """Episodes that both played."""
        return self.both + self.first_only + self.second_only + self.neither

    @property
    def difference(self) -> float:
        """Accuracy of the second less that of the first, -1..1; nan without episodes."""
        return (self.second_only - self.first_only) / self.episodes if self.episodes else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of ``difference``: Wald's with half a pair added to each cell (Agresti and Min 2005)."""
        if not self.episodes:
            return math.nan, math.nan
        count = self.episodes + 2
        moved, net = self.first_only + self.second_only + 1, self.second_only - self.first_only
        half = Z95 * math.sqrt(moved - net * net / count) / count
        return max(-1.0, net / count - half), min(1.0, net / count + half)

    @property
    def p(self) -> float:
        """See ``mcnemar``."""
        return mcnemar(self.first_only, self.second_only)


def compare(first: Flags, second: Flags) -> PairedTest:
    """first, second: bool (N,), whether each was right, episode by episode. Raises ValueError for other shapes."""
    first, second = np.asarray(first, bool), np.asarray(second, bool)
    if first.shape != second.shape or first.ndim != 1:
        raise ValueError(
            f"outcomes of shapes {first.shape} and {second.shape}; expected the same episodes in both"
        )
    return PairedTest(
        both=int((first & second).sum()),
        first_only=int((first & ~second).sum()),
        second_only=int((~first & second).sum()),
        neither=int((~first & ~second).sum()),
    )


def mcnemar(first_only: int, second_only: int) -> float:
    """The two-sided exact McNemar test: how likely is so unequal a split of the discordant pairs, or one more so,
    if either side were as likely (McNemar 1947; the binomial test of first_only among both).

    In whole numbers until the last division, so that it is exact for any count. 1 without discordant pairs.
    Raises ValueError for negative counts.
    """
    if first_only < 0 or second_only < 0:
        raise ValueError(f"counts are {first_only} and {second_only}; expected 0 or more")
    count, fewer = first_only + second_only, min(first_only, second_only)
    tail, term = 0, 1
    for k in range(fewer + 1):
        tail += term
        term = term * (count - k) // (k + 1)
    return min(1.0, 2 * tail / (1 << count))


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for being several at once (Holm 1979), in the given order."""
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, number in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[number]))
        adjusted[number] = largest
    return adjusted
