"""`mnistpro run` against servers that misbehave: what is failed, estimated, bound, said and played again."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.runs.records import read_episodes
from tests.host.fake_server import Answer, Body, FakeServer, chat, fault, turn_of, walker
from tests.host.test_run import CONCURRENCY, EPISODES, NEEDED, STEPS, asking, one_line, summary_of

pytest.importorskip("openai")

Respond = Callable[[Body, int], Answer]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNISTPRO_API_KEY", raising=False)
    monkeypatch.setattr(Retries, "__init__", _quick)


_INIT = Retries.__init__


def _quick(self: Retries, most: int = 0) -> None:
    _INIT(self, most=most, first_s=0.001, longest_s=0.002)


def changed(answer: Answer, **fields: Any) -> Answer:
    """A completion with other fields at its top."""
    status, headers, body = answer
    return status, headers, json.dumps({**json.loads(body), **fields}).encode()


def without_usage(steps: int = STEPS) -> Respond:
    return lambda body, number: changed(walker(steps)(body, number), usage=None)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.toml"
    path.write_text("[fake]\ninput = 1000\noutput = 10_000\n")
    return path


# ---- Time ----------------------------------------------------------------------------------------------------


def test_the_time_of_a_call_is_that_of_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A server that sends a space now and then never lets a limit of reading pass."""
    slow = (200, {"x-drip": "60"}, b"{}")
    began = time.monotonic()
    with FakeServer(lambda *_: slow) as server:
        assert main(asking(server, tmp_path, "--timeout", "0.3", "--retries", "0")) == 1
    assert time.monotonic() - began < 20
    assert "no whole reply within 0.3 s (--timeout)" in capsys.readouterr().err


@pytest.mark.parametrize("driver", ["free", "bridge"])
def test_an_interrupt_ends_the_waits_between_retries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    monkeypatch.setattr(Retries, "__init__", _INIT)
    stopped: list[float] = []

    def respond(body: Body, number: int) -> Answer:
        if number == CONCURRENCY - 1:
            stopped.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        return fault(503, retry_after="30")

    with FakeServer(respond) as server:
        assert main(asking(server, tmp_path, "--driver", driver)) == 130
        asked = server.count
    assert time.monotonic() - stopped[0] < 10
    assert asked == CONCURRENCY


