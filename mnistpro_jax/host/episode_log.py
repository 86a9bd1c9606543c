"""The log of an episode: turns and replies as events, and what a later session finds in the place of calls.

Events: start, turn (one reply), error (a call that failed), end; call, what happens between steps (``journal``); and
again, where the episode begins anew, on purpose (what stands before it is kept, and was paid for). "Episode" is what a
run calls each of its units, whatever kind of sitting it is; what a kind says of itself stands among the fixed fields of
start and turn.

To resume, the episode is played anew with the logged replies in the place of calls: what was paid for is not asked
again. Each logged turn names what was shown; where the episode that is played anew shows something else, the run stops
instead of mixing two worlds.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mnistpro_jax.host.contract import Decision, Status, Turn, Usage, sendable
from mnistpro_jax.host.messages import messages_digest
from mnistpro_jax.runs.log import END, Event, EventLog, LogError, read_events
from mnistpro_jax.runs.picture_store import PictureStore
from mnistpro_jax.runs.run_folder import RunFolder, log_path

AGAIN = "again"
CALL = "call"


@dataclasses.dataclass(frozen=True)
class Terms:
    """What an episode is played under. digest: of the configuration. known: of all those that the run's folder knows.

    changed: the fields that are others than the run's, with their values; none unless it is played again.
    """

    digest: str
    known: frozenset[str]
    changed: Mapping[str, Any] = dataclasses.field(default_factory=dict)


class EpisodeLog(EventLog):
    """The log of one episode, for the process that holds the folder; in memory alone where ``path`` is None.

    terms: what it is played under, None where that does not matter. changed: with what it was played last; see
    ``Terms``. Raises LogError where it was played under a configuration that the folder does not know, or was begun
    again and is unfinished under another one than this.
    """

    def __init__(
        self,
        episode: int,
        path: Path | None = None,
        pictures: PictureStore | None = None,
        terms: Terms | None = None,
    ) -> None:
        super().__init__(path, check_event)
        self.episode = episode
        self.changed: Mapping[str, Any] = {}
        self._pictures = pictures if pictures is not None else PictureStore()
        self._terms = terms
        self._turns: dict[tuple[int, int], Event] = {}
        self._calls: list[Event] = []
        under = None
        for event in self.events:
            if event["event"] == "turn":
                self._turns[event["step"], event["attempt"]] = event
            elif event["event"] == CALL:
                self._calls.append(event)
            elif event["event"] in ("start", AGAIN):
                under = event.get("config", under)
                self._refuse_unknown(under)
            if event["event"] == AGAIN:
                self._turns, self._calls, self.changed = {}, [], event["changed"]
        if terms is not None and self.begun_again and under != terms.digest and self.end is None:
            with_ = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.changed.items())
            raise LogError(
                f"episode {episode} is not over, and is being played with {with_ or 'the settings of the run'}; give "
                "the same settings (and --again, where they are not the run's) to go on with it"
            )

    @property
    def furthest(self) -> int:
        """The last step at which anybody has answered; -1 without any."""
        return max((event["step"] for event in self.events if _is_paid(event)), default=-1)

    @property
    def begun_again(self) -> bool:
        """Whether the episode had been over before it was begun last."""
        return any(event["event"] == AGAIN for event in self.events)

    def _refuse_unknown(self, digest: str | None) -> None:
        if self._terms is not None and digest is not None and digest not in self._terms.known:
            raise LogError(
                f"{self.path} was played under another configuration than run.json tells (was it edited?); restore "
                "run.json, or use another folder"
            )

    @property
    def begun(self) -> bool:
        """Whether the episode has been begun."""
        return bool(self.events)

    @property
    def calls(self) -> list[Event]:
        """What happened between steps, in order, since the episode was begun last; see ``journal``."""
        return list(self._calls)

    def replies(self) -> Iterator[Decision]:
        """The replies so far, in order, since the episode was begun last."""
        return (decision_of(event) for event in (*self._turns.values(), *self._calls) if _is_paid(event))

    def all_replies(self) -> Iterator[Decision]:
        """All replies that were paid for, in order."""
        return (decision_of(event) for event in self.events if _is_paid(event))

    def failures(self) -> Iterator[Decision]:
        """The calls that failed, in order, with what they took."""
        return (failure_of(event) for event in self.events if event["event"] == "error")

    def logged(self, turn: Turn) -> Decision | None:
        """The reply to this attempt of an earlier session, if there is one.

        Raises LogError where that session had been shown something else.
        """
        event = self._turns.get((turn.step, turn.attempt))
        if event is None:
            return None
        if event["observation"] != turn.digest:
            raise LogError(
                f"{self.path}: at step {turn.step} the log saw {event['observation']}, but the episode played anew "
                f"shows {turn.digest}; the log belongs to other images or another version: use another folder"
            )
        return decision_of(event)

    def start(self, own: Mapping[str, Any]) -> None:
        """The first event. own: what this kind of sitting says of itself."""
        under = {} if self._terms is None else {"config": self._terms.digest}
        self.append({"event": "start", "episode": self.episode, **under, **own})

    def again(self) -> None:
        """The episode begins anew, under these terms."""
        assert self._terms is not None
        self.append({"event": AGAIN, "config": self._terms.digest, "changed": dict(self._terms.changed)})
        self._turns, self._calls, self.changed = {}, [], self._terms.changed

    def keep_pictures(self, turn: Turn) -> list[str]:
        """Store the new pictures of a turn; returns their names."""
        return self._pictures.keep(turn.pictures)

    def turn(self, turn: Turn, decision: Decision, own: Mapping[str, Any], shown: list[str]) -> None:
        """A reply. own: what this kind of sitting says of the turn. shown: names of the turn's new pictures."""
        event = {
            "event": "turn",
            "step": turn.step,
            "attempt": turn.attempt,
            **own,
            "observation": turn.digest,
            "pictures": shown,
            "messages": messages_digest(turn.messages),
            **_reply_fields(decision),
        }
        self.append(event)
        self._turns[turn.step, turn.attempt] = event

    def call(self, turn: Turn, own: Mapping[str, Any], decision: Decision | None = None) -> Event:
        """Something between two steps. decision: a reply that was paid for."""
        reply = {} if decision is None else _reply_fields(decision)
        event = {"event": CALL, "step": turn.step, **own, **reply}
        self.append(event)
        self._calls.append(event)
        return event

    def error(self, turn: Turn, decision: Decision) -> None:
        """A call that failed: there is no reply."""
        self.append(
            {
                "event": "error",
                "step": turn.step,
                "attempt": turn.attempt,
                "status": decision.status.value,
                "problem": decision.problem,
                "latency_s": round(decision.latency_s, 6),
                **_taken(decision),
            }
        )

    def finish(self, status: Status, record: Mapping[str, Any]) -> None:
        """The last event: the episode is over, and this is its result."""
        self.append({"event": END, "status": status.value, "record": record})


