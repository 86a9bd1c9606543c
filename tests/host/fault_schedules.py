"""Random schedules of faults, played by the runner through the SDK against a provider in this process.

Behind the faults is an agent that is always right: a move or two, then the digit. What the runner makes of a schedule
is held against what was sent.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import dataclasses
import functools
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import openai

from mnistpro_jax.demo_server import wire
from mnistpro_jax.demo_server.faults import FAULTS, Fault, Faults
from mnistpro_jax.demo_server.spoilt import before_reply, spoilt
from mnistpro_jax.host import bridge, event_loop, lockstep, runner
from mnistpro_jax.host.contract import Turn
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.memory import MEMORIES
from mnistpro_jax.host.models import openai_chat
from mnistpro_jax.host.models.chat_settings import ChatSettings
from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.run import Drive, Plan, RunOutcome, Session, run
from mnistpro_jax.host.world import HostWorld
from tests.host.helpers import protocol

UNITS = 2
KEY = "sk-of-the-schedules-0123"
FAULTY_SESSIONS = 2

GOOD = frozenset({Fault.NONE, Fault.NO_USAGE, Fault.USAGE_IN_TOTAL, Fault.PARTS, Fault.THINKING})
"""What comes is what the agent says."""
OWN = frozenset({Fault.EMPTY, Fault.TORN, Fault.NUMBER, Fault.TOOL_CALL, Fault.ONLY_REASONING})
"""What comes is the agent's own, and says nothing."""
WITHHELD = frozenset({Fault.MODERATED, Fault.SAFETY, Fault.REFUSED, Fault.OVERLONG, Fault.MAX_TOKENS})
"""A refusal or a cut."""
ANSWERS = GOOD | OWN | WITHHELD

_TURN: contextvars.ContextVar[Turn] = contextvars.ContextVar("turn")


class _Marked(OpenAIChatPolicy):
    """Lets the provider know which turn a request is of, which the messages alone do not say."""

    async def _completion(self, turn: Turn, extra: Mapping[str, Any]) -> Any:
        _TURN.set(turn)
        return await super()._completion(turn, extra)


@dataclasses.dataclass
class Schedule:
    """How a provider behaves, and how it is asked; all of it follows from the seed."""

    seed: int
    memory: str
    driver: str
    retry: str
    retries: int
    attempts: int
    shares: Mapping[Fault, float]
    interrupts: tuple[int, ...]

    @classmethod
    def drawn(cls, seed: int) -> Schedule:
        """A schedule at random."""
        chance = random.Random(seed)
        kinds = chance.sample(list(FAULTS), chance.randint(1, 8))
        # A dripping reply takes its time, also here.
        weights = {kind: chance.random() * (0.1 if kind is Fault.DRIP else 1.0) for kind in kinds}
        total, share = sum(weights.values()), chance.choice((0.2, 0.5, 0.9, 1.0))
        return cls(
            seed,
            chance.choice(list(MEMORIES)),
            chance.choice(("free", "free", "free", "lockstep", "lockstep", "bridge")),
            chance.choice(("repeat", "explain")),
            chance.randint(0, 3),
            chance.randint(1, 3),
            {kind: share * weight / total for kind, weight in weights.items()},
            tuple(chance.randint(1, 12) for _ in range(chance.randint(0, 2))),
        )


