"""What a run consists of: sittings, one for each unit that is played to an end and gets a result.

A glimpse episode, a session with tools, a question of an exam and a person at a page are kinds of sittings. The engine
(``attempts``) knows what they share: turns with attempts, a log that can be resumed from, limits, statuses and a
record. What is shown, which decisions make sense, and what comes of them is the sitting's own affair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from mnistpro_jax.host.contract import Decision, Status, Turn
from mnistpro_jax.runs.log import Event


class Asking(Protocol):
    """What the attempts of a turn need to know, and nothing about what follows from them.

    A driver that steps many environments at a time needs no more; one that is driven by itself is a ``Sitting``.
    """

    @property
    def number(self) -> int:
        """Of the unit in its run."""

    @property
    def attempts(self) -> int:
        """Replies that a turn may take until one says what to do, 1 or more."""

    def opening(self) -> Event:
        """Own fields of the log's first line."""

    def turn(self, failed: Sequence[Decision]) -> Turn:
        """What is asked now, and the same as often as it is asked.

        failed: the attempts at this turn that said nothing, so that this is attempt ``len(failed) + 1``.
        """

    def allows(self, decision: Decision) -> str | None:
        """What is wrong with a decision that no player of this world may make, to follow "the agent"; None: nothing.

        Such a decision is a fault of the player's program, not of its play, and stops the run.
        """

    def line(self, decision: Decision) -> Event:
        """Own fields of the turn's line in the log."""


class Sitting(Asking, Protocol):
    """One unit of a run, from its beginning."""

    def take(self, decision: Decision) -> bool:
        """Do what was decided: status OK, or UNPARSEABLE, which ends every sitting. True: it is over."""

    def record(self, status: Status) -> dict[str, Any]:
        """Own fields of the result; a status that does not count is scored by none of them."""


class Sittings(Protocol):
    """All units of a run, numbered from 0."""

    def __len__(self) -> int: ...

    def sit(self, number: int) -> Sitting:
        """A unit, from its beginning."""

    def warm_up(self) -> None:
        """Do what else the first call would wait for."""
