"""A kind of sitting without environment, window or digits: questions that are answered in words, two to a sitting.

For the tests of the engine alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.host import event_loop, runner
from mnistpro_jax.host.contract import REPLY, Decision, HostPolicy, Status, Turn
from mnistpro_jax.host.messages import messages_digest
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.prices import Price
from mnistpro_jax.host.run import Plan, Record, RunOutcome, Session, run
from mnistpro_jax.runs.log import Event

QUESTIONS = ("What is the capital of {}?", "And its largest river?")
COUNTRIES = ("France", "Egypt", "Peru", "Japan")


def verbatim(text: str, turn: Turn) -> Decision:
    """A ``Reader`` that takes any words; silence says nothing."""
    return Decision(Status.OK, REPLY) if text.strip() else Decision(Status.UNPARSEABLE, problem="silence")


class Interview:
    """Both questions about a country. A ``Sitting``."""

    def __init__(self, number: int, country: str, attempts: int) -> None:
        self.number = number
        self.attempts = attempts
        self._country = country
        self._said: list[str] = []

    def opening(self) -> Event:
        return {"country": self._country}

    def turn(self, failed: Sequence[Decision]) -> Turn:
        asked = QUESTIONS[len(self._said)].format(self._country)
        told = "".join(f"\nNot {decision.text!r}." for decision in failed)
        messages = tuple({"role": "user", "content": text} for text in (*self._said, asked + told))
        return Turn(
            episode=self.number,
            step=len(self._said),
            budget=len(QUESTIONS),
            attempt=len(failed) + 1,
            digits=0,
            messages=messages,
            pictures=(asked.encode(),),
            digest=messages_digest(messages[-1:]),
            observation="the answers in the teacher's book",
        )

    def allows(self, decision: Decision) -> str | None:
        if decision.action not in (None, REPLY):
            return f"wants to go {decision.action}; expected words"
        return None

    def line(self, decision: Decision) -> Event:
        return {"question": len(self._said) + 1}

    def take(self, decision: Decision) -> bool:
        self._said.append(decision.text)
        return len(self._said) == len(QUESTIONS)

    def record(self, status: Status) -> dict[str, Any]:
        return {"episode": self.number, "country": self._country, "said": list(self._said)}


@dataclasses.dataclass(frozen=True)
class Interviews:
    """A ``Sittings``: one of each country."""

    attempts: int = 3

    def __len__(self) -> int:
        return len(COUNTRIES)

    def sit(self, number: int) -> Interview:
        return Interview(number, COUNTRIES[number], self.attempts)

    def warm_up(self) -> None:
        pass


class Speaking(TextPolicy):
    """Says what a function of the turn says, and counts."""

    def __init__(self, say: Callable[[Turn], Reply], latency: float = 0.0) -> None:
        super().__init__(verbatim)
        self.say = say
        self.latency = latency
        self.turns: list[Turn] = []

    async def reply(self, turn: Turn) -> Reply:
        self.turns.append(turn)
        reply = self.say(turn)
        await asyncio.sleep(self.latency)
        return reply


def interview(
    folder: Path,
    policy: HostPolicy,
    *,
    attempts: int = 3,
    price: Price | None = None,
    notes: list[str] | None = None,
    **session: Any,
) -> RunOutcome:
    """A whole run of interviews into a folder."""

    def summary(records: Sequence[Record]) -> dict[str, Any]:
        return {"words": sum(len(" ".join(record["said"]).split()) for record in records)}

    sittings = Interviews(attempts)
    plan = Plan(
        units=len(sittings),
        drive=lambda numbers, **options: event_loop.drive(runner.play, sittings, policy, numbers, **options),
        config={"kind": "interviews", "attempts": attempts},
        summary=summary,
        price=price,
    )
    return run(plan, Session(folder, **session), note=None if notes is None else notes.append)