class Provider:
    """Answers requests by a schedule, and keeps what it did. violations: requests that should not have come."""

    def __init__(self, world: HostWorld, schedule: Schedule) -> None:
        self.sent: dict[tuple[int, int], list[Fault]] = collections.defaultdict(list)
        self.violations: list[str] = []
        self.tokens = 0
        self.healthy = False
        self.ledger: Ledger | None = None
        self._world = world
        self._schedule = schedule
        self._chance = random.Random(f"{schedule.seed} faults")
        self._interrupts = list(schedule.interrupts)
        self._count = 0
        longest = 1 if schedule.memory == "full-image" else 2
        self._steps = [self._chance.randint(1, longest) for _ in range(UNITS)]

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        turn = _TURN.get()
        at = turn.episode, turn.step
        self._check(turn, self.sent[at])
        fault = self._draw()
        self.sent[at].append(fault)
        self._count += 1
        if self._interrupts and self._count >= self._interrupts[0] and self.ledger is not None:
            self._interrupts.pop(0)
            self.ledger.interrupt()
        faults = Faults(retry_after=0.0, drip=60.0)
        answer = before_reply(fault, faults)
        if answer is None:
            body, answer = spoilt(fault, self._good(turn), faults)
            if fault in ANSWERS:
                self.tokens += body.get("usage", {}).get("prompt_tokens", 0)
        if answer.drip_s:
            await asyncio.sleep(answer.drip_s)
        if answer.body is None:
            raise httpx.RemoteProtocolError("the server closed the connection", request=request)
        headers = {"content-type": "application/json", **answer.headers}
        return httpx.Response(answer.status, content=answer.body, headers=headers)

    def _draw(self) -> Fault:
        below = self._chance.random()
        for fault, share in self._schedule.shares.items():
            if below < share and not self.healthy:
                return fault
            below -= share
        return Fault.NONE

    def _good(self, turn: Turn) -> dict[str, Any]:
        if turn.step + 1 >= self._steps[turn.episode]:
            label = "".join(map(str, self._world.labels(turn.episode)))
            said = {"action": "answer", "value": label}
        else:
            said = {"action": "move", "direction": "up"}
        return wire.completion(1, "m", json.dumps(said), prompt_characters=400, pictures=1)

    def _check(self, turn: Turn, before: list[Fault]) -> None:
        spoken = [fault for fault in before if fault in ANSWERS]
        if any(fault in GOOD for fault in spoken):
            self.violations.append(f"{turn.episode}, {turn.step}: asked again after a good reply, {before}")
        if len(spoken) != turn.attempt - 1 or turn.attempt > self._schedule.attempts:
            self.violations.append(f"{turn.episode}, {turn.step}: attempt {turn.attempt} after {before}")


@contextlib.contextmanager
def _connected_to(provider: Provider) -> Iterator[None]:
    def client(settings: ChatSettings, key: str, headers: Mapping[str, str]) -> openai.AsyncOpenAI:
        transport = httpx.AsyncClient(transport=httpx.MockTransport(provider))
        return openai.AsyncOpenAI(
            api_key=key, base_url=settings.url, max_retries=0, timeout=None, http_client=transport
        )

    # The heap is put in order before every session, which takes longer than a session of these.
    quick = mock.patch.object(event_loop, "settled_heap", contextlib.nullcontext)
    with mock.patch.object(openai_chat, "client", client), quick:
        yield


def _drive(schedule: Schedule, sittings: GlimpseSittings, provider: Provider) -> Drive:
    settings = ChatSettings("openai-compatible", "m", "http://127.0.0.1:1/v1", timeout=0.02)
    policy = _Marked(settings)
    if schedule.driver == "bridge":
        play: Any = functools.partial(bridge.play, sittings, policy)
    else:
        how = runner.play if schedule.driver == "free" else lockstep.play
        play = functools.partial(event_loop.drive, how, sittings, policy)

    def drive(numbers: Any, *, ledger: Ledger, **options: Any) -> object:
        provider.ledger = ledger
        ledger.retries = dataclasses.replace(ledger.retries, first_s=0.0)
        return play(numbers, ledger=ledger, **options)

    return drive


def play_schedule(world: HostWorld, schedule: Schedule, folder: Path) -> tuple[Provider, RunOutcome]:
    """Play it, session after session, until all is over; from some session on the provider is in health."""
    provider = Provider(world, schedule)
    talk = protocol(world, schedule.memory, attempts=schedule.attempts, retry=schedule.retry)
    sittings = GlimpseSittings(world, talk)
    session = Session(folder, concurrency=UNITS, retries=Retries(most=schedule.retries), keep_going=True)
    with _connected_to(provider):
        for number in range(FAULTY_SESSIONS + 3):
            provider.healthy = number >= FAULTY_SESSIONS
            plan = Plan(
                units=UNITS, drive=_drive(schedule, sittings, provider), config={}, summary=lambda records: {}
            )
            outcome = run(plan, session)
            if outcome.complete:
                break
    return provider, outcome
