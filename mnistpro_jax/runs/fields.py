"""Fields of JSON objects, checked: an error names the file, the place in it and the field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mnistpro_jax.worlds.published import PUBLISHED_SIZE

_SHOWN = 80  # characters of a wrong value in a message


class Fields:
    """Typed fields of a JSON object; an error names the file, the place in it where there is one, and the field."""

    def __init__(self, values: dict[str, Any], path: Path, place: str = "") -> None:
        self.values = values
        self._where = f"{path}, {place}" if place else str(path)

    def text(self, name: str) -> str:
        """A text."""
        return str(self._checked(name, str, "text"))

    def whole(self, name: str) -> int:
        """A whole number."""
        return int(self._checked(name, int, "a whole number"))

    def flag(self, name: str) -> bool:
        """True or false."""
        return bool(self._checked(name, bool, "true or false"))

    def _checked(self, name: str, kind: type, expected: str) -> Any:
        value = self.values.get(name)
        if type(value) is not kind:
            raise self.wrong(name, expected)
        return value

    def wrong(self, name: str, expected: str) -> ValueError:
        """The error that a field is not what it has to be."""
        has = json.dumps(self.values.get(name))
        shown = has if len(has) <= _SHOWN else f"{has[:_SHOWN]} ..."
        return ValueError(f"{self._where}: field {name!r} is {shown}; expected {expected}")


def check_windows(windows: Any, window: int, level: int, get: Fields) -> None:
    """Raise ValueError unless these are corners of windows that lie in a canvas of ``level`` digits, at least one."""
    right, bottom = PUBLISHED_SIZE * level - window, PUBLISHED_SIZE - window
    if not isinstance(windows, list) or not windows or not all(map(_is_corner, windows)):
        raise get.wrong("windows", "corners [x, y] of whole numbers, at least one")
    outside = [corner for corner in windows if not (0 <= corner[0] <= right and 0 <= corner[1] <= bottom)]
    if outside:
        raise get.wrong(
            "windows",
            f"corners within 0..{right} and 0..{bottom}, so that windows of {window} pixels lie in the canvas "
            f"({outside[0]} does not)",
        )


def _is_corner(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value)
