"""Prompt packs: the words of the protocol, from a TOML file, so that anybody can supply others."""

from __future__ import annotations

import dataclasses
import hashlib
import string
import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

DEFAULT = "plain"
TOOLS = "tools"
"""The packs of the package: for turns, and for players with tools."""
_WORLD = ("width", "height", "window", "stride", "digits", "largest", "budget", "example")
_TURN = (*_WORLD, "turn", "left", "horizon", "action", "thought", "coords", "features")
_CALL = (*_WORLD, "image", "number", "left", "said", "expected")


@dataclasses.dataclass(frozen=True, eq=False)
class PromptPack:
    """The words of the protocol. name: for people. digest: SHA-256 of the words, to recognise a changed pack.

    texts: templates by "section.key".
    """

    name: str
    digest: str
    texts: Mapping[str, string.Template]

    def text(self, key: str, values: Mapping[str, Any]) -> str:
        """A text with its values filled in."""
        return self.texts[key].substitute(values).strip()


def load_pack(source: str | Path = DEFAULT, like: str = DEFAULT) -> PromptPack:
    """A pack of the package by its name, or one from a TOML file. like: the pack of the package that has its texts.

    Raises ValueError, naming file and key, for a pack that lacks a text, has one that nobody reads, or names a value
    that does not exist; FileNotFoundError where there is no such file.
    """
    path = Path(__file__).parent / f"{source}.toml" if source == like else Path(source)
    if not path.is_file():
        raise FileNotFoundError(f"no prompt pack at {path}; expected '{like}' or a TOML file")
    try:
        loaded = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from None
    name = loaded.pop("name", None)
    if not isinstance(name, str) or not name:
        raise ValueError(f"{path}: expected a text 'name' at the top")
    found = _flat(loaded, path)
    if source != like:
        expected = set(load_pack(like, like).texts)
        for what, keys in (("lacks", expected - set(found)), ("has unknown", set(found) - expected)):
            if keys:
                raise ValueError(f"{path}: the prompt pack {what} {', '.join(sorted(keys))}")
    for key, text in found.items():
        allowed = (
            _WORLD if key.startswith(("rules.", "reply.", "tool.")) else _CALL if like == TOOLS else _TURN
        )
        template = string.Template(text)
        if not template.is_valid():
            raise ValueError(f"{path}: {key} has a $ that stands alone; write $$ for a dollar")
        unknown = sorted(set(template.get_identifiers()) - set(allowed))
        if unknown:
            names = ", ".join(f"${name}" for name in allowed)
            raise ValueError(
                f"{path}: {key} names ${unknown[0]}, which does not exist there; expected {names}"
            )
    digest = hashlib.sha256("\0".join(f"{key}\0{found[key]}" for key in sorted(found)).encode()).hexdigest()
    return PromptPack(
        name, digest, MappingProxyType({key: string.Template(text) for key, text in found.items()})
    )


def _flat(sections: Mapping[str, Any], path: Path) -> dict[str, str]:
    texts = {}
    for section, keys in sections.items():
        if not isinstance(keys, dict):
            raise ValueError(f"{path}: {section} stands outside a section; expected [rules], [reply], ...")
        for key, text in keys.items():
            if not isinstance(text, str):
                raise ValueError(f"{path}: {section}.{key} is no text")
            texts[f"{section}.{key}"] = text
    return texts