class EpisodeFolder(RunFolder):
    """The folder of a run of episodes."""

    def episode(self, number: int) -> EpisodeLog:
        """The log of an episode. Raises LogError as ``EpisodeLog`` does."""
        terms = Terms(self.digest, self.digests, self.changed)
        return EpisodeLog(number, log_path(self.path, number), self.pictures, terms)


def read_log(path: Path) -> list[Event]:
    """The events of an episode's log, for reading alone. Raises LogError as ``runs.log.read_events`` does."""
    return read_events(path, check_event)


def check_event(event: Event) -> None:
    """Raise ValueError, KeyError or TypeError for an event that cannot be resumed from; unknown kinds are let pass."""
    kind = event["event"]
    if kind == "turn":
        decision_of(event)
        _ = event["step"], event["attempt"], event["observation"]
    elif kind == END:
        Status(event["status"])
        _ = {**event["record"]}
    elif kind == "error":
        failure_of(event)
    elif kind == CALL:
        _ = event["step"], event["kind"]
        if "status" in event:
            decision_of(event)
    elif kind == AGAIN:
        _ = {**event["changed"]}


def _reply_fields(decision: Decision) -> dict[str, Any]:
    fields = {
        "status": decision.status.value,
        "action": decision.action,
        "answer": None if decision.answer is None else "".join(map(str, decision.answer)),
        "text": decision.text,
        "thought": decision.thought,
        "spatial_map": None if decision.place is None else dict(decision.place),
        "problem": decision.problem,
        "usage": _usage_fields(decision.usage),
        "latency_s": round(decision.latency_s, 6),
    }
    if decision.final:
        fields["final"] = True
    if not decision.asked:
        fields["asked"] = False
    if decision.details:
        fields["details"] = dict(decision.details)
    return fields


def _is_paid(event: Event) -> bool:
    """Whether an event holds a reply that was asked for."""
    if event["event"] == CALL:
        return "status" in event
    return event["event"] == "turn" and event.get("asked", True) is not False


def _usage_fields(usage: Usage) -> dict[str, Any]:
    fields = dataclasses.asdict(usage)
    if usage.told:
        del fields["told"]
    return fields


def _taken(failure: Decision) -> dict[str, Any]:
    """What a call took that failed within its reply, if anything."""
    usage = dataclasses.replace(failure.usage, told=True)
    fields: dict[str, Any] = {} if usage == Usage() else {"usage": _usage_fields(usage)}
    return fields | ({"details": dict(failure.details)} if failure.details else {})


def failure_of(event: Mapping[str, Any]) -> Decision:
    """The call of an ``error`` event."""
    return Decision(
        Status.API_ERROR,
        problem=event.get("problem"),
        usage=Usage(**event.get("usage", {})),
        details=event.get("details", {}),
    )


def decision_of(event: Mapping[str, Any]) -> Decision:
    """The reply of a ``turn`` event."""
    answer = event["answer"]
    return Decision(
        status=Status(event["status"]),
        action=event["action"],
        answer=None if answer is None else tuple(int(digit) for digit in answer),
        text=event["text"],
        thought=None if event["thought"] is None else sendable(event["thought"]),
        place=_place_of(event["spatial_map"]),
        problem=event["problem"],
        usage=Usage(**event["usage"]),
        latency_s=event["latency_s"],
        details=event.get("details", {}),
        final=event.get("final", False),
        asked=event.get("asked", True),
    )


def _place_of(place: Any) -> Mapping[str, Any] | None:
    return None if place is None else {**place, "features": sendable(place["features"])}
