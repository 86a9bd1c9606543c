"""Players with tools: what each call does, what a model is sent, and that nothing is paid for twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnistpro_jax.cli import main
from mnistpro_jax.host.prompts import TOOLS, load_pack
from mnistpro_jax.host.protocol import World
from mnistpro_jax.host.tools.desk import Kind
from mnistpro_jax.host.tools.request import ToolRequest
from mnistpro_jax.host.tools.rules import ToolRules
from mnistpro_jax.runs.load import load_run
from mnistpro_jax.runs.records import read_episodes
from tests.host.fake_server import Answer, Body, FakeServer, chat, fault
from tests.host.test_run import asking, one_line, summary_of
from tests.host.tool_scripts import Call, calls, pictures, replies_of, results, scripted

pytest.importorskip("openai")

WORLD = World(224, 224, 64, 32, 1, 10, 6, True)
MOVES = ("up", "down", "left", "right")
MOVE: Call = ("move", {"direction": "up"})
SUBMIT: Call = ("submit", {"value": "7"})


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNISTPRO_API_KEY", raising=False)


def rules(**changes: Any) -> ToolRules:
    return ToolRules(WORLD, load_pack(TOOLS, TOOLS), ToolRequest(**changes))


def tool_run(server: FakeServer, out: Path, *more: str) -> list[str]:
    return [*asking(server, out, "--harness", "tools", "--limit", "1", "--retries", "0"), *more]


def play(out: Path, script: Any, *more: str) -> tuple[FakeServer, dict[str, Any]]:
    """One episode by a script: the server, and its record."""
    with FakeServer(scripted(script)) as server:
        assert main(tool_run(server, out, *more)) == 0
    (record,) = read_episodes(out)
    return server, record


# ---- The desk ------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["move", "view_image", "submit", "fly", ""]),
            st.sampled_from(
                [
                    *({"direction": move} for move in MOVES),
                    {"value": "7"},
                    {"value": "77"},
                    {"value": 7},
                    {"value": "\uff17"},
                    {},
                    {"image": "0"},
                    {"image": "nothing"},
                    {"direction": "up", "speed": 2},
                    "no json",
                    "[1]",
                    None,
                ]
            ),
        ),
        max_size=60,
    )
)
def test_whatever_is_called(made: list[tuple[str, Any]]) -> None:
    """At most the budget's pictures, one answer, faults and looks without effect, and a word on everything."""
    desk = rules().desk()
    said = [desk.expose("0", b"png")]
    answers = 0
    for name, arguments in made:
        before = (len(desk.pictures), desk.over)
        result = desk.call(name, json.dumps(arguments) if isinstance(arguments, dict) else arguments)
        if result.kind == Kind.ACTION:
            assert result.decision is not None
            answers += result.decision.action == "answer"
            if result.decision.action != "answer":
                said.append(desk.expose(str(len(desk.pictures)), b"png"))
        else:
            assert (len(desk.pictures), desk.over) == before
            said.append(result.text)
        assert len(desk.pictures) <= WORLD.budget and answers <= 1 and desk.over == bool(answers)
    assert desk.faulty + desk.refused + desk.views <= len(made)
    assert all(said)


def test_arguments_and_limits() -> None:
    desk = rules().desk()
    desk.expose("a", b"1")
    assert "Observation 1 of 6; 5 moves left" in rules().desk().expose("a", b"")
    assert rules(counter=False).desk().expose("a", b"") == "Picture a."
    assert desk.call("view_image", "").image == desk.call("view_image", '{"image": "a"}').image == "a"
    for _ in range(desk.limits.views):
        desk.call("view_image", {})
    assert desk.call("view_image", {}).kind == Kind.FAULT
    for image in "bcdef":
        assert desk.call("move", {"direction": "up"}).kind == Kind.ACTION
        said = desk.expose(image, b"2")
    assert "submit your answer now" in said and desk.moves_left == 0
    assert desk.call("move", {"direction": "up"}).kind == Kind.REFUSED
    assert desk.call("submit", {"value": "3"}).decision is not None
    assert desk.call("submit", {"value": "3"}).kind == desk.call("fly", {}).kind == Kind.OVER


# ---- The model -----------------------------------------------------------------------------------------------


def test_what_a_model_is_sent(tmp_path: Path) -> None:
    server, record = play(tmp_path, [[MOVE], [("move", {"direction": "left"})], [SUBMIT]])
    assert (record["actions"], record["answer"], record["steps"]) == (["up", "left", "answer"], [7], 3)
    assert (record["calls"], record["input_tokens"]) == (3, 300)
    first, _, last = server.requests
    assert [tool["function"]["name"] for tool in first["tools"]] == ["move", "view_image", "submit"]
    assert all(tool["function"]["parameters"]["additionalProperties"] is False for tool in first["tools"])
    assert first["parallel_tool_calls"] is False
    assert [message["role"] for message in first["messages"]] == ["system", "user"]
    assert [message["role"] for message in last["messages"]] == [
        *("system", "user", "assistant", "tool", "user", "assistant", "tool", "user"),
    ]
    assert len(pictures(last)) == 3 and len(set(pictures(last))) >= 2
    said = json.dumps(last["messages"])
    assert (
        "MNIST" not in said
        and str(record["indices"][0]) not in said
        and str(record["windows"][0]) not in said
    )
    # The pictures are those of the turns, and so is the record that is left.
    run = load_run(tmp_path)
    assert (run.setting.harness, run.setting.memory) == ("tools", "own")


