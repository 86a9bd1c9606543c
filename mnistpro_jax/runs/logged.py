"""What the logs of a run folder say of its episodes: the results that outlive a process which wrote no others.

``episodes.jsonl`` is made from the logs, every few seconds while a run plays and once more at its end; a process that
dies in between leaves it behind them. The log of an episode that is over ends with its whole record, so that the last
line is all that is read here. What an episode cost is in no log, because prices change: that is from ``episodes.jsonl``
alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnistpro_jax.runs.log import END, LogError, last_event
from mnistpro_jax.runs.run_folder import LOG, RUN

Found = tuple[str, dict[str, Any]]
"""Where a record stands, for people, and the record."""
UNFINISHED = "unfinished"
"""The status of an episode that was begun, where nothing says why it is not over."""


def has_logs(folder: Path) -> bool:
    """Whether this is the folder of a run that keeps logs, and has begun an episode."""
    return (folder / RUN).is_file() and any(True for _ in _logs(folder))


def with_logs(folder: Path, listed: dict[int, Found]) -> dict[int, Found]:
    """The episodes of a folder by number: ``listed``, those of its ``episodes.jsonl``, brought up to date by its logs.

    An episode whose log has come to its end is what the log says. Another one is what is listed; one that is not, and
    was begun, has no outcome. A folder without logs, such as a copy of the results alone, is what is listed.

    Raises LogError, naming the file, for a log whose last line is no event.
    """
    found = dict(listed)
    if not (folder / RUN).is_file():
        return found
    for number, path in _logs(folder):
        event = last_event(path)
        if event is None:
            continue
        if event["event"] != END:
            found.setdefault(number, (str(path), {"episode": number, "status": UNFINISHED, "correct": None}))
            continue
        record = event.get("record")
        if not isinstance(record, dict) or record.get("episode") != number:
            raise LogError(
                f"{path}: its last line ends another episode than {number}; restore the file, or remove it"
            )
        known = listed.get(number, (None, {}))[1]
        # What the list alone knows of a record holds for the same record.
        same = {name: value for name, value in known.items() if name in record and name != "cost"} == {
            name: value for name, value in record.items() if name != "cost"
        }
        found[number] = str(path), {**known, **record} if same else {**record, "cost": None}
    return found


def _logs(folder: Path) -> Iterator[tuple[int, Path]]:
    """(number, log) of each episode that has one, by number."""
    if not (folder / LOG).is_dir():
        return
    paths = [path for path in (folder / LOG).iterdir() if re.fullmatch(r"\d+\.jsonl", path.name)]
    yield from sorted((int(path.stem), path) for path in paths)
