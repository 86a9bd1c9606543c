"""What the fields of a configuration may hold: ranges, and one message for what lies outside."""

from __future__ import annotations

import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True)
class Range:
    """Numbers from low to high. over, under: low itself, high itself is none of them."""

    low: float = 0
    high: float = math.inf
    over: bool = False
    under: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value is a number in the range; NaN and truth values are not."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        above = value > self.low if self.over else value >= self.low
        below = value < self.high if self.under or self.high == math.inf else value <= self.high
        return above and below

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"more than {self.low:g}" if self.over else f"{self.low:g} or more"
        if self.over or self.under:
            low, high = "more than" if self.over else "at least", "less than" if self.under else "at most"
            return f"{low} {self.low:g} and {high} {self.high:g}"
        return f"{self.low:g} to {self.high:,.0f}" if self.high > 1000 else f"{self.low:g} to {self.high:g}"


COUNT = Range(1, 2**31 - 1)  # what is counted in int32
SHARE = Range(0, 1)
POSITIVE = Range(0, over=True)
NOT_NEGATIVE = Range(0)
SMOOTHING = Range(0, 1, under=True)  # with 1 a running mean would stay where it began


def check_fields(config: Any, **ranges: Range) -> None:
    """ValueError, naming the field, for a number outside its range; of a tuple, each number counts, and one has to be
    there."""
    for name, allowed in ranges.items():
        value = getattr(config, name)
        numbers = value if isinstance(value, tuple) else (value,)
        if not numbers or not all(allowed.holds(number) for number in numbers):
            each = "one or more numbers, each " if isinstance(value, tuple) else ""
            raise ValueError(f"{name} is {value!r}; expected {each}{allowed}")


def check_worlds(worlds: tuple[tuple[int, int, int], ...], last: str, least: int) -> None:
    """ValueError unless there are worlds, and each is a digit and an episode or more, and at least so many of
    ``last``."""
    ranges = (COUNT, COUNT, dataclasses.replace(COUNT, low=least))
    good = [all(map(Range.holds, ranges, world)) for world in worlds]
    if not good or not all(good):
        raise ValueError(
            f"worlds is {worlds!r}; expected one or more of (digits, episodes, {last}), digits and episodes 1 or "
            f"more, {last} {least} or more"
        )