def test_a_server_that_asks_for_too_long(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeServer(lambda *_: fault(429, "come back", retry_after="86400")) as server:
        assert main(asking(server, tmp_path)) == 1
    assert "asks to wait 86,400 s (Retry-After)" in capsys.readouterr().err
    assert server.count <= CONCURRENCY


# ---- Costs ---------------------------------------------------------------------------------------------------


def test_tokens_that_nobody_tells_are_estimated_and_said_so(
    tmp_path: Path, prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    with FakeServer(without_usage()) as server:
        assert main([*asking(server, out, "--price-file", str(prices))]) == 0
        summary = summary_of(out)
        assert summary["estimated_calls"] == summary["calls"] == NEEDED
        assert summary["input_tokens"] > 0 and summary["output_tokens"] > 0 and summary["cost"] > 0
        capsys.readouterr()
        # Again without asking anybody: the log knows that these are estimates.
        given = [word for word in asking(server, out, "--price-file", str(prices)) if word != "--json"]
        assert main(given) == 0
    assert "about " in capsys.readouterr().out
    assert summary_of(out) == summary and server.count == NEEDED


def test_without_a_price_the_cost_is_unknown(tmp_path: Path) -> None:
    with FakeServer(without_usage()) as server:
        assert main(asking(server, tmp_path)) == 0
    assert summary_of(tmp_path)["cost"] is None
    assert {record["cost"] for record in read_episodes(tmp_path)} == {None}


def test_a_limit_that_cannot_be_kept_stops_the_run(
    tmp_path: Path, prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    limited = ("--price-file", str(prices), "--max-cost", "30")
    with FakeServer(without_usage()) as server:
        assert main(asking(server, out, *limited)) == 1
        assert "the limit of cost, 30, cannot be kept" in capsys.readouterr().err
        assert server.count <= CONCURRENCY


def test_with_a_longest_reply_the_limit_is_kept(
    tmp_path: Path, prices: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call whose tokens nobody tells counts as the dearest that it may have been: 1 for its reply alone."""
    limited = ("--price-file", str(prices), "--max-cost", "9", "--max-tokens", "100")
    with FakeServer(without_usage()) as server:
        assert main(asking(server, tmp_path / "run", *limited)) == 1
        assert "raise --max-cost" in capsys.readouterr().err
        assert 1 <= server.count < 9
        asked = server.count
        # A session later counts as much.
        assert main(asking(server, tmp_path / "run", *limited)) == 1
        assert server.count == asked


def test_what_failed_replies_took_is_counted(tmp_path: Path) -> None:
    failed = changed(chat("", finish="error", usage=(70, 7)), error={"code": 502, "message": "upstream"})
    with FakeServer(lambda body, number: failed if number < 2 else walker(STEPS)(body, number)) as server:
        assert main(asking(server, tmp_path)) == 0
        expected = 100 * NEEDED + 2 * 70, 10 * NEEDED + 2 * 7
        for _ in range(2):  # as it was played, and from the log alone
            summary = summary_of(tmp_path)
            assert (summary["input_tokens"], summary["output_tokens"]) == expected
            assert summary["finish_reasons"] == {"stop": NEEDED, "error": 2}
            assert main(asking(server, tmp_path)) == 0
    assert server.count == NEEDED + 2


# ---- Strict servers ------------------------------------------------------------------------------------------


def strict(respond: Respond) -> Respond:
    """Refuses empty texts, system messages, and two messages of one role in a row."""

    def answer(body: Body, number: int) -> Answer:
        roles = [message["role"] for message in body["messages"]]
        texts = [
            part.get("text", "x")
            for message in body["messages"]
            for part in (
                message["content"] if isinstance(message["content"], list) else [{"text": message["content"]}]
            )
        ]
        if "system" in roles or any(a == b for a, b in itertools.pairwise(roles)):
            return fault(400, f"roles {roles}")
        if not all(text.strip() for text in texts):
            return fault(400, "an empty text")
        return respond(body, number)

    return answer


@pytest.mark.parametrize("memory", ["image-only", "natural", "grid-map", "full-image"])
def test_no_empty_text_and_no_system_role(tmp_path: Path, memory: str) -> None:
    """Every second reply is empty, the next one follows the rules."""
    talkative = chat('{"action": "answer", "value": "7"}')
    respond = strict(lambda body, number: chat(("", " \n")[number % 2]) if number % 4 < 2 else talkative)
    more = ("--system", "user", "--retry", "explain", "--memory", memory, "--attempts", "4")
    with FakeServer(respond) as server:
        assert main(asking(server, tmp_path, *more)) == 0
    assert summary_of(tmp_path)["statuses"]["ok"] == EPISODES
    said = json.dumps(server.requests[0]["messages"][0])
    assert (
        server.requests[0]["messages"][0]["role"] == "user" and "window" in said
    ) or memory == "full-image"


def test_headers_and_parameters_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MY_KEY", "az-secret-123")
    failing = [True]

    def respond(body: Body, number: int) -> Answer:
        if failing:
            failing.pop()
            return fault(500, "the key az-secret-123 is odd")
        return walker(STEPS)(body, number)

    more = ("--header", "api-key=MY_KEY", "--header", "x-team=MY_KEY", "--query", "api-version=2025-01-01")
    with FakeServer(respond) as server:
        assert main(asking(server, tmp_path, *more, "--limit", "1")) == 0
    assert server.headers[-1]["api-key"] == server.headers[-1]["x-team"] == "az-secret-123"
    assert "authorization" not in server.headers[-1]
    assert set(server.paths) == {"/v1/chat/completions?api-version=2025-01-01"}
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"az-secret" not in written and b"api-version" in written
    capsys.readouterr()
    monkeypatch.delenv("MY_KEY")
    assert main(asking(server, tmp_path / "other", *more)) == 2
    assert "set the environment's variable MY_KEY" in one_line(capsys)


def test_a_key_with_a_line_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MNISTPRO_API_KEY", "sk-12\n34")
    with FakeServer(walker(STEPS)) as server:
        assert main(asking(server, tmp_path / "run")) == 2
    assert "MNISTPRO_API_KEY holds a letter or a line break" in one_line(capsys)


def test_a_proxy_between_us_and_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with FakeServer(walker(STEPS)) as server:
        assert main(asking(server, tmp_path / "run", "--retries", "0")) == 1
        assert "set NO_PROXY=127.0.0.1" in capsys.readouterr().err
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert main(asking(server, tmp_path / "run", "--limit", "1")) == 0


@pytest.mark.parametrize("body", ['{"n": 5}', '{"stream": true}'])
def test_fields_that_would_be_paid_for_and_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], body: str
) -> None:
    with FakeServer(walker(STEPS)) as server:
        assert main(asking(server, tmp_path / "run", "--extra-body", body)) == 2
    assert "leave it out" in one_line(capsys)


# ---- What a folder keeps to ----------------------------------------------------------------------------------


def test_a_first_start_that_failed_binds_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A refused temperature, no reply: the corrected command is taken."""

    def respond(body: Body, number: int) -> Answer:
        return fault(400, "temperature") if "temperature" in body else walker(STEPS)(body, number)

    with FakeServer(respond) as server:
        assert main(asking(server, tmp_path, "--temperature", "3", "--memory", "textual")) == 1
        assert main(asking(server, tmp_path)) == 0
        assert summary_of(tmp_path)["memory"] == "image-only"
        capsys.readouterr()
        # From now on it holds.
        assert main(asking(server, tmp_path, "--memory", "textual")) == 2
    assert "memory" in one_line(capsys)


@pytest.mark.parametrize("finished", [True, False])
def test_an_edited_configuration_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], finished: bool
) -> None:
    with FakeServer(walker(STEPS)) as server:
        assert main(asking(server, tmp_path, "--window", "48", "--limit", "1" if not finished else "6")) == 0
        described = tmp_path / "run.json"
        described.write_text(described.read_text().replace('"window": 48', '"window": 64'))
        capsys.readouterr()
        assert main(asking(server, tmp_path)) == 2
    assert "was played under another configuration than run.json tells" in one_line(capsys)


# ---- Systematic failures -------------------------------------------------------------------------------------


def test_a_run_that_says_nothing_stops_and_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = json.loads(chat(None)[2])
    body["choices"][0]["message"]["tool_calls"] = [{"function": {"name": "move", "arguments": "{}"}}]
    calls_tools = (200, {}, json.dumps(body).encode())
    with FakeServer(lambda *_: calls_tools) as server:
        assert main(asking(server, tmp_path)) == 1
        said = capsys.readouterr().err
        assert "none of the first" in said and "--keep-going" in said
        assert "a call of a tool, though none was offered" in said and "tool parser" in said
        assert 15 <= server.count < 15 + CONCURRENCY
        assert main(asking(server, tmp_path, "--keep-going")) == 0
    summary = summary_of(tmp_path)
    assert summary["statuses"]["unparseable"] == EPISODES
    assert summary["problems"] == {"a call of a tool, though none was offered": 3 * EPISODES}


def test_the_commonest_problems_are_listed_with_hints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def respond(body: Body, number: int) -> Answer:
        if turn_of(body) > 1 or number % 3 == 2:
            return walker(2)(body, number)
        said = json.loads(chat("")[2])
        said["choices"][0]["message"]["reasoning_content"] = "up"
        return 200, {}, json.dumps(said).encode()

    with FakeServer(respond) as server:
        given = [word for word in asking(server, tmp_path, "--concurrency", "1") if word != "--json"]
        assert main(given) == 0
    printed = capsys.readouterr().out
    assert "no text but in what the model thought" in printed and "--max-tokens" in printed


# ---- Again, on purpose ---------------------------------------------------------------------------------------


def test_cut_replies_are_played_again_with_more_room(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def respond(body: Body, number: int) -> Answer:
        cut = body.get("max_tokens") == 5 and turn_of(body) == 2 and number % 2
        return chat("so lon", finish="length") if cut else walker(3)(body, number)

    with FakeServer(respond) as server:
        assert main(asking(server, tmp_path, "--max-tokens", "5", "--attempts", "1")) == 0
        first = summary_of(tmp_path)
        cut = first["statuses"]["truncated"]
        assert 0 < cut < EPISODES
        asked = server.count
        capsys.readouterr()
        assert main(asking(server, tmp_path, "--max-tokens", "500", "--attempts", "1")) == 2
        assert "max_tokens" in one_line(capsys)
        more = ("--max-tokens", "500", "--attempts", "1", "--again", "truncated")
        assert main(asking(server, tmp_path, *more, "--window", "32")) == 2
        assert "window" in one_line(capsys)
        assert main(asking(server, tmp_path, *more)) == 0
        assert server.count == asked + 3 * cut
        summary = summary_of(tmp_path)
        assert summary["statuses"]["truncated"] == 0 and summary["statuses"]["ok"] == EPISODES
        assert summary["failed_attempts"] == sum(summary["problems"].values()) == cut
        assert summary["calls"] == server.count  # those of the earlier attempts are paid for, and counted
        assert summary["settings"] == [
            {"changed": {"max_tokens": 500}, "episodes": cut},
            {"changed": {}, "episodes": EPISODES - cut},
        ]
        with_more = [record for record in read_episodes(tmp_path) if "played_with" in record]
        assert [record["played_with"] for record in with_more] == [{"max_tokens": 500}] * cut
        # The first settings find all of it over, and so do the others.
        assert main(asking(server, tmp_path, "--max-tokens", "5", "--attempts", "1")) == 0
        assert main(asking(server, tmp_path, *more)) == 0
        assert server.count == summary["calls"] and summary_of(tmp_path) == summary


def test_nothing_but_cut_replies_does_not_stop_those_with_more_room(tmp_path: Path) -> None:
    """None of the first 15 replies said what to do; those to come are asked for in another way."""
    cut = chat("so lon", finish="length")
    with FakeServer(lambda body, number: walker(2)(body, number) if "max_tokens" in body else cut) as server:
        assert main(asking(server, tmp_path, "--keep-going")) == 0
        assert server.count == 3 * EPISODES > 15
        assert main(asking(server, tmp_path, "--again", "truncated", "--max-tokens", "500")) == 0
    assert summary_of(tmp_path)["statuses"]["ok"] == EPISODES


def test_playing_again_goes_on_after_an_interrupt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = chat("so lon", finish="length")
    strike: list[int] = []

    def respond(body: Body, number: int) -> Answer:
        if "max_tokens" not in body:
            return cut
        if strike and number >= strike[0]:
            strike.pop()
            os.kill(os.getpid(), signal.SIGINT)
        return walker(3)(body, number)

    with FakeServer(respond, latency=0.01) as server:
        assert main(asking(server, tmp_path, "--attempts", "1")) == 0
        strike.append(server.count + 4)
        more = ("--attempts", "1", "--again", "truncated,refused", "--max-tokens", "500")
        assert main(asking(server, tmp_path, *more)) == 130
        capsys.readouterr()
        # Not with the settings of the run: half an episode was played with others.
        assert main(asking(server, tmp_path, "--attempts", "1")) == 2
        assert "is being played with max_tokens = 500" in one_line(capsys)
        assert main(asking(server, tmp_path, *more)) == 0
    assert server.count == EPISODES + 3 * EPISODES
    assert summary_of(tmp_path)["statuses"]["ok"] == EPISODES


@pytest.mark.parametrize("status", ["ok", "unparseable", "wrong"])
def test_what_counts_is_not_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    with FakeServer(walker(STEPS)) as server:
        assert main(asking(server, tmp_path / "run", "--again", status)) == 2
    assert "expected some of refused, truncated" in one_line(capsys)
