"""The contract of an agent outside JAX: it gets a ``Turn`` and returns a ``Decision`` with an explicit ``Status``."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

MOVES = ("up", "down", "left", "right")
"""The moves, in the order of ``types.Kind``."""
ANSWER = "answer"
REPLY = "reply"
"""The action where a whole text is the answer, to be read later."""

Message = dict[str, Any]
"""One chat message in the format of OpenAI's chat completions: ``role`` and ``content`` (text, or a list of parts)."""


class Status(enum.StrEnum):
    """How an attempt, a turn or an episode came out; never hidden in an action or an answer.

    Only OK and UNPARSEABLE say something about the agent and count in its accuracy. The others are faults of what
    lies between, are reported apart, and are never scored as wrong.
    """

    OK = "ok"
    UNPARSEABLE = "unparseable"
    """No attempt gave an action that the protocol knows: the episode ends as an invalid action, as published."""
    REFUSED = "refused"
    """The provider or the model declined, and said so in the field that is made for it."""
    TRUNCATED = "truncated"
    """The reply was cut off at the limit of tokens, so that it says nothing about what the agent would have done."""
    API_ERROR = "api_error"
    """The call failed, after all retries of an episode's. It is unfinished: the same command goes on with it."""
    BUDGET_SPENT = "budget_spent"
    """The run's limit of cost was reached. Unfinished, as above."""
    CANCELLED = "cancelled"
    """Interrupted. Unfinished, as above."""


def sendable(text: str) -> str:
    """Text without halves of surrogate pairs, which JSON can hold and no later request could send; "?" instead."""
    return text.encode("utf-8", "replace").decode("utf-8")


COUNTED = frozenset({Status.OK, Status.UNPARSEABLE})
"""Statuses of episodes that count in accuracy."""
UNFINISHED = frozenset({Status.API_ERROR, Status.BUDGET_SPENT, Status.CANCELLED})
"""Statuses of episodes that the same command continues where they stopped."""


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a reply consumed, in tokens as the provider counts them.

    input_tokens: all of the request, cached ones included. cached_tokens: those of them that the provider had kept.
    output_tokens: all of the reply, reasoning included. reasoning_tokens: those of them that were not shown.
    told: whether the provider said so; False where the numbers are, or a sum holds, an estimate.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    told: bool = True

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.told and other.told,
        )


@dataclasses.dataclass(frozen=True)
class Failure:
    """What a call that failed says of the calls to come.

    passing: the same call may succeed a little later. after_s: seconds that the server asks to wait until then, None
    where it does not say. general: it looks as if it would meet every call; where one has been answered before, it is
    this call's own affair.
    """

    passing: bool = False
    after_s: float | None = None
    general: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Turn:
    """What an agent may see when it has to act.

    episode: number in the run. step: actions taken so far. budget: actions of the episode, the answer included; 1 where
    a turn is all. attempt: 1 for the first try at this turn. messages: the request in the protocol's words, pictures as
    data URLs. pictures: the pictures that are new on this turn, as PNG files, the current glimpse last. digits: how
    many an answer has, 0 where an answer is no digits. observation: an ``Observation`` in the mode that the policy asks
    for; None for one that asks for none, as all models behind an API do. digest: of what is shown, to recognise the
    turn in a log.
    """

    episode: int
    step: int
    budget: int
    attempt: int
    digits: int
    messages: tuple[Message, ...]
    pictures: tuple[bytes, ...]
    digest: str
    observation: Any = None


@dataclasses.dataclass(frozen=True)
class Decision:
    """What an agent made of a turn.

    status: see ``Status``. action: "up", "down", "left", "right", "answer" or "reply"; None unless the status is OK.
    answer: the digits from left to right, with the action "answer" alone. text: the reply as it came, which with the
    action "reply" is the answer. thought, place: what the memory keeps of it (``place``: {"coords": [x, y], "features":
    text}). problem: what was wrong, for people. usage: tokens. latency_s: seconds from request to reply. attempts:
    replies that this turn took. details: anything else worth keeping in the log (JSON). failure: with the status
    API_ERROR, what it says of other calls; None: nothing. final: with UNPARSEABLE, no further attempt is made. asked:
    whether a reply was paid for; False for a player that keeps a journal, which has the replies.
    """

    status: Status
    action: str | None = None
    answer: tuple[int, ...] | None = None
    text: str = ""
    thought: str | None = None
    place: Mapping[str, Any] | None = None
    problem: str | None = None
    usage: Usage = Usage()
    latency_s: float = 0.0
    attempts: int = 1
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    failure: Failure | None = None
    final: bool = False
    asked: bool = True

    def __post_init__(self) -> None:
        acts = self.action in (*MOVES, ANSWER, REPLY)
        if (self.status == Status.OK) != acts or (self.action == ANSWER) != (self.answer is not None):
            raise ValueError(
                f"a decision with status {self.status}, action {self.action!r} and answer {self.answer}; expected an "
                f"action ({', '.join(MOVES)}, {ANSWER}, {REPLY}) exactly where the status is ok, and digits with an "
                "answer alone"
            )


Reader = Callable[[str, Turn], Decision]
"""What a reply's text says: a decision that is OK or UNPARSEABLE, without the facts of the call."""


class StopRun(Exception):  # noqa: N818 - it is no error of the program
    """Raised by a policy where no further call can succeed (a wrong key, an unknown model, an empty account).

    The run stops; everything logged so far stays, and the same command goes on once the cause is gone.
    """


class Journal(Protocol):
    """Where a player that asks by itself writes down what happens between steps: ``journal.EpisodeJournal``."""

    replies: int

    async def reply(self, turn: Turn, ask: Callable[[], Awaitable[Decision]]) -> Decision:
        """A reply that is paid for: read where it was logged, else asked for."""

    def note(self, turn: Turn, kind: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Something that cost nothing: read where it was logged, else made and logged."""


class HostPolicy:
    """An agent outside JAX. Subclasses write ``act``; it may be called for many episodes at a time."""

    observation: str | None = None
    """The observation mode that ``Turn.observation`` shall have, or None for an agent that lives on the messages."""

    journals: bool = False
    """Whether it asks by its journal, as often as it likes, so that ``act`` is no call by itself."""

    def begin(self, episode: int, journal: Journal) -> None:
        """Called before the first turn. journal: of the episode, for a player that ``journals``."""

    async def act(self, turn: Turn) -> Decision:
        """One attempt at a turn. Returns a status instead of raising, except ``StopRun``."""
        raise NotImplementedError

    async def debrief(self, turn: Turn, correct: bool | None) -> Decision | None:
        """Called after the last turn of an episode that is over, before its result is written.

        correct: whether it was answered right, None where it was not graded. Returns a decision with a status of
        ``UNFINISHED`` where it could not be finished: the same is done again when the episode is gone on with.
        """
        return None

    def record(self, episode: int) -> dict[str, Any]:
        """Own fields of the episode's result; JSON-ready."""
        return {}

    def remember(self, turn: Turn, decision: Decision) -> None:
        """Called on resuming, in order, for every turn that was decided in an earlier session."""

    def forget(self, episode: int) -> None:
        """Called when an episode is over: whatever was kept for it may go."""

    async def close(self) -> None:
        """Release connections; called from the loop that ``act`` ran in."""
