"""What was wrong with replies, by kind, with what to do about the kinds that one can do something about."""

from __future__ import annotations

import collections

TOOL_CALL = "a call of a tool, though none was offered"
ONLY_REASONING = "no text but in what the model thought"
NO_CALL = "no call of a tool"
BARE_NUMBER = "a number without the JSON object"

_HINTS = {
    TOOL_CALL: "the server may have a tool parser switched on; switch it off",
    ONLY_REASONING: "the model or its server keeps the text from the reply; raise --max-tokens, or lower "
    "--reasoning-effort",
    NO_CALL: "the model or its server may not call tools; see whether it needs a tool parser switched on",
    BARE_NUMBER: "try --retry explain, or a prompt pack with words that the model follows",
    "nothing but thinking": "raise --max-tokens, or lower --reasoning-effort",
    "the reply is empty": "see whether the server writes the text elsewhere, or takes no pictures",
    "the JSON object is torn": "raise --max-tokens",
    "cut off at a limit": "raise --max-tokens",
    "holds no JSON object": "try --retry explain, or a prompt pack with words that the model follows",
}
_SHOWN = 120


def commonest(problems: collections.Counter[str], count: int) -> list[str]:
    """The commonest problems, the commonest first: "12 times: PROBLEM (HINT)"."""
    ordered = sorted(problems.items(), key=lambda item: (-item[1], item[0]))
    return [f"{times} times: {described(problem)}" for problem, times in ordered[:count]]


def described(problem: str) -> str:
    """A problem with its hint, if there is one, for a line."""
    shown = problem if len(problem) <= _SHOWN else f"{problem[:_SHOWN]} ..."
    found = hint(problem)
    return shown if found is None else f"{shown} ({found})"


def hint(problem: str) -> str | None:
    """What a user may do about a problem."""
    return next((text for kind, text in _HINTS.items() if kind in problem), None)
