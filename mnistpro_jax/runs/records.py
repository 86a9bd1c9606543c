"""Episode records: one JSON object an episode, one line each in ``episodes.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.runs.folder import EPISODES
from mnistpro_jax.runs.json_files import read_lines

_Check = Callable[[Any], bool]

_ENDINGS = ("RUNNING", "ANSWERED", "STEP_LIMIT", "INVALID_ACTION")
_ACTIONS = ("up", "down", "left", "right", "answer", "invalid")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _list_of(check: _Check) -> _Check:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


def _one_of(names: Sequence[str]) -> _Check:
    return lambda value: value in names


def _is_corner(value: Any) -> bool:
    return _list_of(_is_int)(value) and len(value) == 2


# Every field of an episode record: its check, and what the error says was expected.
_FIELDS: dict[str, tuple[_Check, str]] = {
    "episode": (_is_int, "an integer"),
    "level": (_is_int, "an integer"),
    "source": (_is_text, "text"),
    "split": (_is_text, "text"),
    "indices": (_list_of(_is_int), "a list of integers"),
    "labels": (_list_of(_is_int), "a list of integers"),
    "start_xy": (_is_corner, "two integers [x, y]"),
    "windows": (_list_of(_is_corner), "a list of [x, y] integer pairs"),
    "actions": (_list_of(_one_of(_ACTIONS)), f"a list of {', '.join(_ACTIONS)}"),
    "answer": (lambda value: value is None or _list_of(_is_int)(value), "a list of integers or null"),
    "ending": (_one_of(_ENDINGS), f"one of {', '.join(_ENDINGS)}"),
    # null: what the agent would have done is not known, because a call failed.
    "correct": (lambda value: value is None or _is_flag(value), "true, false or null"),
    "digits_correct": (
        lambda value: value is None or _list_of(_is_flag)(value),
        "a list of true or false, or null",
    ),
    "steps": (_is_int, "an integer"),
    "moves": (_is_int, "an integer"),
    "revisits": (_is_int, "an integer"),
    "stroke_coverage": (_is_number, "a number"),
    "stroke_coverage_readable": (_is_number, "a number"),
    "area_coverage": (_is_number, "a number"),
    "area_coverage_readable": (_is_number, "a number"),
    "digit_stroke_coverage": (_list_of(_is_number), "a list of numbers"),
    "digit_stroke_coverage_readable": (_list_of(_is_number), "a list of numbers"),
    "return": (_is_number, "a number"),
}


def read_episodes(path: str | Path) -> list[dict[str, Any]]:
    """The episode records of an ``episodes.jsonl`` file, in file order; ``path`` is the file or its folder.

    Each record has the fields written by a rollout: episode, level, source, split, indices, labels,
    start_xy, windows (moves + 1 corners), actions (one name a step), answer, ending, correct,
    digits_correct (both null where a call to a model failed), steps, moves, revisits, the coverages and return.
    Further fields are kept; empty lines are skipped.

    Raises FileNotFoundError where there is no such file, and ValueError, naming file and line, for a line
    that is torn, is no JSON object, lacks a field or contradicts itself.
    """
    path = Path(path)
    if path.is_dir():
        path = path / EPISODES
    if not path.is_file():
        raise FileNotFoundError(
            f"no episode file at {path}: expected the episodes.jsonl of a run, or its folder"
        )
    episodes = []
    for where, record in read_lines(path):
        check_record(record, where)
        episodes.append(record)
    return episodes


def check_record(record: Any, where: str) -> None:
    """Raise one ValueError that begins with ``where`` unless this is an episode record (``read_episodes``)."""
    if not isinstance(record, dict):
        raise ValueError(f"{where}: expected one JSON object an episode, got {type(record).__name__}")
    missing = [name for name in _FIELDS if name not in record]
    if missing:
        raise ValueError(f"{where}: episode record without the field(s) {', '.join(missing)}")
    for name, (check, expected) in _FIELDS.items():
        if not check(record[name]):
            raise ValueError(f"{where}: field {name!r} must be {expected}, got {json.dumps(record[name])}")
    for name, length, meaning in (
        ("windows", record["moves"] + 1, "moves + 1"),
        ("actions", record["steps"], "steps"),
        ("labels", record["level"], "level"),
        ("indices", record["level"], "level"),
    ):
        if len(record[name]) != length:
            raise ValueError(
                f"{where}: field {name!r} must have {meaning} = {length} entries, got {len(record[name])}"
            )
