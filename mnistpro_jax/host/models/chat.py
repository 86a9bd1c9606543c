"""Agents that answer in text: whatever makes the text, a reader makes the decision."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mnistpro_jax.host.contract import Decision, Failure, HostPolicy, Reader, Status, Turn, Usage
from mnistpro_jax.host.parser import read_glimpse


@dataclass(frozen=True)
class Reply:
    """A reply as text. status: OK, or REFUSED, TRUNCATED or API_ERROR, where there is nothing to parse.

    problem: why there is nothing to parse; with OK, what is odd about the reply, in case that its text says nothing.
    failure: see ``Decision``.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    status: Status = Status.OK
    problem: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    failure: Failure | None = None


class TextPolicy(HostPolicy):
    """An agent that answers in text. Subclasses write ``reply``. reader: what a text says, by what was asked."""

    def __init__(self, reader: Reader = read_glimpse) -> None:
        self._read = reader

    async def reply(self, turn: Turn) -> Reply:
        """The reply to a turn."""
        raise NotImplementedError

    async def act(self, turn: Turn) -> Decision:
        """The decision that the reply's text says."""
        began = time.perf_counter()
        reply = await self.reply(turn)
        facts: dict[str, Any] = {
            "text": reply.text,
            "usage": reply.usage,
            "latency_s": time.perf_counter() - began,
            "details": reply.details,
        }
        if reply.status != Status.OK:
            return Decision(reply.status, problem=reply.problem, failure=reply.failure, **facts)
        decision = self._read(reply.text, turn)
        if decision.status == Status.UNPARSEABLE and reply.problem is not None:
            facts["problem"] = reply.problem
        return dataclasses.replace(decision, **facts)
