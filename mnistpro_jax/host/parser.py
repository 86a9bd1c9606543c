"""From the text of a reply to an action. Strict where it matters: an answer is read, never guessed.

What counts: the JSON objects of the reply, wherever they stand (prose around them, code fences, lists, one object
inside another), those that have the shape of a tool's call included. Text that a model marks as its thinking
(``<think> ... </think>``) does not count. Among several objects that name an action, the last one does. Capitals do not
matter, nor do synonyms that can mean one thing only ("north" or "go up" for up, "submit" for answer). An object that
contradicts itself names no action. ``published_parser`` reads by the published rules instead.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mnistpro_jax.host.contract import ANSWER, MOVES, Decision, Status, Turn, sendable
from mnistpro_jax.host.problems import BARE_NUMBER

_DIRECTIONS = {
    **{move: move for move in MOVES},
    **dict.fromkeys(("upward", "upwards", "north"), "up"),
    **dict.fromkeys(("downward", "downwards", "south"), "down"),
    **dict.fromkeys(("leftward", "leftwards", "west"), "left"),
    **dict.fromkeys(("rightward", "rightwards", "east"), "right"),
}
_MOVING = ("move", "go")
_PHRASE = re.compile(rf"(?:{'|'.join(_MOVING)})[\s_-]+(?:to the )?([a-z]+)")
_ANSWERS = (ANSWER, "submit")
_ARGUMENTS = ("arguments", "parameters", "input")
_VALUE_KEYS = ("value", "answer", "digit", "digits")
_WORDS = {
    word: digit for digit, word in enumerate("zero one two three four five six seven eight nine".split())
}
_THOUGHT = "</think>"
_THINKING = re.compile(r"<(think|thinking|thought)>.*?(</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(
    r"\W*(?:(?:the |my )?(?:final )?(?:answer|digits?)\W*(?:is|are)?\W*)?\d(?:[\s,]*\d)*\W*", re.IGNORECASE
)
# A JSON object begins like this; braces of prose and formulas mostly do not.
_BEGINNING = re.compile(r'\{\s*"')


_BRACES = re.compile(r'\\.|["{}]', re.DOTALL)


class _ContradictionError(ValueError):
    """An object with the same key twice."""


@dataclasses.dataclass(frozen=True)
class Parsed:
    """What a reply says. action: a move, "answer", or None with ``problem``, which says why there is none.

    answer: the digits, with an answer alone. thought: text or None. place: {"coords": [x, y], "features": text} or
    None: this turn's entry of the map.
    """

    action: str | None = None
    answer: tuple[int, ...] | None = None
    thought: str | None = None
    place: Mapping[str, Any] | None = None
    problem: str | None = None


def read_glimpse(text: str, turn: Turn, *, num_classes: int = 10, moves_allowed: bool = True) -> Decision:
    """A reply of the glimpse protocol as a decision: a ``Reader``. Arguments as of ``parse_reply``."""
    parsed = parse_reply(text, turn.digits, num_classes=num_classes, moves_allowed=moves_allowed)
    if parsed.action is None:
        return Decision(Status.UNPARSEABLE, problem=parsed.problem)
    return Decision(Status.OK, parsed.action, parsed.answer, thought=parsed.thought, place=parsed.place)


def parse_reply(text: str, digits: int = 1, *, num_classes: int = 10, moves_allowed: bool = True) -> Parsed:
    """What a reply says.

    text: the reply. digits: how many an answer has. num_classes: each digit is 0 .. num_classes - 1. moves_allowed:
    False where the protocol asks for an answer alone. Never raises for any text.
    """
    shown = without_thinking(text)
    if not shown.strip():
        return Parsed(
            problem="the reply is empty" if not text.strip() else "the reply is nothing but thinking"
        )
    last: Parsed | None = None
    problem = BARE_NUMBER if _NUMBER.fullmatch(shown) else "the reply holds no JSON object"
    for found in _objects(shown):
        if isinstance(found, str):
            problem = found
            continue
        try:
            read = _read(found, digits, num_classes, moves_allowed)
        except RecursionError:
            read = Parsed(problem="the JSON object is nested too deeply")
        if read.action is not None:
            last = read
        else:
            problem = read.problem or problem
    return last or Parsed(problem=problem)


def without_thinking(text: str) -> str:
    """A reply's text without what its model marks as thinking."""
    shown = _THINKING.sub(" ", text)
    # Some servers hold the opening tag back.
    found = shown.lower().rfind(_THOUGHT)
    return shown if found < 0 else shown[found + len(_THOUGHT) :]


