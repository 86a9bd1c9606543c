"""From replies to actions: what counts, what does not, and that an answer is never guessed."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnistpro_jax.host.contract import MOVES
from mnistpro_jax.host.parser import parse_reply
from mnistpro_jax.host.problems import BARE_NUMBER

UP = '{"action": "move", "direction": "up"}'
SEVEN = '{"action": "answer", "value": "7"}'


@pytest.mark.parametrize("move", MOVES)
def test_moves(move: str) -> None:
    assert parse_reply(json.dumps({"action": "move", "direction": move})).action == move


@pytest.mark.parametrize(
    ("text", "digits", "answer"),
    [
        (SEVEN, 1, (7,)),
        ('{"action": "answer", "value": 7}', 1, (7,)),
        ('{"action": "answer", "answer": "7"}', 1, (7,)),
        ('{"action": "ANSWER", "Value": " 7 "}', 1, (7,)),
        ('{"action": "submit", "value": "seven"}', 1, (7,)),
        ('{"action": "answer", "value": "07"}', 2, (0, 7)),
        ('{"action": "answer", "value": "0 7"}', 2, (0, 7)),
        ('{"action": "answer", "value": "0, 7"}', 2, (0, 7)),
        ('{"action": "answer", "value": [0, "7"]}', 2, (0, 7)),
        ('{"action": "answer", "value": 123}', 3, (1, 2, 3)),
    ],
)
def test_answers(text: str, digits: int, answer: tuple[int, ...]) -> None:
    parsed = parse_reply(text, digits)
    assert (parsed.action, parsed.answer, parsed.problem) == ("answer", answer, None)


@pytest.mark.parametrize(
    "text",
    [
        f"I see a curve.\n{UP}",
        f"```json\n{UP}\n```\nThat is my move.",
        f"[{UP}]",
        f'{{"response": {UP}}}',
        '{"action": "up"}',
        '{"action": "go", "direction": "up"}',
        '{"action": "go up"}',
        '{"action": "Move up."}',
        '{"action": "move", "direction": "up."}',
        '{"action": "move", "direction": "go up"}',
        '{"action": "go to the north"}',
        '{"name": "move", "arguments": {"direction": "up"}}',
        '{"name": "move", "arguments": "{\\"direction\\": \\"up\\"}"}',
        '{"name": "go_up", "parameters": {}}',
        '{"type": "function", "function": {"name": "move", "arguments": "{\\"direction\\": \\"up\\"}"}}',
        '{"tool_calls": [{"function": {"name": "up", "arguments": ""}}]}',
        '<tool_call>{"name": "move", "arguments": {"Direction": "UP", "thought": "t"}}</tool_call>',
        '{"action": "MOVE", "direction": "North"}',
        '{"action": "move", "direction": "upwards", "value": null}',
        f"The set {{1, 2}} and \\frac{{a}}{{b}}, so: {UP}",
        f"<think>{SEVEN}</think>{UP}",
        f"First {SEVEN}, no: {UP}",
        f'{UP} {{"action": "jump"}}',
        '{"thought": "a } brace and a \\" quote", "action": "move", "direction": "up"}',
        '{"thought": "two\nlines and a\ttab", "action": "move", "direction": "up"}',
        f"{SEVEN} it thought aloud</think>{UP}",
        f'{{"plan": {SEVEN}, "action": "jump",}} {UP}',
    ],
)
def test_an_object_counts_wherever_it_stands(text: str) -> None:
    assert parse_reply(text).action == "up", parse_reply(text).problem


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("", 1),
        ("7", 1),
        ("The answer is 7.", 1),
        ('{"value": "7"}', 1),
        ('{"action": "answer"}', 1),
        ('{"action": "answer", "value": null}', 1),
        ('{"action": "answer", "value": "7 or 1"}', 1),
        ('{"action": "answer", "value": "?"}', 1),
        ('{"action": "answer", "value": "12"}', 1),
        ('{"action": "answer", "value": "-7"}', 1),
        ('{"action": "answer", "value": true}', 1),
        ('{"action": "answer", "value": 7.0}', 1),
        # What stands inside an object that cannot be read is no reply of its own.
        (f'{{"plan": {SEVEN}, "action": "move", "direction": "up",}}', 1),
        (f'{{"plan": {SEVEN} /* sure */}}', 1),
        ('{"action": "answer", "value": ' + "[" * 900 + "7" + "]" * 900 + "}", 1),
        ('{"a": ' * 900 + SEVEN + "}" * 900, 1),
        ('{"action": "answer", "value": "\u0667"}', 1),  # a digit, but of another script
        ('{"action": "answer", "value": "7", "answer": "1"}', 1),
        ('{"action": "answer", "value": "7", "value": "1"}', 1),
        ('{"action": "answer", "value": 7}', 2),  # 07 or a digit missing?
        ('{"action": "answer", "value": "7"}', 2),
        ('{"action": "answer", "value": "712"}', 2),
        ('{"action": "move"}', 1),
        ('{"action": "move", "direction": "up or left"}', 1),
        ('{"action": "up", "direction": "down"}', 1),
        (f'{{"options": [{UP}, {SEVEN}]}}', 1),
        (f"<think>{SEVEN}</think>", 1),
        (f"<think>{SEVEN}", 1),
        ('{"action": "answer", "value": "7"', 1),
        (f'{{"draft": {SEVEN}, "action": "mo', 1),  # what stands in a torn object is not the reply
        ("{'action': 'answer', 'value': '7'}", 1),
    ],
)
def test_nothing_is_guessed(text: str, digits: int) -> None:
    parsed = parse_reply(text, digits)
    assert parsed.action is None and parsed.answer is None
    assert parsed.problem


def test_an_answer_alone_where_moves_are_not_allowed() -> None:
    assert parse_reply(UP, moves_allowed=False).action is None
    assert parse_reply(SEVEN, moves_allowed=False).answer == (7,)


def test_fewer_classes() -> None:
    assert parse_reply(SEVEN, num_classes=7).action is None


def test_what_the_memory_keeps() -> None:
    parsed = parse_reply(
        '{"thought": "a bow", "spatial_map": {"coords": [0, -1], "features": "bow"}, "action": "move", '
        '"direction": "up"}'
    )
    assert (parsed.thought, parsed.place) == ("a bow", {"coords": [0, -1], "features": "bow"})
    assert parse_reply('{"action": "up", "spatial_map": [{"coords": [1, 0], "features": "x"}]}').place == {
        "coords": [1, 0],
        "features": "x",
    }
    # A bad map or thought spoils the memory, not the action.
    odd = parse_reply('{"action": "up", "thought": 3, "spatial_map": {"coords": [1, true]}}')
    assert (odd.action, odd.thought, odd.place) == ("up", None, None)


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]":,\\ \n<>/think0123action moveupanswervalue', max_size=80))
def test_any_text_is_read(text: str) -> None:
    parsed = parse_reply(text)
    assert (parsed.action is None) == (parsed.problem is not None)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=30), st.text(max_size=30), st.sampled_from(MOVES))
def test_prose_without_braces_changes_nothing(before: str, after: str, move: str) -> None:
    for text in (before, after):
        if "{" in text or "<" in text:
            return
    assert parse_reply(f"{before}{json.dumps({'action': move})}{after}").action == move


@pytest.mark.parametrize("text", ['{"a":' * 20_000, "{" * 100_000, '{"a": "' * 20_000, "<think>" * 20_000])
def test_long_nonsense_is_read_in_a_moment(text: str) -> None:
    began = time.monotonic()
    assert parse_reply(text).action is None
    assert time.monotonic() - began < 5


def test_what_is_remembered_can_be_sent_again() -> None:
    """Half a surrogate pair is good JSON, and no text that a request could hold."""
    parsed = parse_reply(
        r'{"thought": "x \ud83d", "action": "up", "spatial_map": {"coords": [0, 1], "features": "\ud83d"}}'
    )
    assert parsed.thought == "x ?"
    assert parsed.place == {"coords": [0, 1], "features": "?"}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "move", "arguments": {"direction": "up", "action": "answer"}}',
        '{"name": "move", "arguments": "{\\"direction\\": \\"up\\", \\"direction\\": \\"down\\"}"}',
        '{"name": "move", "arguments": "up"}',
        '{"name": "move", "arguments": [1]}',
        '{"name": "move"}',
        '{"name": "up", "arguments": {}, "parameters": {}}',
        '{"action": "go up", "direction": "down"}',
        '{"action": "go"}',
        '{"action": "go up and answer"}',
        '{"action": "no up"}',
    ],
)
def test_calls_and_phrases_that_say_nothing(text: str) -> None:
    assert parse_reply(text).action is None


def test_a_call_answers() -> None:
    call = json.dumps({"name": "answer", "arguments": json.dumps({"value": "07", "thought": "seen"})})
    parsed = parse_reply(call, 2)
    assert (parsed.answer, parsed.thought) == ((0, 7), "seen")


@pytest.mark.parametrize(
    "text", ["7", " 7.", "The answer is 7", "**Answer: 7**", "7, 3", "<think>x</think>7"]
)
def test_a_bare_number_is_named(text: str) -> None:
    assert parse_reply(text).problem == BARE_NUMBER
    assert parse_reply(f"I see 7 strokes. {text}?").problem != BARE_NUMBER
