"""What is read from a request, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mnistpro_jax.demo_server import notes
from mnistpro_jax.demo_server.conversation import read_request
from mnistpro_jax.demo_server.wire import WireError
from tests.demo_server.talk import user

PIXEL = np.zeros((1, 1, 3), np.uint8)


def ask(*texts: str) -> Any:
    return read_request({"messages": [user(text, PIXEL) for text in texts]})


@pytest.mark.parametrize(
    ("text", "step", "budget", "last"),
    [
        ("Turn 3 of 36; 34 left, this one included.", 2, 36, False),
        ("Step 36/36.", 35, 36, True),
        ("Go on.", None, None, False),
        ("This is your last turn: answer now.", None, None, True),
        ("You see the pictures of the last turns.", None, None, False),
        ("1 step left", None, None, True),
        ("11 steps left", None, None, False),
    ],
)
def test_clock(text: str, step: int | None, budget: int | None, last: bool) -> None:
    conversation = ask("rules", text)
    assert (conversation.step, conversation.budget, conversation.last_turn) == (step, budget, last)


def test_newest_pictures_are_those_of_the_last_message_that_has_any() -> None:
    messages = [user("a", PIXEL, PIXEL), {"role": "assistant", "content": "b"}, user("c", PIXEL)]
    conversation = read_request({"messages": [{"role": "system", "content": 'the key "thought"'}, *messages]})
    assert len(conversation.pictures) == 3
    assert conversation.newest == 1
    assert conversation.keys == {"thought"}
    assert read_request({"messages": messages[:2]}).newest == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([], "messages is missing"),
        ({}, "messages is missing"),
        ({"messages": []}, "messages is missing"),
        ({"messages": ["hello"]}, "has no role"),
        ({"messages": [{"role": "user", "content": "hello"}]}, "no picture"),
        ({"messages": [{"role": "user", "content": 3}]}, "neither text nor"),
        ({"messages": [{"role": "user", "content": [{"type": "audio"}]}]}, "'audio'"),
        ({"messages": [user("", PIXEL)], "stream": True}, "does not stream"),
        ({"messages": [user("", PIXEL)], "n": 2}, "one choice"),
    ],
)
def test_bad_requests(body: Any, message: str) -> None:
    with pytest.raises(WireError, match=message):
        read_request(body)


def test_notes_lose_nothing_and_the_last_whole_one_counts() -> None:
    rng = np.random.default_rng(1)
    known = rng.random((224, 448)) < 0.3
    stroke = known & (rng.random((224, 448)) < 0.2)
    old = notes.write((1, 2), known & False, stroke & False)
    new = notes.write((31, 5), known, stroke)
    found = notes.read(f"turn 1: {old}\nturn 2: {new}.", (224, 448))
    assert found is not None and found[0] == (31, 5)
    np.testing.assert_array_equal(found[1], known)
    np.testing.assert_array_equal(found[2], stroke)
    torn = notes.read(f"{old}\n{new[: len(new) // 2]}", (224, 448))
    assert torn is not None and torn[0] == (1, 2)
    assert notes.read(new, (224, 224)) is None
    assert notes.read("start 1,2 seen abcd ink abcd", (224, 224)) is None
    assert notes.read("nothing", (224, 224)) is None
