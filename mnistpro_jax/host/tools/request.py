"""What a run with tools is asked to be, beside what every run is."""

from __future__ import annotations

import dataclasses
from typing import Any

from mnistpro_jax.host.tools.desk import Limits
from mnistpro_jax.host.tools.notes import LIMIT

ARMS = ("A0", "A1", "A2")
"""A0: nothing is carried. A1: notes. A2: notes, and after an answer whether it was right."""
PICTURES_IN = ("user", "tool")


@dataclasses.dataclass(frozen=True)
class ToolRequest:
    """arm: what is carried from episode to episode, one of ``ARMS``. notes_limit: bytes. order_seed: of the order of
    the episodes, the same for every arm. counter: whether results say how many moves are left. pictures_in: the
    messages that hold pictures, "user", or "tool" for servers that take them there.

    Raises ValueError for a value that does not exist.
    """

    arm: str = "A0"
    notes_limit: int = LIMIT
    order_seed: int = 0
    counter: bool = True
    pictures_in: str = "user"

    def __post_init__(self) -> None:
        if self.arm not in ARMS:
            raise ValueError(f"arm is {self.arm!r}; expected one of {', '.join(ARMS)}")
        if self.pictures_in not in PICTURES_IN:
            raise ValueError(f"pictures in is {self.pictures_in!r}; expected one of {', '.join(PICTURES_IN)}")

    @property
    def has_notes(self) -> bool:
        """Whether notes are carried, so that one episode is played after the other."""
        return self.arm != "A0"

    def config(self, budget: int) -> dict[str, Any]:
        """As the configuration of a run keeps it, JSON-ready."""
        return {
            "harness": "tools",
            "arm": self.arm,
            "order_seed": self.order_seed,
            "notes_limit": self.notes_limit if self.has_notes else None,
            "counter": self.counter,
            "pictures_in": self.pictures_in,
            "first_picture": "attached",
            "limits": dataclasses.asdict(Limits.of(budget)),
            "isolation": "model-only",
        }
