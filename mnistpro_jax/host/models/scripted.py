"""Agents that follow a script, to try out a run for free: they look at nothing but the number of the turn."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

from mnistpro_jax.host.contract import MOVES, Reader, Turn, Usage
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.parser import read_glimpse

_Script = Callable[[Turn], str]
_ROUND = ("right", "down", "left", "up")


def _move(direction: str) -> str:
    return json.dumps({"thought": f"going {direction}", "action": "move", "direction": direction})


def _answer(turn: Turn, digits: str) -> str:
    return json.dumps({"thought": "answering", "action": "answer", "value": digits[: turn.digits]})


def _chance(turn: Turn) -> random.Random:
    return random.Random(f"{turn.episode} {turn.step} {turn.attempt}")


def _random(turn: Turn) -> str:
    chance = _chance(turn)
    if turn.step + 1 >= turn.budget or chance.random() < 0.15:
        return _answer(turn, "".join(str(chance.randrange(10)) for _ in range(turn.digits)))
    return _move(chance.choice(MOVES))


def _circle(turn: Turn) -> str:
    return _move(_ROUND[turn.step % 4]) if turn.step < 8 else _answer(turn, "1" * turn.digits)


def _clumsy(turn: Turn) -> str:
    return "I am not sure." if _chance(turn).random() < 0.3 else _random(turn)


SCRIPTS: dict[str, tuple[str, _Script]] = {
    "answer": ("answers 0 at once", lambda turn: _answer(turn, "0" * turn.digits)),
    "circle": ("goes round twice, then answers 1", _circle),
    "random": ("moves at random, answers at random after some turns", _random),
    "clumsy": ("as random; three replies of ten say nothing", _clumsy),
    "mute": ("never says anything that can be read", lambda turn: "..."),
    "walk": ("moves at random and never answers", lambda turn: _move(_chance(turn).choice(MOVES))),
}
"""By name: one line on each, and what it replies."""


class ScriptedPolicy(TextPolicy):
    """An agent that follows a script of ``SCRIPTS``; the same turn of the same episode gets the same reply."""

    def __init__(self, script: str, reader: Reader = read_glimpse) -> None:
        super().__init__(reader)
        if script not in SCRIPTS:
            raise ValueError(f"unknown script {script!r}; expected one of {', '.join(SCRIPTS)}")
        self._script = SCRIPTS[script][1]

    async def reply(self, turn: Turn) -> Reply:
        """The script's reply; its usage counts four letters a token, so that a run shows some."""
        text = self._script(turn)
        return Reply(text, Usage(0, len(text) // 4))
