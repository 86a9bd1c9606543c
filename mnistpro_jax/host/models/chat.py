"""Agents that answer in text: whatever makes the text, the protocol's parser makes the decision."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mnistpro_jax.host.contract import Decision, HostPolicy, Status, Turn, Usage
from mnistpro_jax.host.parser import parse_reply


@dataclass(frozen=True)
class Reply:
    """A reply as text. status: OK, or REFUSED, TRUNCATED or API_ERROR, where there is nothing to parse."""

    text: str
    usage: Usage = field(default_factory=Usage)
    status: Status = Status.OK
    problem: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class TextPolicy(HostPolicy):
    """An agent that answers in text. Subclasses write ``reply``.

    num_classes: digits are 0 .. num_classes - 1. moves_allowed: False in the full-image control.
    """

    def __init__(self, num_classes: int = 10, moves_allowed: bool = True) -> None:
        self._num_classes = num_classes
        self._moves_allowed = moves_allowed

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
            return Decision(reply.status, problem=reply.problem, **facts)
        parsed = parse_reply(
            reply.text, turn.digits, num_classes=self._num_classes, moves_allowed=self._moves_allowed
        )
        if parsed.action is None:
            return Decision(Status.UNPARSEABLE, problem=parsed.problem, **facts)
        return Decision(
            Status.OK, parsed.action, parsed.answer, thought=parsed.thought, place=parsed.place, **facts
        )
