"""Episodes that a run's accuracy lacks, and what it can still become: the one place that says so.

An episode is missing where it is not in the accuracy, for either of two reasons. It may not be *over*: not begun,
interrupted, or stopped by a failure or a limit; such a run is unfinished. Or it is over and does not count, because the
reply was refused or cut off (``OVER``); a run with only such episodes missing is finished, and still nobody knows what
its agent would have done in them.

Where episodes end in another order than that of their list, those that are over first are the short ones, and every
figure of an unfinished run is biased to them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

OVER = ("refused", "truncated")
"""Statuses of episodes that are over and do not count; whatever else does not count is not over."""


@dataclasses.dataclass(frozen=True)
class Missing:
    """What a run's accuracy lacks; there is none of a complete run (``missing_of``).

    planned: episodes of the whole run. counted: those in the accuracy. right: of them. not_over: those that the run has
    still to play, 0 for a finished one. short_first: whether those that are over may be there because they were short:
    False where they are the first of the list.
    """

    planned: int
    counted: int
    right: int
    not_over: int
    short_first: bool

    @property
    def missing(self) -> int:
        """Episodes that are not in the accuracy."""
        return self.planned - self.counted

    @property
    def bounds(self) -> tuple[float, float]:
        """Accuracy of all planned episodes, 0..1: with all missing ones wrong, and with all of them right."""
        return self.right / self.planned, (self.right + self.missing) / self.planned

    @property
    def mark(self) -> str:
        """For the name of an unfinished run: "unfinished, 15 of 100"; "" for a finished one."""
        return f"unfinished, {self.counted} of {self.planned}" if self.not_over else ""

    @property
    def range(self) -> str:
        """The bounds for people, in per cent: "14.0 to 99.0 %"."""
        low, high = self.bounds
        return f"{100 * low:.1f} to {100 * high:.1f} %"

    @property
    def so_far(self) -> str:
        """For a line of progress, beside the accuracy so far."""
        biased = ", biased to short episodes" if self.short_first else ""
        return f"{self.missing} missing{biased}; all {self.planned}: {self.range}"

    @property
    def sentence(self) -> str:
        """All of it in words, to stand beside the run's figures and behind a name that says "unfinished"."""
        left_out = self.missing - self.not_over
        of = f"of {self.planned} episodes"
        if not self.not_over:
            what = f"{self.missing} {of} are not counted (replies refused or cut off)"
        else:
            besides = f", and {left_out} are not counted (replies refused or cut off)" if left_out else ""
            what = f"{self.not_over} {of} are not over{besides}"
        biased = (
            "; short episodes end first, so that all figures are biased to them" if self.short_first else ""
        )
        low, high = self.bounds
        return (
            f"{what}{biased}; accuracy of all {self.planned} lies between {100 * low:.1f} % (all missing wrong) and "
            f"{100 * high:.1f} % (all missing right)"
        )

    @property
    def warning(self) -> str:
        """The same, to stand alone."""
        return f"{'unfinished: ' if self.not_over else ''}{self.sentence}"

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; shares are fractions."""
        low, high = self.bounds
        return {
            "unfinished": self.not_over > 0,
            "planned": self.planned,
            "counted": self.counted,
            "missing": self.missing,
            "not_over": self.not_over,
            "not_counted": self.missing - self.not_over,
            "biased_to_short": self.short_first,
            "accuracy_if_wrong": low,
            "accuracy_if_right": high,
            "note": self.warning,
        }


def missing_of(
    planned: int, counted: Iterable[Mapping[str, Any]], uncounted: Mapping[str, int]
) -> Missing | None:
    """What a run lacks, None where all planned episodes are counted, and where episodes are not graded one by one.

    counted: the records in its accuracy, with "episode" and "correct". uncounted: episodes that are not, by status;
    those that nobody has begun may be left out.
    """
    numbers, right = [], 0
    for record in counted:
        if record.get("correct") is None:
            return None
        numbers.append(int(record["episode"]))
        right += bool(record["correct"])
    if planned <= len(numbers):
        return None
    over = sum(uncounted.get(status, 0) for status in OVER)
    not_over = max(0, planned - len(numbers) - over)
    # The first of the list, whatever their length, but for those that are over and did not count.
    first = max(numbers, default=-1) < len(numbers) + over
    return Missing(planned, len(numbers), right, not_over, short_first=not_over > 0 and not first)