def _objects(text: str) -> Iterator[dict[str, Any] | str]:
    """The outermost JSON objects of a text, in order; in place of one that contradicts itself, a text that says so."""
    # Not strict: models put line breaks into texts as they are.
    decoder = json.JSONDecoder(object_pairs_hook=_without_twins, strict=False)
    position = 0
    while (beginning := _BEGINNING.search(text, position)) is not None:
        try:
            found, position = decoder.raw_decode(text, beginning.start())
        except _ContradictionError as error:
            yield str(error)
            position = json.JSONDecoder(strict=False).raw_decode(text, beginning.start())[1]
        except json.JSONDecodeError as error:
            # Where an object is torn off by the end of the text, what stands inside it is a part of it, no reply.
            if error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip()):
                yield "the JSON object is torn"
                return
            # What stands inside an object that cannot be read is a part of it as well.
            end = _end_of_object(text, beginning.start())
            yield f"the JSON object cannot be read ({error.msg})"
            if end is None:
                return
            position = end
        except RecursionError:
            yield "the JSON object is nested too deeply"
            return
        except ValueError as error:  # a number too long for anybody
            end = _end_of_object(text, beginning.start())
            yield f"the JSON object cannot be read ({error})"
            if end is None:
                return
            position = end
        else:
            yield found


def _end_of_object(text: str, start: int) -> int | None:
    """Where the object that begins at ``start`` ends, by its braces outside texts; None where it does not."""
    depth, quoted = 0, False
    for token in _BRACES.finditer(text, start):
        sign = token.group()
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in "{}":
            depth += 1 if sign == "{" else -1
            if depth == 0:
                return token.end()
    return None


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object with its keys in small letters. Raises ``_ContradictionError`` for a key with two values."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        name = key.strip().lower()
        if name in found and found[name] != value:
            raise _ContradictionError(f"the key {name!r} comes twice, with different values")
        found[name] = value
    return found


def _read(found: dict[str, Any], digits: int, num_classes: int, moves_allowed: bool) -> Parsed:
    try:
        found = _called(found)
    except _ContradictionError as error:
        return Parsed(problem=str(error))
    if "action" not in found:
        inner = [_read(value, digits, num_classes, moves_allowed) for value in _inner_objects(found)]
        acting = [read for read in inner if read.action is not None]
        # What several objects side by side mean inside another one is anybody's guess.
        if len(acting) == 1:
            return acting[0]
        if acting:
            return Parsed(problem="several actions inside one object")
        problems = [read.problem for read in inner if read.problem]
        return Parsed(problem=problems[-1] if problems else "the JSON object has no key 'action'")
    action = _word(found["action"])
    thought = found.get("thought")
    place = map_entry(found.get("spatial_map"))
    kept: dict[str, Any] = {
        "thought": sendable(thought) if isinstance(thought, str) else None,
        "place": place,
    }
    if action in _ANSWERS:
        answer, problem = _answer(found, digits, num_classes)
        return Parsed(problem=problem) if answer is None else Parsed(ANSWER, answer, **kept)
    if action in _MOVING or _direction(action) in MOVES:
        if not moves_allowed:
            return Parsed(problem="a move where an answer is asked for")
        words = (action, _word(found.get("direction")))
        named = {_direction(word) for word in words if word and word not in _MOVING}
        if len(named) != 1 or not named <= set(MOVES):
            said = found.get("direction")
            return Parsed(problem=f"a move with direction {said!r}; expected {', '.join(MOVES)}")
        return Parsed(named.pop(), **kept)
    return Parsed(problem=f"unknown action {found['action']!r}")


