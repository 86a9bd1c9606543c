"""The desk of one episode: what each call of a tool does. It knows no model and no transport.

A call is an action (a move or a valid answer, which whoever holds the environment carries out), a look at a picture
that was shown before, or a fault: refused, explained, counted, and without any effect. What it says holds no number of
a place, an episode or an image.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from typing import Any

from mnistpro_jax.host.contract import ANSWER, MOVES, Decision, Status
from mnistpro_jax.host.protocol import World
from mnistpro_jax.host.tools.notes import refused
from mnistpro_jax.host.tools.schema import MOVE, READ, SUBMIT, VIEW, WRITE, Say, notes_tools_of, tools_of

_SHOWN = 80


class Kind(enum.StrEnum):
    """What a call was."""

    ACTION = "action"
    VIEW = "view"
    NOTES = "notes"
    FAULT = "fault"
    REFUSED = "refused"
    """A move where none is left."""
    OVER = "over"


@dataclasses.dataclass(frozen=True)
class Limits:
    """Of an episode. faulty: calls that are faulty or refused. views: of earlier pictures. replies: of a model."""

    faulty: int
    views: int
    replies: int

    @classmethod
    def of(cls, budget: int) -> Limits:
        """Those of an episode of so many steps."""
        return cls(faulty=20, views=4 * budget, replies=3 * budget + 20)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a call came to. text: for the caller; an action's is said when it is done. image: id of a picture to show.

    decision: of an action.
    """

    kind: Kind
    text: str = ""
    image: str | None = None
    decision: Decision | None = None


class Desk:
    """The calls of one episode. say: the pack's texts. counter: whether results say how many moves are left.

    notes: that the episode begins with. notes_limit: bytes that they may have; None where there are none.

    pictures: those exposed so far, PNG files by id, in order. faulty, refused, views: calls of these kinds. notes: as
    they are now.
    """

    def __init__(
        self,
        world: World,
        say: Say,
        limits: Limits,
        counter: bool = True,
        notes: str = "",
        notes_limit: int | None = None,
    ) -> None:
        self.pictures: dict[str, bytes] = {}
        self.faulty = self.refused = self.views = 0
        self.over = False
        self.notes = notes
        self.notes_tools = () if notes_limit is None else notes_tools_of(say)
        self.tools = (*tools_of(say), *self.notes_tools)
        self._notes_limit = notes_limit or 0
        self.limits = limits
        self._world = world
        self._say = say
        self._counter = counter

    @property
    def moves_left(self) -> int:
        """The budget less the answer and the moves so far."""
        return self._world.budget - len(self.pictures)

    @property
    def exhausted(self) -> bool:
        """Whether more calls were faulty than are allowed."""
        return self.faulty + self.refused >= self.limits.faulty

    def expose(self, image: str, picture: bytes) -> str:
        """The environment shows the next picture; what is said of it. image: its id, which nobody can guess."""
        self.pictures[image] = picture
        number, left = len(self.pictures), self.moves_left
        key = "picture_plain" if not self._counter else "picture" if left else "picture_last"
        return self._say(f"result.{key}", image=image, number=number, left=left)

    def call(self, name: Any, arguments: Any) -> Result:
        """What a call does. arguments: an object, or its JSON as a text. Never raises."""
        if self.over and name not in {tool.name for tool in self.notes_tools}:
            return Result(Kind.OVER, self._say("result.over"))
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            return self._fault("tool", name, [tool.name for tool in self.tools])
        given = _object(arguments)
        if given is None:
            return self._fault("json", arguments)
        unknown = sorted(set(given) - set(tool.arguments))
        if unknown:
            return self._fault("argument", unknown[0], list(tool.arguments))
        does = {
            MOVE: self._move,
            VIEW: self._view,
            SUBMIT: self._submit,
            WRITE: self._write,
            READ: self._read,
        }
        return does[tool.name](given)

    def _write(self, given: Mapping[str, Any]) -> Result:
        text = given.get("text")
        why = refused(text, self._notes_limit)
        if why is not None:
            return self._fault(why, text, [str(self._notes_limit)])
        self.notes = str(text)
        return Result(Kind.NOTES, self._say("result.written"))

    def _read(self, given: Mapping[str, Any]) -> Result:
        return Result(Kind.NOTES, shown_notes(self._say, self.notes))

    def _move(self, given: Mapping[str, Any]) -> Result:
        direction = given.get("direction")
        if not isinstance(direction, str) or direction not in MOVES:
            return self._fault("direction", direction, list(MOVES))
        if self.moves_left < 1:
            self.refused += 1
            return Result(Kind.REFUSED, self._say("fault.moves"))
        return Result(Kind.ACTION, decision=Decision(Status.OK, direction))

    def _view(self, given: Mapping[str, Any]) -> Result:
        image = given.get("image")
        if image is None:
            image = next(reversed(self.pictures))
        if not isinstance(image, str) or image not in self.pictures:
            return self._fault("image", image)
        if self.views >= self.limits.views:
            return self._fault("views", image)
        self.views += 1
        return Result(Kind.VIEW, self._say("result.again", image=image), image)

    def _submit(self, given: Mapping[str, Any]) -> Result:
        value, world = given.get("value"), self._world
        digits = value if isinstance(value, str) and value.isascii() and value.isdigit() else ""
        answer = tuple(map(int, digits))
        if len(answer) != world.digits or max(answer) >= world.num_classes:
            return self._fault("value", value)
        self.over = True
        return Result(Kind.ACTION, decision=Decision(Status.OK, ANSWER, answer))

    def _fault(self, key: str, said: Any, expected: list[str] | None = None) -> Result:
        self.faulty += 1
        shown = said if isinstance(said, str) else json.dumps(said, default=str)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."
        text = self._say(f"fault.{key}", said=json.dumps(shown), expected=", ".join(expected or ()))
        return Result(Kind.FAULT, text)


def shown_notes(say: Say, notes: str) -> str:
    """Notes as they are shown: to the last letter, white space included."""
    return f"{say('notes.carried')}\n{notes}" if notes else say("notes.empty")


def _object(arguments: Any) -> dict[str, Any] | None:
    """Arguments as an object; None where they are none. No text at all is an object without arguments."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            return None
    if arguments is None:
        return {}
    return dict(arguments) if isinstance(arguments, Mapping) else None
