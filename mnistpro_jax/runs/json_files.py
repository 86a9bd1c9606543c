"""JSON files of results, which appear whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