def _called(found: dict[str, Any]) -> dict[str, Any]:
    """An object in the shape of a tool's call as the object of the protocol that it means; others as they are."""
    name = found.get("name")
    given = [found[key] for key in _ARGUMENTS if key in found]
    if "action" in found or not isinstance(name, str) or len(given) != 1:
        return found
    arguments = given[0]
    if isinstance(arguments, str):
        try:
            decoder = json.JSONDecoder(object_pairs_hook=_without_twins, strict=False)
            arguments = decoder.decode(arguments.strip() or "{}")
        except _ContradictionError:
            raise
        except (ValueError, RecursionError):
            return found
    if not isinstance(arguments, dict):
        return found
    if "action" in arguments and _word(arguments["action"]) != _word(name):
        raise _ContradictionError(f"a call of {name!r} with another action, {arguments['action']!r}")
    return {**arguments, "action": name}


def _direction(word: str) -> str:
    """The direction that a word or a phrase means; itself where it means none."""
    phrase = _PHRASE.fullmatch(word)
    word = word if phrase is None else phrase.group(1)
    return _DIRECTIONS.get(word, word)


def _inner_objects(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for value in found.values():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                yield item


def _word(value: Any) -> str:
    return value.strip().rstrip(".!").rstrip().lower() if isinstance(value, str) else ""


def _answer(
    found: dict[str, Any], digits: int, num_classes: int
) -> tuple[tuple[int, ...] | None, str | None]:
    given = [found[key] for key in _VALUE_KEYS if found.get(key) is not None]
    if not given:
        return None, "an answer without a value"
    read = {_digits(value, digits, num_classes) for value in given}
    if len(read) > 1:
        return None, "an answer with different values"
    answer = read.pop()
    if answer is None:
        expected = f"{digits} digits" if digits > 1 else "a digit"
        return (
            None,
            f"an answer with value {str(given[0])[:40]!r}; expected {expected}, 0 to {num_classes - 1}",
        )
    return answer, None


def _digits(value: Any, digits: int, num_classes: int) -> tuple[int, ...] | None:
    """The digits of a value: "73", 73, "7 3", "7, 3", [7, 3]; None where it is not exactly ``digits`` of them.

    A number of fewer digits (3 for "03") is none: whether the zero was meant, only a guess could say.
    """
    if isinstance(value, list):
        if any(isinstance(item, list) for item in value):
            return None
        parts = [_digits(item, 1, num_classes) for item in value]
        if len(parts) != digits or None in parts:
            return None
        return tuple(part[0] for part in parts if part is not None)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    if digits == 1 and word in _WORDS:
        word = str(_WORDS[word])
    word = re.sub(r"(?<=[0-9])\s*[,\s]\s*(?=[0-9])", "", word) if digits > 1 else word
    if len(word) != digits or any(letter not in "0123456789" for letter in word):
        return None
    read = tuple(int(letter) for letter in word)
    return read if max(read) < num_classes else None


def map_entry(value: Any) -> Mapping[str, Any] | None:
    """This turn's entry of a map: an object, or the last one of a list; None where it is neither, or has no place."""
    if isinstance(value, list) and value:
        value = value[-1]
    if not isinstance(value, dict):
        return None
    coords, features = value.get("coords"), value.get("features")
    if not isinstance(coords, list) or len(coords) != 2:
        return None
    if any(isinstance(part, bool) or not isinstance(part, int) or abs(part) > 10**6 for part in coords):
        return None
    said = features if isinstance(features, str) else json.dumps(features)
    return {"coords": coords, "features": sendable(said)}
