"""The tools of an episode: their names, what they are told to do, and the arguments that they take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from mnistpro_jax.host.contract import MOVES

MOVE, VIEW, SUBMIT = "move", "view_image", "submit"
WRITE, READ = "write_notes", "read_notes"

Say = Callable[..., str]
"""A text of the prompt pack by its key, with the values that it names."""


@dataclasses.dataclass(frozen=True)
class Tool:
    """One tool. arguments: JSON schema by name. required: those that cannot be left out."""

    name: str
    about: str
    arguments: Mapping[str, Mapping[str, Any]]
    required: tuple[str, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments."""
        return {
            "type": "object",
            "properties": {name: dict(kind) for name, kind in self.arguments.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }


def tools_of(say: Say) -> tuple[Tool, ...]:
    """The tools of an episode, in the words of a pack."""
    directions = {"type": "string", "enum": list(MOVES), "description": say("tool.direction")}
    image = {"type": "string", "description": say("tool.image")}
    value = {"type": "string", "description": say("tool.value")}
    return (
        Tool(MOVE, say("tool.move"), {"direction": directions}, ("direction",)),
        Tool(VIEW, say("tool.view_image"), {"image": image}, ()),
        Tool(SUBMIT, say("tool.submit"), {"value": value}, ("value",)),
    )


def notes_tools_of(say: Say) -> tuple[Tool, ...]:
    """The tools of notes, for the arms that have them."""
    text = {"type": "string", "description": say("tool.text")}
    return (
        Tool(WRITE, say("tool.write_notes"), {"text": text}, ("text",)),
        Tool(READ, say("tool.read_notes"), {}, ()),
    )


def as_functions(tools: tuple[Tool, ...]) -> list[dict[str, Any]]:
    """The tools as chat completions have them."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.about, "parameters": tool.schema},
        }
        for tool in tools
    ]
