"""The notes of a session: all that survives from one episode to the next, and the chain that says how they came about.

DIR/notes/0001.md ...     the notes after each episode, by its position in the session, byte for byte
DIR/notes/chain.jsonl     a line a position: {position, episode, before, after, kept_because, previous, digest}

``before`` and ``after`` are SHA-256 of the notes, ``digest`` is of the line itself and of the one before it
(``previous``), so that nothing in between can be changed, left out or put elsewhere without showing.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from mnistpro_jax.data.whole_file import whole_file
from mnistpro_jax.runs.log import EventLog, LogError

NOTES = "notes"
CHAIN = "chain.jsonl"
LIMIT = 2**20
"""Bytes that notes may have, unless a run says otherwise."""


def digest(text: str) -> str:
    """SHA-256 of notes."""
    return hashlib.sha256(text.encode()).hexdigest()


def refused(text: Any, limit: int) -> str | None:
    """Why a text cannot be notes: "text", "letters" or "length"; None: it can."""
    if not isinstance(text, str):
        return "text"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "letters"
    if "\0" in text:
        return "letters"
    return "length" if size > limit else None


class Notebook:
    """The notes of a session, in a run's folder; in memory alone where that is None.

    Raises LogError for a chain that is broken, or does not fit the notes beside it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = None if folder is None else folder / NOTES
        self._chain = EventLog(None if self._folder is None else self._folder / CHAIN)
        self._texts = [""]
        for line in verified(self._chain.events, self._folder):
            self._texts.append(self._read(line["position"]) if self._folder is not None else "")

    def before(self, position: int) -> str:
        """The notes that an episode begins with. position: from 1. Raises LogError where an earlier one is missing."""
        if position > len(self._texts):
            raise LogError(
                f"the episode at position {position} comes before the notes of position {len(self._texts)} are there"
            )
        return self._texts[position - 1]

    def commit(self, position: int, episode: int, after: str, kept_because: str | None = None) -> None:
        """The notes that an episode leaves. Done again with the same notes, it changes nothing.

        kept_because: why they are those before, where the player wanted others. Raises LogError for other notes than
        were committed before, OSError where they cannot be written.
        """
        if position < len(self._texts):
            if self._texts[position] != after:
                raise LogError(f"position {position} has left other notes before; use another folder")
            return
        before = self.before(position)
        events = self._chain.events
        line = {
            "event": "notes",
            "position": position,
            "episode": episode,
            "before": digest(before),
            "after": digest(after),
            "kept_because": kept_because,
            "previous": events[-1]["digest"] if events else None,
        }
        if self._folder is not None:
            self._folder.mkdir(exist_ok=True)
            with whole_file(self._path(position)) as unfinished:
                unfinished.write_bytes(after.encode())
        self._chain.append({**line, "digest": _digest_of(line)})
        self._chain.close()
        self._texts.append(after)

    def _path(self, position: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{position:04d}.md"

    def _read(self, position: int) -> str:
        return self._path(position).read_bytes().decode()


def verified(lines: list[dict[str, Any]], folder: Path | None) -> list[dict[str, Any]]:
    """The lines of a chain that holds. folder: with the notes beside it.

    Raises LogError, naming the first position where it does not.
    """
    previous: str | None = None
    before = digest("")
    for position, line in enumerate(lines, start=1):
        own = {name: value for name, value in line.items() if name not in ("digest", "time")}
        holds = (
            line.get("position") == position
            and line.get("previous") == previous
            and line.get("before") == before
            and line.get("digest") == _digest_of(own)
        )
        notes = None if folder is None else folder / f"{position:04d}.md"
        if holds and notes is not None:
            holds = notes.is_file() and hashlib.sha256(notes.read_bytes()).hexdigest() == line["after"]
        if not holds:
            where = CHAIN if folder is None else folder / CHAIN
            raise LogError(
                f"{where}: the chain of notes does not hold at position {position}; were they changed?"
            )
        previous, before = line["digest"], line["after"]
    return lines


def _digest_of(line: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(line, sort_keys=True).encode()).hexdigest()
