"""The log of an episode: turns and replies as events, and what a later session finds in the place of calls.

Events: start, turn (one reply), error (a call that failed), end. "Episode" is what a run calls each of its units,
whatever kind of sitting it is; what a kind says of itself stands among the fixed fields of start and turn.

To resume, the episode is played anew with the logged replies in the place of calls: what was paid for is not asked
again. Each logged turn names what was shown; where the episode that is played anew shows something else, the run stops
instead of mixing two worlds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mnistpro_jax.host.contract import Decision, Status, Turn, Usage, sendable
from mnistpro_jax.host.messages import messages_digest
from mnistpro_jax.runs.log import END, Event, EventLog, LogError, read_events
from mnistpro_jax.runs.picture_store import PictureStore
from mnistpro_jax.runs.run_folder import RunFolder, log_path


class EpisodeLog(EventLog):
    """The log of one episode, for the process that holds the folder; in memory alone where ``path`` is None."""

    def __init__(self, episode: int, path: Path | None = None, pictures: PictureStore | None = None) -> None:
        super().__init__(path, check_event)
        self.episode = episode
        self._pictures = pictures if pictures is not None else PictureStore()
        self._turns: dict[tuple[int, int], Event] = {
            (event["step"], event["attempt"]): event for event in self.events if event["event"] == "turn"
        }

    def replies(self) -> Iterator[Decision]:
        """The replies so far, in order."""
        return map(decision_of, self._turns.values())

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
        self.append({"event": "start", "episode": self.episode, **own})

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
            }
        )

    def finish(self, status: Status, record: Mapping[str, Any]) -> None:
        """The last event: the episode is over, and this is its result."""
        self.append({"event": END, "status": status.value, "record": record})


class EpisodeFolder(RunFolder):
    """The folder of a run of episodes."""

    def episode(self, number: int) -> EpisodeLog:
        """The log of an episode."""
        return EpisodeLog(number, log_path(self.path, number), self.pictures)


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


def _reply_fields(decision: Decision) -> dict[str, Any]:
    usage = decision.usage
    fields = {
        "status": decision.status.value,
        "action": decision.action,
        "answer": None if decision.answer is None else "".join(map(str, decision.answer)),
        "text": decision.text,
        "thought": decision.thought,
        "spatial_map": None if decision.place is None else dict(decision.place),
        "problem": decision.problem,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_tokens": usage.cached_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        },
        "latency_s": round(decision.latency_s, 6),
    }
    if decision.details:
        fields["details"] = dict(decision.details)
    return fields


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
    )


def _place_of(place: Any) -> Mapping[str, Any] | None:
    return None if place is None else {**place, "features": sendable(place["features"])}
