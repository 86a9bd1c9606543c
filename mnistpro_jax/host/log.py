"""The folder of a run: an append-only log for each episode, and pictures named by their content.

    DIR/run.json            what the run is; another configuration is refused, with the field named
    DIR/log/0007.jsonl      one line an event: start, turn (one reply), error, end
    DIR/pictures/SHA.png    every picture that was shown, once
    DIR/episodes.jsonl, DIR/summary.json    as of ``mnistpro evaluate``, from the logs
    DIR/.lock               held by the process that is running

An event is written when its reply is there and before anything is done with it. After a crash the log is read again,
a line that was torn by it is cut off, and the driver plays the episode anew with the logged replies in the place of
calls: what was paid for is not asked again. Each logged turn names what the environment showed; where the episode
that is played anew shows something else, the run stops instead of mixing two worlds.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from mnistpro_jax.host import pictures
from mnistpro_jax.host.contract import Decision, Status, Turn, Usage, sendable
from mnistpro_jax.host.protocol import messages_digest
from mnistpro_jax.runs.json_files import write_json

RUN = "run.json"
LOG = "log"
PICTURES = "pictures"
_LOCK = ".lock"

Event = dict[str, Any]


class LogError(ValueError):
    """A folder or a log that cannot be used as it is; the message says what to do."""


class EpisodeLog:
    """The log of one episode, for the process that holds the folder; in memory alone where ``path`` is None."""

    def __init__(self, episode: int, path: Path | None = None, pictures_folder: Path | None = None) -> None:
        self.episode = episode
        self.path = path
        self._pictures = pictures_folder
        self._kept: set[str] = set()
        self._file: IO[bytes] | None = None
        self.events: list[Event] = [] if path is None else read_events(path, mend=True)
        self._turns: dict[tuple[int, int], Event] = {
            (event["step"], event["attempt"]): event for event in self.events if event["event"] == "turn"
        }

    @property
    def end(self) -> Event | None:
        """The event that ended the episode, or None while it is unfinished."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last["event"] == "end" else None

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

    def keep_pictures(self, turn: Turn) -> list[str]:
        """Store the pictures of a turn; returns their names."""
        names = [pictures.name_of(picture) for picture in turn.pictures]
        if self._pictures is not None:
            for name, picture in zip(names, turn.pictures, strict=True):
                target = self._pictures / f"{name}.png"
                if name not in self._kept and not target.exists():
                    unfinished = target.with_name(f".{name}.{self.episode}.part")
                    try:
                        unfinished.write_bytes(picture)
                        unfinished.replace(target)
                    except OSError:
                        with contextlib.suppress(OSError):
                            unfinished.unlink()
                        raise
                self._kept.add(name)
        return names

    def turn(self, turn: Turn, decision: Decision, xy: tuple[int, int], shown: list[str]) -> None:
        """A reply. xy: the window's corner. shown: names of the turn's new pictures."""
        event = {
            "event": "turn",
            "step": turn.step,
            "attempt": turn.attempt,
            "window": list(xy),
            "observation": turn.digest,
            "pictures": shown,
            "messages": messages_digest(turn.messages),
            **_reply_fields(decision),
        }
        self.append(event)
        self._turns[turn.step, turn.attempt] = event

    def append(self, event: Event) -> None:
        """Write an event as one line. Raises OSError where that fails; the file then ends as before."""
        event = {**event, "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")}
        if self.path is not None:
            if self._file is None:
                self._file = self.path.open("ab", buffering=0)
            line = json.dumps(event, ensure_ascii=True, allow_nan=False).encode() + b"\n"
            size = self._file.tell()
            try:
                written = self._file.write(line)
                if written != len(line):
                    raise OSError(28, os.strerror(28), str(self.path))
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._file.fileno(), size)
                raise OSError(error.errno, error.strerror, str(self.path)) from None
        self.events.append(event)

    def close(self) -> None:
        """Close the file; a later event opens it again."""
        if self._file is not None:
            self._file.close()
            self._file = None


