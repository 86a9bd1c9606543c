"""From the text of a reply to an action by the rules of the published reference, for comparisons with its runs.

Source: the code of arXiv 2608.31022 (``mnist_pro/agents/agent.py`` and ``env.py``). What stands between the first and
the last brace is the JSON, all of it. A further attempt is made only where that cannot be read; whatever it says is
final. Words count as they stand. An answer of one digit is what Python's ``int`` makes of it, one of several digits is
its text.

One thing is named otherwise: an answer that is no digits ends the episode there as a wrong answer, here as an invalid
action. Score, steps and return are the same.
"""

from __future__ import annotations

import json
from typing import Any

from mnistpro_jax.host.contract import ANSWER, MOVES, Decision, Status, Turn, sendable
from mnistpro_jax.host.parser import map_entry


def read_published(text: str, turn: Turn, *, num_classes: int = 10, moves_allowed: bool = True) -> Decision:
    """A reply as a decision: a ``Reader``. Never raises for any text.

    num_classes: each digit is 0 .. num_classes - 1. moves_allowed: False in the control, where the value counts
    whatever the action is, and one attempt is all.
    """
    try:
        found = json.loads(_between_braces(text))
    except (ValueError, RecursionError) as error:
        return Decision(
            Status.UNPARSEABLE, problem=f"no JSON between the braces ({error})"[:200], final=not moves_allowed
        )
    if not isinstance(found, dict):
        return _final(f"the JSON is no object but {type(found).__name__}")
    kept: dict[str, Any] = {
        "thought": sendable(found["thought"]) if isinstance(found.get("thought"), str) else None,
        "place": map_entry(found.get("spatial_map")),
    }
    action, direction = found.get("action"), found.get("direction")
    if moves_allowed and action == "move":
        if isinstance(direction, str) and direction in MOVES:
            return Decision(Status.OK, direction, **kept)
        return _final(f"a move with direction {direction!r}")
    if moves_allowed and action != ANSWER:
        return _final(f"unknown action {action!r}")
    digits = _digits(found.get("value"), turn.digits, num_classes)
    if digits is None:
        return _final(f"an answer with value {found.get('value')!r}")
    return Decision(Status.OK, ANSWER, digits, **kept)


def _final(problem: str) -> Decision:
    return Decision(Status.UNPARSEABLE, problem=sendable(problem)[:200], final=True)


def _between_braces(text: str) -> str:
    first, last = text.find("{"), text.rfind("}")
    return text[first : last + 1] if 0 <= first < last else text


def _digits(value: Any, digits: int, num_classes: int) -> tuple[int, ...] | None:
    """The digits of a value that can be right; None where it is wrong whatever the label is."""
    if digits == 1:
        try:
            read = (int(value),)
        except (TypeError, ValueError, OverflowError):
            return None
        return read if 0 <= read[0] < num_classes else None
    said = str(value).strip()
    if len(said) != digits or any(letter not in "0123456789" for letter in said):
        return None
    read_all = tuple(map(int, said))
    return read_all if max(read_all) < num_classes else None
