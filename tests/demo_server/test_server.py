"""The server over HTTP, and as a command."""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.demo_server.faults import FAULTS, Fault, FaultDraws, Faults
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.demo_server.server import DemoServer, ServerSettings
from mnistpro_jax.demo_server.spoilt import before_reply, spoilt
from mnistpro_jax.demo_server.wire import TOKENS_A_PICTURE, completion
from tests.demo_server.talk import episode, play, user


class Client:
    """One kept-alive connection."""

    def __init__(self, server: DemoServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)

    def get(self, path: str) -> tuple[int, Any]:
        self._connection.request("GET", path)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read())

    def post(self, body: Any, headers: dict[str, str] | None = None) -> tuple[int, Any, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request("POST", "/v1/chat/completions", data, headers or {})
        response = self._connection.getresponse()
        return response.status, json.loads(response.read()), response.headers


def request(**more: Any) -> dict[str, Any]:
    return {
        "model": "demo",
        "messages": [user("Move or answer. Turn 1 of 36", episode([7]).picture())],
        **more,
    }


def serving(player: Player, **settings: Any) -> DemoServer:
    return DemoServer(ServerSettings(port=0, **settings), player)


@pytest.fixture
def server(player: Player) -> Iterator[DemoServer]:
    with serving(player) as running:
        yield running


def test_an_episode_over_one_connection(server: DemoServer) -> None:
    client = Client(server)
    spent = 0

    def ask(messages: list[dict[str, Any]]) -> str:
        nonlocal spent
        status, body, _ = client.post({"model": "demo", "messages": messages})
        assert status == 200
        assert body["object"] == "chat.completion"
        (choice,) = body["choices"]
        assert choice["finish_reason"] == "stop"
        spent += body["usage"]["prompt_tokens"]
        content: str = choice["message"]["content"]
        return content

    world = episode([3])
    replies = play(world, ask)
    assert world.correct
    stats = client.get("/stats")[1]
    assert stats["requests"] == stats["outcomes"]["ok"] == len(replies)
    assert stats["pictures"] == len(replies) * (len(replies) + 1) // 2
    assert stats["prompt_tokens"] == spent > stats["pictures"] * TOKENS_A_PICTURE
    assert stats["running"] == 0 and stats["thinking_ms_median"] > 0


def test_it_listens_on_the_loopback_address_alone(server: DemoServer) -> None:
    assert server._http.server_address[0] == "127.0.0.1"
    assert Client(server).get("/v1/models")[1]["data"][0]["id"] == "demo"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "not JSON"),
        ({}, 404, "no model None"),
        ({"model": "gpt"}, 404, "no model 'gpt'"),
        ({"model": "demo"}, 400, "messages is missing"),
    ],
)
def test_bad_requests(server: DemoServer, body: Any, status: int, message: str) -> None:
    got, reply, _ = Client(server).post(body)
    assert got == status
    assert message in reply["error"]["message"]
    assert server.statistics.report()["outcomes"]["bad-request"] == 1


def test_key_and_pictures_can_be_refused(player: Player) -> None:
    with serving(player, api_key="right", images=False) as server:
        assert Client(server).post(request())[0] == 401
        assert (
            Client(server).post(request(), {"authorization": "Bearer wrong"})[1]["error"]["code"]
            == "invalid_api_key"
        )
        status, reply, _ = Client(server).post(request(), {"authorization": "Bearer right"})
        assert status == 400 and "no pictures" in reply["error"]["message"]


