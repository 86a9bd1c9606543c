"""What happens in an episode between its steps, for players that act by more than one reply a step.

A player with tools looks again, writes notes, makes calls that are refused, and is asked several times until it moves.
Each paid reply is an event of the log before anything is done with it. A later session reads the events again, in their
order, in the place of calls: the player does the same once more, up to where it was.
"""

from __future__ import annotations

import collections
from collections.abc import Awaitable, Callable
from typing import Any

from mnistpro_jax.host.calls import made
from mnistpro_jax.host.contract import UNFINISHED, Decision, Status, Turn, Usage
from mnistpro_jax.host.episode_log import EpisodeLog, decision_of
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.runs.log import Event, LogError

REPLY = "reply"
"""The kind of an event that was paid for."""


class EpisodeJournal:
    """The journal of one episode. replies, faults, usage, latency_s: of its replies so far, read or asked."""

    def __init__(self, log: EpisodeLog, ledger: Ledger) -> None:
        self.replies = 0
        self.failed = 0
        self.usage = Usage()
        self.latency_s = 0.0
        self._log = log
        self._ledger = ledger
        self._ahead: collections.deque[Event] = collections.deque(log.calls)

    async def reply(self, turn: Turn, ask: Callable[[], Awaitable[Decision]]) -> Decision:
        """A reply: the logged one where there is one, else what ``ask`` comes to, with its retries.

        turn: with the messages that are sent. The decision's action is the player's own affair: ``ask`` returns one
        with REPLY for what came, or REFUSED, TRUNCATED, API_ERROR. Raises as ``calls.made`` does.
        """
        event = self._read(turn, REPLY)
        if event is not None:
            decision = decision_of(event)
        else:
            decision = await made(turn, ask, self._ledger, self._log)
            if decision.status in UNFINISHED:
                return decision
            self._log.call(turn, {"kind": REPLY}, decision)
        self.replies += 1
        self.failed += decision.status != Status.OK
        self.usage += decision.usage
        self.latency_s += decision.latency_s
        return decision

    def note(self, turn: Turn, kind: str, make: Callable[[], dict[str, Any]]) -> Event:
        """Something that cost nothing. make: its facts (JSON), asked for where it happens and not where it is read."""
        event = self._read(turn, kind)
        if event is not None:
            return event
        return self._log.call(turn, {"kind": kind, **make()})

    def _read(self, turn: Turn, kind: str) -> Event | None:
        if not self._ahead:
            return None
        event = self._ahead.popleft()
        if (event["step"], event["kind"]) != (turn.step, kind):
            raise LogError(
                f"{self._log.path}: the log has {event['kind']!r} at step {event['step']}, but the episode played anew "
                f"comes to {kind!r} at step {turn.step}; it belongs to another version: use another folder"
            )
        return event
