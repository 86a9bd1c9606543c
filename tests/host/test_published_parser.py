"""The published rules of reading: what they take, what ends an episode at once, and what is asked again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnistpro_jax.host.contract import Decision, Status, Turn, Usage
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.published_parser import read_published
from mnistpro_jax.host.world import HostWorld
from tests.host.helpers import play, protocol


def turn(digits: int = 1) -> Turn:
    return Turn(0, 0, 36, 1, digits, (), (), "")


def answer(value: Any) -> str:
    return json.dumps({"action": "answer", "value": value})


@pytest.mark.parametrize(
    ("value", "digits", "expected"),
    [
        ("7", 1, (7,)),
        (7, 1, (7,)),
        (7.0, 1, (7,)),
        (7.9, 1, (7,)),
        (" 07 ", 1, (7,)),
        ("+7", 1, (7,)),
        ("\uff17", 1, (7,)),  # full-width
        (True, 1, (1,)),
        ("07", 2, (0, 7)),
        (73, 2, (7, 3)),
        (" 73 ", 2, (7, 3)),
    ],
)
def test_answers(value: Any, digits: int, expected: tuple[int, ...]) -> None:
    assert read_published(answer(value), turn(digits)).answer == expected


@pytest.mark.parametrize(
    ("value", "digits"),
    [("7.0", 1), ("seven", 1), (None, 1), ("12", 1), (-1, 1), ([7], 1), ("1e400", 1), ("7, 3", 2), ("7 3", 2)]
    + [(7, 2), ("073", 2), ("\uff17\uff13", 2), ([7, 3], 2)],
)
def test_answers_that_are_wrong_at_once(value: Any, digits: int) -> None:
    decision = read_published(answer(value), turn(digits))
    assert decision.status == Status.UNPARSEABLE and decision.final


@pytest.mark.parametrize(
    ("text", "action", "final"),
    [
        ('{"action": "move", "direction": "up"}', "up", False),
        ('I go. {"action": "move", "direction": "up", "note": {"a": 1}} Done.', "up", False),
        ('{"action": "move", "direction": "Up"}', None, True),
        ('{"action": "move", "direction": "north"}', None, True),
        ('{"action": "up"}', None, True),
        ('{"action": "Move", "direction": "up"}', None, True),
        ('{"action": "move"}', None, True),
        ("[1, 2]", None, True),
        ("7", None, True),
        ("null", None, True),
        ("", None, False),
        ("up", None, False),
        # From the first brace to the last one, whatever stands between.
        ('{"action": "move", "direction": "up"} {"action": "move", "direction": "up"}', None, False),
        ('The set {1, 2}: {"action": "move", "direction": "up"}', None, False),
        ('<think>{</think>{"action": "move", "direction": "up"}', None, False),
        ('{"action": "move", "direction": "up"', None, False),
        ('{"action": "move", "action": "answer", "direction": "up", "value": "1"}', "answer", False),
        ("[" * 100_000, None, False),
        ("1" * 10_000, None, False),
    ],
)
def test_what_is_asked_again_and_what_is_final(text: str, action: str | None, final: bool) -> None:
    decision = read_published(text, turn())
    assert (decision.action, decision.final) == (action, final)


def test_the_control_reads_the_value_alone_and_once() -> None:
    def read(text: str) -> Decision:
        return read_published(text, turn(), moves_allowed=False)

    assert read('{"value": "7"}').answer == (7,)
    assert read('{"action": "move", "direction": "up", "value": 7}').answer == (7,)
    assert read("7").final and read("").final and read('{"action": "move", "direction": "up"}').final


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_it_never_raises(text: str) -> None:
    for digits in (1, 2):
        read_published(text, turn(digits))
        read_published(answer(text), turn(digits))


def test_a_final_reply_takes_no_further_attempt(world: HostWorld) -> None:
    asked: list[int] = []

    class Spoken(TextPolicy):
        async def reply(self, turn: Turn) -> Reply:
            asked.append(turn.episode)
            texts = ('{"action": "move", "direction": "nowhere"}', "hm")
            return Reply(texts[turn.episode], Usage())

    played = play(world, protocol(world), Spoken(read_published), range(2))
    assert [one.status for one in played] == [Status.UNPARSEABLE] * 2
    assert sorted(asked) == [0, 1, 1, 1]
    assert [one.record["ending"] for one in played] == ["INVALID_ACTION"] * 2