def test_queued_calls_cost_no_further_reply(tmp_path: Path) -> None:
    server, record = play(tmp_path, [[MOVE, ("view_image", {}), MOVE], [SUBMIT, MOVE]])
    assert record["actions"] == ["up", "up", "answer"] and record["calls"] == server.count == 2
    (last,) = server.requests[1:]
    assert len(results(last)) == 3 and "shown again" in results(last)[1]
    assert len(pictures(last)) == 4  # the first one, two of moves, one shown again


@pytest.mark.parametrize("horizon", ["1", "2"])
def test_older_pictures_become_a_line(tmp_path: Path, horizon: str) -> None:
    server, _ = play(tmp_path, [[MOVE], [MOVE], [MOVE], [SUBMIT]], "--horizon", horizon)
    for number, body in enumerate(server.requests, start=1):
        assert len(pictures(body)) == min(number, int(horizon))
    assert json.dumps(server.requests[-1]).count("is not repeated here") == 4 - int(horizon)


def test_pictures_in_the_tools_messages(tmp_path: Path) -> None:
    server, _ = play(tmp_path, [[MOVE], [MOVE], [SUBMIT]], "--pictures-in", "tool")
    roles = [message["role"] for message in server.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert len(pictures(server.requests[-1])) == 3


def test_faults_are_told_and_counted(tmp_path: Path) -> None:
    script = [
        [("fly", {})],
        [("move", {"direction": "north"})],
        [("move", "no json")],
        [("submit", {"value": "77"})],
        [("view_image", {"image": "x", "path": "/etc/passwd"})],
        [SUBMIT],
    ]
    server, record = play(tmp_path, script)
    assert (record["steps"], record["faulty_calls"], record["status"]) == (1, 5, "ok")
    told = results(server.requests[-1])
    for text, word in zip(
        told, ("no tool", "direction", "no JSON object", "value", "no argument"), strict=True
    ):
        assert word in text and text.endswith("Nothing was done.")


@pytest.mark.parametrize(
    ("script", "stopped", "requests"),
    [
        (["I would say 7."], "no answer", 4),
        ([[("fly", {})]], "faulty calls", 20),
        ([[("view_image", {})]], "calls", 3 * 36 + 20),
    ],
)
def test_an_episode_without_an_answer(tmp_path: Path, script: Any, stopped: str, requests: int) -> None:
    server, record = play(tmp_path, script, "--keep-going")
    assert (record["status"], record["stopped"], record["correct"]) == ("unparseable", stopped, False)
    assert record["ending"] == "INVALID_ACTION"
    assert server.count == requests


def test_a_word_without_a_call_is_answered(tmp_path: Path) -> None:
    replies = [chat("Let me see."), chat(""), calls(SUBMIT)]
    with FakeServer(lambda body, number: replies[number]) as server:
        assert main(tool_run(server, tmp_path)) == 0
    (record,) = read_episodes(tmp_path)
    assert record["status"] == "ok"
    roles = [message["role"] for message in server.requests[-1]["messages"]]
    assert roles == ["system", "user", "assistant", "user", "user"]


@pytest.mark.parametrize(
    ("item", "status"),
    [
        (chat(None, refusal="no"), "refused"),
        (chat("so lon", finish="length"), "truncated"),
    ],
)
def test_what_is_withheld_is_no_answer(tmp_path: Path, item: Answer, status: str) -> None:
    _, record = play(tmp_path, [[MOVE], item])
    assert (record["status"], record["correct"], record["calls"]) == (status, None, 2)


def test_a_server_that_does_not_know_a_field(tmp_path: Path) -> None:
    def respond(body: Body, number: int) -> Answer:
        if "parallel_tool_calls" in body:
            return fault(400, "unknown field parallel_tool_calls")
        return scripted([[MOVE], [SUBMIT]])(body, number)

    with FakeServer(respond) as server:
        assert main(tool_run(server, tmp_path)) == 0
    assert server.count == 3


def test_an_unknown_field_of_a_message_goes_back(tmp_path: Path) -> None:
    def respond(body: Body, number: int) -> Answer:
        status, headers, sent = scripted([[MOVE], [SUBMIT]])(body, number)
        loaded = json.loads(sent)
        loaded["choices"][0]["message"]["extra"] = {"signature": "s" * 40}
        return status, headers, json.dumps(loaded).encode()

    with FakeServer(respond) as server:
        assert main(tool_run(server, tmp_path)) == 0
    assert server.requests[-1]["messages"][2]["extra"] == {"signature": "s" * 40}


def test_an_interrupted_run_goes_on_in_mid_episode(tmp_path: Path) -> None:
    """At every request once: nothing that was answered is asked again, and all comes to the same."""
    script = [[MOVE, ("view_image", {})], "hm", [("fly", {})], [MOVE, MOVE], [SUBMIT]]
    undisturbed, expected = play(tmp_path / "whole", script)

    for at in range(undisturbed.count):
        strike = [at]

        def respond(body: Body, number: int, strike: list[int] = strike) -> Answer:
            if strike and replies_of(body) == strike[0]:
                strike.pop()
                os.kill(os.getpid(), signal.SIGINT)
            return scripted(script)(body, number)

        out = tmp_path / str(at)
        with FakeServer(respond, latency=0.01) as server:
            assert main(tool_run(server, out)) == 130
            assert main(tool_run(server, out)) == 0
        assert server.count == undisturbed.count
        (record,) = read_episodes(out)
        for name in ("latency_s", "cost"):
            record.pop(name), expected.pop(name, None)
        assert record == expected
        assert summary_of(out)["input_tokens"] == 100 * undisturbed.count


@pytest.mark.parametrize(
    "message",
    [
        {"tool_calls": [{"id": "a"}]},
        {"tool_calls": ["move"]},
        {"tool_calls": [{"id": "a", "function": {"name": 7, "arguments": {"direction": "up"}}}]},
        {"tool_calls": [{"id": "a", "function": "move"}], "content": []},
        {"content": "x" * 300_000},
    ],
)
def test_messages_that_are_none_of_the_format(tmp_path: Path, message: dict[str, Any]) -> None:
    """They are faulty calls, or none, and never the end of the run."""
    body = json.loads(chat(None)[2])
    body["choices"][0]["message"] = {"role": "assistant", **message}
    odd = (200, {}, json.dumps(body).encode())
    with FakeServer(lambda asked, number: odd if number == 0 else calls(SUBMIT)) as server:
        assert main(tool_run(server, tmp_path)) == 0
    (record,) = read_episodes(tmp_path)
    assert record["status"] == ("unparseable" if "tool_calls" not in message else "ok")


def test_a_model_that_calls_nothing_stops_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(scripted(["I would say 7."])) as server:
        assert main(asking(server, tmp_path, "--harness", "tools", "--retries", "0")) == 1
    said = capsys.readouterr().err
    assert "no call of a tool" in said and "--keep-going" in said and "tool parser" in said


def test_the_order_is_shuffled_and_goes_back_to_the_list(tmp_path: Path) -> None:
    with FakeServer(scripted([[SUBMIT]])) as server:
        given = asking(server, tmp_path, "--harness", "tools", "--concurrency", "1")
        assert main([*given, "--limit", "3"]) == 0
        first = [record["episode"] for record in read_episodes(tmp_path)]
        assert first != [0, 1, 2] and len(first) == 3
        assert main(given) == 0
        assert main([*given, "--order-seed", "1"]) == 2
    assert [record["episode"] for record in read_episodes(tmp_path)] == list(range(6))


@pytest.mark.parametrize("horizon", ["all", "2"])
def test_a_dry_run_counts_what_a_run_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], horizon: str
) -> None:
    given = ["--harness", "tools", "--horizon", horizon, "--limit", "1"]
    with FakeServer(scripted([[MOVE], [MOVE], [SUBMIT]])) as server:
        assert main(asking(server, tmp_path, *given, "--dry-run", "--assume-steps", "3")) == 0
        found = json.loads(capsys.readouterr().out)
        assert server.count == 0 and found["at_most"]["calls"] == 36
        assert main(asking(server, tmp_path, *given)) == 0
    assert found["assumed"]["calls"] == server.count
    assert found["assumed"]["pictures"] == sum(len(pictures(body)) for body in server.requests)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--model", "scripted:random"], "not behind an API"),
        (["--driver", "bridge"], "driver is 'bridge'"),
        (["--memory", "textual"], "memory is 'textual'"),
        (["--parser", "published"], "parser is 'published'"),
        (["--retry", "explain"], "retry is 'explain'"),
        (["--attempts", "2"], "attempts is 2"),
        (["--detail", "low"], "detail is 'low'"),
        (["--again", "refused"], "again is ('refused',)"),
    ],
)
def test_what_makes_no_sense(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    given = [
        "run",
        "--model",
        "openai-compatible:x",
        "--base-url",
        "http://127.0.0.1:9/v1",
        "--harness",
        "tools",
    ]
    assert main([*given, "--out", str(tmp_path / "run"), *more]) == 2
    assert said in one_line(capsys)


def test_calls_of_a_reply_are_as_the_format_has_them() -> None:
    body = json.loads(calls(MOVE, number=3)[2])
    assert body["choices"][0]["message"]["tool_calls"][0]["id"] == "call_3_0"
