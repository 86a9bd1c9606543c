"""JSON files of results: they appear whole or not at all, and what is torn is named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.data.whole_file import whole_file


def write_jsonl(path: str | Path, records: Sequence[dict[str, Any]]) -> Path:
    """Write records, one JSON object a line; the file appears whole or not at all. Returns the path."""
    return _write(Path(path), (json.dumps(record, allow_nan=False) + "\n" for record in records))


def write_json(path: str | Path, value: Any) -> Path:
    """Write one JSON value, indented; the file appears whole or not at all. Returns the path."""
    return _write(Path(path), [json.dumps(value, indent=2, allow_nan=False) + "\n"])


def _write(path: Path, parts: Iterable[str]) -> Path:
    with whole_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.writelines(parts)
    return path


def read_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """(where it stands, value) of each line of a file of one JSON value a line; empty lines are skipped.

    Raises ValueError, naming file and line, for one that is torn.
    """
    # Split on "\n" alone: str.splitlines would also cut at rarer separators that JSON text may hold.
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except ValueError as error:
            raise ValueError(
                f"{where}: not a complete JSON object ({error}); if the run was interrupted while writing, "
                "remove this line, or run again"
            ) from None
        yield where, value


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises ValueError where it is none, or is torn."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not a complete JSON object ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}; expected a JSON object")
    return value
