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
from mnistpro_jax.host.tools.schema import MOVE, SUBMIT, VIEW, Say, tools_of

_SHOWN = 80


class Kind(enum.StrEnum):
    """What a call was."""

    ACTION = "action"
    VIEW = "view"
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

    pictures: those exposed so far, PNG files by id, in order. faulty, refused, views: calls of these kinds.
    """

    def __init__(self, world: World, say: Say, limits: Limits, counter: bool = True) -> None:
        self.pictures: dict[str, bytes] = {}
        self.faulty = self.refused = self.views = 0
        self.over = False
        self.tools = tools_of(say)
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
        if self.over:
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
        return {MOVE: self._move, VIEW: self._view, SUBMIT: self._submit}[tool.name](given)

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
        return Result(Kind.ACTION, self._say("result.accepted"), decision=Decision(Status.OK, ANSWER, answer))

    def _fault(self, key: str, said: Any, expected: list[str] | None = None) -> Result:
        self.faulty += 1
        shown = said if isinstance(said, str) else json.dumps(said, default=str)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]} ..."
        text = self._say(f"fault.{key}", said=json.dumps(shown), expected=", ".join(expected or ()))
        return Result(Kind.FAULT, text)


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
