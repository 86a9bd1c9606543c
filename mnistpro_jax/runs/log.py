"""An append-only log: one JSON object a line, each an event, whole or not there.

A line is written when its event has happened and before anything is done with it. After a crash the file is read again
and a line that was torn by it is cut off. What an event means is the writer's affair: a name in "event" is all that is
asked here.
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

Event = dict[str, Any]
Check = Callable[[Event], object]
"""Raises ValueError, KeyError or TypeError for an event that cannot be used."""
END = "end"
_TAIL = 2**14  # bytes of a log's end that are read first


class LogError(ValueError):
    """A folder or a log that cannot be used as it is; the message says what to do."""


class EventLog:
    """A log, for the process that holds its folder; in memory alone where ``path`` is None.

    events: all so far, those of earlier sessions included. Raises LogError for a file with another line than an event
    that ``check`` takes.
    """

    def __init__(self, path: Path | None = None, check: Check | None = None) -> None:
        self.path = path
        self._file: IO[bytes] | None = None
        self.events: list[Event] = [] if path is None else read_events(path, check, mend=True)

    @property
    def end(self) -> Event | None:
        """The event that closed the log for good, or None while it is unfinished."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last["event"] == END else None

    def append(self, event: Event) -> None:
        """Write an event as one line, with the time. Raises OSError where that fails; the file then ends as before."""
        event = {**event, "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")}
        if self.path is not None:
            if self._file is None:
                self._file = self.path.open("ab", buffering=0)
            line = json.dumps(event, ensure_ascii=True, allow_nan=False).encode() + b"\n"
            size = self._file.tell()
            try:
                # What did not fit is tried once more: only that says why (a full disk, a quota, a limit of size).
                written = self._file.write(line) or 0
                if written < len(line) and self._file.write(line[written:]) != len(line) - written:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
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


def read_events(path: Path, check: Check | None = None, mend: bool = False) -> list[Event]:
    """The events of a log, without a last line that a crash has torn; [] where there is no file.

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
            _ = event["event"]
            if check is not None:
                check(event)
        except (ValueError, KeyError, TypeError) as error:
            raise LogError(
                f"{path}, line {number}: no event of a run ({error}); remove the file to play this episode anew, or "
                "restore it"
            ) from None
        events.append(event)
    return events


def last_event(path: Path) -> Event | None:
    """The last whole event of a log, read from the file's end; None where there is none yet.

    Raises LogError, naming the file, where that line is no event.
    """
    with path.open("rb") as file:
        size, length = file.seek(0, os.SEEK_END), _TAIL
        while True:
            file.seek(max(0, size - length))
            # What stands behind the last line break was torn, or is being written.
            *lines, _ = file.read(length).split(b"\n")
            if len(lines) > 1 or length >= size:
                break
            length *= 4
    if not lines:
        return None
    try:
        event = json.loads(lines[-1])
        _ = event["event"]
    except (ValueError, KeyError, TypeError) as error:
        raise LogError(
            f"{path}: its last line is no event of a run ({error}); restore the file, or remove it"
        ) from None
    return dict(event)