class RunFolder:
    """The folder of a run, locked for this process. Use as a context manager.

    path: made where it does not exist. config: what the run is, JSON-ready, compared field by field with the
    folder's. session: further facts of this call that may differ between sessions.

    Raises LogError for a folder that holds another run, or none but other results, or that another process uses;
    OSError where it cannot be written.
    """

    def __init__(self, path: Path, config: Mapping[str, Any], session: Mapping[str, Any]) -> None:
        self.path = path
        self._config = json.loads(json.dumps(config))
        self._session = dict(session)
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> RunFolder:
        if self.path.exists() and not self.path.is_dir():
            raise LogError(f"{self.path} is a file; expected a folder for the run")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.path / _LOCK)
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self) -> None:
        described = self.path / RUN
        sessions: list[Any] = []
        if described.exists():
            before = read_run(self.path)
            refuse_changes(before["config"], self._config, described)
            sessions = before["sessions"]
        else:
            others = sorted(entry.name for entry in self.path.iterdir() if entry.name != _LOCK)
            if others:
                raise LogError(
                    f"{self.path} holds other files ({', '.join(others[:3])}) and no {RUN}; choose an empty folder"
                )
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        sessions = [*sessions, {"started": now, **self._session}]
        write_json(described, {"config": self._config, "sessions": sessions})
        for name in (LOG, PICTURES):
            (self.path / name).mkdir(exist_ok=True)

    def episode(self, number: int) -> EpisodeLog:
        """The log of an episode."""
        return EpisodeLog(number, log_path(self.path, number), self.path / PICTURES)


def log_path(folder: Path, episode: int) -> Path:
    """Where the log of an episode is in a run's folder."""
    return folder / LOG / f"{episode:04d}.jsonl"


def read_run(folder: Path) -> dict[str, Any]:
    """What ``run.json`` of a folder says: {"config": ..., "sessions": [...]}. Raises LogError."""
    path = folder / RUN
    try:
        loaded = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise LogError(f"{folder} holds no {RUN}: it is no folder of `mnistpro run`") from None
    except ValueError as error:
        raise LogError(f"{path} is not a complete JSON object ({error})") from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("config"), dict):
        raise LogError(f"{path} does not say what the run is ('config')")
    return {"config": loaded["config"], "sessions": list(loaded.get("sessions") or [])}


def refuse_changes(before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Raise LogError, naming the first field that differs."""
    for name in [*now, *(name for name in before if name not in now)]:
        if before.get(name) != now.get(name):
            was, is_ = (json.dumps(side.get(name)) for side in (before, now))
            raise LogError(
                f"{path.parent} holds a run with {name} = {was}, but this one has {name} = {is_}; use the same "
                f"settings to go on with it, or another folder (or remove {path.parent} to begin anew)"
            )


def read_events(path: Path, mend: bool = False) -> list[Event]:
    """The events of a log, without a last line that a crash has torn.

    mend: cut that line off the file, too; only for the process that holds the folder's lock, because the line may be
    one that is just being written. Raises LogError, naming file and line, for any other line that is no event.
    """
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if mend and whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    events = []
    for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
        try:
            event = json.loads(line)
            kind = event["event"]
            if kind == "turn":
                decision_of(event)
                _ = event["step"], event["attempt"], event["observation"]
            elif kind == "end":
                Status(event["status"])
                _ = {**event["record"]}
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(
                f"{path}, line {number}: no event of a run ({error}); remove the file to play this episode anew, or "
                "restore it"
            ) from None
        events.append(event)
    return events


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


def _locked(path: Path) -> IO[bytes]:
    """The lock file, held until it is closed or the process ends, however it ends. Raises LogError if it is taken."""
    file = path.open("ab")
    try:
        if os.name == "nt":  # pragma: no cover - not tested here
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        raise LogError(
            f"{path.parent} is in use by another run; wait for it, or choose another folder"
        ) from None
    except BaseException:
        file.close()
        raise
    return file
