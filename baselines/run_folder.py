"""What a run's folder says of itself: the file config.json that ``baselines.train`` wrote."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from baselines.configs import config

# What a run was trained on and with: beside the configuration's fields, and none of them.
ABOUT = ("data", "reader", "commit")


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """name: of the configuration. changes: its fields as stored. about: those of ``ABOUT`` that are stored. config:
    the configuration itself."""

    name: str
    seed: int
    changes: dict[str, Any]
    about: dict[str, Any]
    config: Any


def read_run(folder: Path) -> RunFolder:
    """Read a run's config.json.

    Raises OSError where there is none; ValueError, naming the file, where it is damaged or of no known configuration.
    """
    path = folder / "config.json"
    text = path.read_bytes()
    try:
        stored = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); train the run again into another folder") from error
    if not isinstance(stored, dict):
        raise ValueError(f"{path} holds {_short(stored)}; expected an object, as baselines.train writes it")
    for field, kind, what in (("name", str, "a configuration's name"), ("seed", int, "a whole number")):
        if field not in stored:
            raise ValueError(f"{path} has no field {field!r}; expected {what}, as baselines.train writes it")
        if not isinstance(stored[field], kind) or isinstance(stored[field], bool):
            raise ValueError(f"{path}: {field} is {_short(stored[field])}; expected {what}")
    name, seed = stored.pop("name"), stored.pop("seed")
    about = {field: stored.pop(field) for field in ABOUT if field in stored}
    try:
        chosen = config(name, stored)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return RunFolder(name, seed, stored, about, chosen)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