def test_every_fault_over_the_wire(player: Player) -> None:
    def reply(fault: Fault = Fault.NONE, **facts: float) -> tuple[int, Any, Any]:
        shares = {} if fault is Fault.NONE else {fault: 1.0}
        with serving(player, faults=Faults(shares, **facts)) as server:
            return Client(server).post(request(max_tokens=77))

    status, body, headers = reply(Fault.RATE_LIMIT, retry_after=0.25)
    assert (status, headers["retry-after"], body["error"]["code"]) == (429, "0.25", "rate_limit_exceeded")
    status, body, _ = reply(Fault.SERVER_ERROR)
    assert (status, body["error"]["type"]) == (500, "server_error")
    for fault, status in ((Fault.TIMED_OUT, 408), (Fault.CONFLICT, 409), (Fault.MODERATED, 403)):
        assert reply(fault)[0] == status
    with pytest.raises(http.client.RemoteDisconnected):
        reply(Fault.DROPPED)
    for fault in (Fault.TORN_BODY, Fault.PAGE):
        with pytest.raises(ValueError, match="Unterminated|Expecting"):
            reply(fault)
    assert reply(Fault.ERROR_BODY)[1]["error"]["code"] == 502
    assert reply(Fault.NO_CHOICES)[1]["choices"] == []
    assert "usage" not in reply(Fault.NO_USAGE)[1]
    usage = reply(Fault.USAGE_IN_TOTAL)[1]["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] + 2000

    def choice(fault: Fault = Fault.NONE, **facts: float) -> tuple[Any, str, Any, int]:
        status, body, _ = reply(fault, **facts)
        assert status == 200
        (made,) = body["choices"]
        message = made["message"]
        return message["content"], made["finish_reason"], message, body["usage"]["completion_tokens"]

    whole = choice()[0]
    assert choice(Fault.DRIP, drip=1.0)[0] == whole
    torn = choice(Fault.TORN)[0]
    assert whole.startswith(torn) and json.loads(whole)
    with pytest.raises(ValueError, match="Unterminated|Expecting"):
        json.loads(torn)
    assert "".join(part["text"] for part in choice(Fault.PARTS)[0]) == whole
    assert choice(Fault.THINKING)[0].endswith(f"</think>{whole}")
    assert choice(Fault.ONLY_REASONING)[2]["reasoning_content"] == whole
    for fault, finish in (
        (Fault.EMPTY, "stop"),
        (Fault.SAFETY, "SAFETY"),
        (Fault.ERROR_WITHIN, "error"),
        (Fault.UNKNOWN_REASON, "cosmic_ray"),
    ):
        content, ended, _, spent = choice(fault)
        assert (content, ended, spent) == ("", finish, 0)
    for fault, finish in ((Fault.OVERLONG, "length"), (Fault.MAX_TOKENS, "MAX_TOKENS")):
        content, ended, _, spent = choice(fault)
        assert (ended, spent) == (finish, 77) and "{" not in content
    content, _, message, _ = choice(Fault.REFUSED)
    assert content is None and message["refusal"]
    content, _, message, _ = choice(Fault.TOOL_CALL)
    assert content is None and message["tool_calls"]


def test_every_fault_is_described_and_is_one(player: Player) -> None:
    good = completion(1, "demo", '{"action": "move", "direction": "up"}', prompt_characters=9, pictures=1)
    faults = Faults(drip=5.0)
    assert set(FAULTS) == set(Fault) - {Fault.NONE}
    plain = spoilt(Fault.NONE, good, faults)[1]
    sent = {fault: before_reply(fault, faults) or spoilt(fault, good, faults)[1] for fault in FAULTS}
    assert all(one != plain for one in sent.values())
    assert len({(one.status, one.body, one.drip_s, *one.headers.items()) for one in sent.values()}) == len(
        FAULTS
    )


def test_faults_follow_from_the_request_and_the_seed_not_from_the_order() -> None:
    shares = {Fault.RATE_LIMIT: 0.2, Fault.SERVER_ERROR: 0.1, Fault.TORN: 0.1}
    faults = Faults(shares, latency_median=0.05, latency_sigma=1.0, seed=3)
    bodies = [f"request {number}".encode() for number in range(2000)]
    forwards, backwards = FaultDraws(faults), FaultDraws(faults)
    first = [forwards.draw(body) for body in bodies]
    assert first == [backwards.draw(body) for body in reversed(bodies)][::-1]
    again = [forwards.draw(body) for body in bodies]
    assert again != first
    counts = {fault: sum(drawn == fault for drawn, _ in first) / len(first) for fault in Fault}
    assert abs(counts[Fault.RATE_LIMIT] - 0.2) < 0.04
    assert abs(counts[Fault.NONE] - 0.6) < 0.05
    assert counts[Fault.REFUSED] == 0
    latencies = sorted(latency for _, latency in first)
    assert abs(latencies[1000] - 0.05) < 0.005
    assert latencies[1680] / latencies[1000] == pytest.approx(2.718, rel=0.15)  # one sigma above the median
    other = FaultDraws(dataclasses.replace(faults, seed=4))
    assert [other.draw(body) for body in bodies] != first


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--faults", "429=1.5"], "share of '429' is 1.5"),
        (["--faults", "torn=0.6", "empty=0.6"], "add up to 1.2"),
        (["--faults", "torn=0.1", "torn=0.2"], "names one fault twice"),
        (["--faults", "meteor=0.1"], "'meteor=0.1' is not NAME=SHARE with one of 429"),
        (["--latency-median", "-1"], "latency_median is -1"),
        (["--port", "70000"], "0 to 65535"),
    ],
)
def test_nonsense_is_one_line(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", *options]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out


def test_a_port_in_use_is_said(server: DemoServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", str(server.port)]) == 2
    assert f"cannot listen on 127.0.0.1:{server.port}" in capsys.readouterr().err


def test_the_command_serves_until_interrupted() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "mnistpro_jax", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            found = re.search(r"127\.0\.0\.1:(\d+)/stats", line)
            if found:
                break
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=30)  # type: ignore[index]
        connection.request("GET", "/stats")
        assert json.loads(connection.getresponse().read())["requests"] == 0
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert json.loads(out)["running"] == 0
