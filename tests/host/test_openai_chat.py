"""Models behind chat completions, against a server with faults to order: what each fault means for a run."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from mnistpro_jax.host import runner
from mnistpro_jax.host.attempts import Played
from mnistpro_jax.host.contract import Status, Usage
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.models import choose_model, make_policy
from mnistpro_jax.host.models.chat_settings import ChatSettings
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.world import HostWorld
from mnistpro_jax.render.published import published_picture
from tests.host.fake_server import Answer, FakeServer, chat, fault, turn_of, walker
from tests.host.helpers import protocol

pytest.importorskip("openai")

KEY = "sk-secret-0123456789"
ANSWER = chat('{"action": "answer", "value": "7"}')


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MNISTPRO_API_KEY", KEY)


def play(
    world: HostWorld,
    server: FakeServer,
    count: int = 1,
    ledger: Ledger | None = None,
    memory: str = "image-only",
    retries: int = 5,
    **chat: Any,
) -> list[Played]:
    choice = choose_model("openai-compatible:fake", base_url=server.url, **chat)
    ledger = ledger or Ledger()
    ledger.retries = Retries(most=retries, first_s=0.001, longest_s=0.002)
    policy = make_policy(choice, world)

    async def session() -> list[Played]:
        try:
            sittings = GlimpseSittings(world, protocol(world, memory))
            return await runner.play(sittings, policy, range(count), ledger=ledger)
        finally:
            await policy.close()

    return asyncio.run(session())


def failing(first: Answer, times: int = 1) -> Callable[[dict[str, Any], int], Answer]:
    """A server whose first answers are faults."""
    return lambda body, number: first if number < times else walker(3)(body, number)


def test_a_whole_run(world: HostWorld) -> None:
    ledger = Ledger()
    with FakeServer(walker(4)) as server:
        played = play(
            world, server, 3, ledger, temperature=0.5, seed=11, max_tokens=99, reasoning_effort="low"
        )
    assert [(one.status, one.record["steps"], one.record["answer"]) for one in played] == [
        (Status.OK, 4, [7])
    ] * 3
    assert ledger.usage == Usage(1200, 120) and ledger.calls == server.count == 12
    body = server.requests[0]
    assert {
        name: body[name] for name in ("model", "temperature", "seed", "max_tokens", "reasoning_effort")
    } == {
        "model": "fake",
        "temperature": 0.5,
        "seed": 11,
        "max_tokens": 99,
        "reasoning_effort": "low",
    }
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def decoded(url: str) -> NDArray[np.uint8]:
    head, content = url.split(",", 1)
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(content))).convert("RGB"))


def test_the_server_sees_the_published_pictures(world: HostWorld) -> None:
    with FakeServer(walker(6)) as server:
        played = play(world, server)
    canvas, windows = world.canvas(0), played[0].record["windows"]
    for body in server.requests:
        turn = turn_of(body)
        shown = [
            decoded(part["image_url"]["url"])
            for part in body["messages"][1]["content"]
            if part["type"] == "image_url"
        ]
        expected = windows[max(0, turn - 4) : turn]
        assert len(shown) == len(expected)
        for picture, corner in zip(shown, expected, strict=True):
            assert (picture == published_picture(canvas, corner)).all()


@pytest.mark.parametrize(
    ("answer", "status", "calls"),
    [
        (chat(None, refusal="I cannot."), Status.REFUSED, 3),
        (chat("", finish="content_filter"), Status.REFUSED, 3),
        (fault(400, "flagged", "content_filter"), Status.REFUSED, 3),
        (chat('{"action": "answer", "value": "7"}', finish="length"), Status.TRUNCATED, 3),
        (chat("", finish="SAFETY"), Status.REFUSED, 3),
        (chat("", finish="content_filter: PROHIBITED_CONTENT"), Status.REFUSED, 3),
        (chat("so long", finish="FinishReason.MAX_TOKENS"), Status.TRUNCATED, 3),
        (chat(""), Status.UNPARSEABLE, 3),
        (chat("7"), Status.UNPARSEABLE, 3),
        (chat("x" * 200_000), Status.UNPARSEABLE, 3),
    ],
)
def test_replies_that_are_no_actions(world: HostWorld, answer: Answer, status: Status, calls: int) -> None:
    with FakeServer(lambda body, number: answer) as server:
        played = play(world, server)
    assert played[0].status == status
    assert server.count == played[0].record["calls"] == calls
    assert played[0].record["correct"] == (False if status == Status.UNPARSEABLE else None)


@pytest.mark.parametrize(
    "first",
    [
        fault(429, "slow down", retry_after_ms="5"),
        fault(500),
        fault(503),
        (200, {}, b'{"id": "chatcmpl-1", "choices": [{"mess'),
        (200, {"content-type": "text/html"}, b"<html>busy</html>"),
        (200, {}, b'{"choices": []}'),
        (200, {}, b"null"),
        chat(None, refusal="not now"),
        chat("hm"),
    ],
)
def test_what_passes_is_got_over(world: HostWorld, first: Answer) -> None:
    """One fault, then a server in health: the episode counts, and is played as without it."""
    with FakeServer(failing(first)) as server:
        played = play(world, server)
    assert played[0].status == Status.OK, played[0].record["problem"]
    assert played[0].record["actions"] == ["down", "left", "answer"]


def test_other_shapes_of_a_completion(world: HostWorld) -> None:
    """A text in parts and counts as texts, as some servers have them."""

    def respond(body: dict[str, Any], number: int) -> Answer:
        status, headers, sent = ANSWER
        said = json.loads(sent)
        message = said["choices"][0]["message"]
        parts = message["content"][:9], message["content"][9:]
        message["content"] = [{"type": "text", "text": part} for part in parts]
        said["usage"] = {"prompt_tokens": "1000", "completion_tokens": None, "prompt_tokens_details": {}}
        return status, headers, json.dumps(said).encode()

    ledger = Ledger()
    with FakeServer(respond) as server:
        played = play(world, server, 2, ledger)
    assert [one.record["answer"] for one in played] == [[7], [7]]
    # Nobody told what the replies took: four letters a token.
    assert ledger.usage == Usage(2000, 2 * 9, told=False) and ledger.estimated_calls == 2


def test_a_storm_of_limits_changes_no_result(world: HostWorld) -> None:
    calm = FakeServer(walker(5))
    with calm:
        expected = [one.record["actions"] for one in play(world, calm, 6)]
    stormy = FakeServer(
        lambda body, number: fault(429, retry_after_ms="2") if number % 3 else walker(5)(body, number)
    )
    with stormy:
        played = play(world, stormy, 6)
    assert [one.record["actions"] for one in played] == expected
    assert {one.status for one in played} == {Status.OK}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (fault(401, f"Incorrect API key provided: {KEY}."), "refused the key"),
        (fault(403, "no access"), "refused the key"),
        (fault(404, "The model `fake` does not exist", "model_not_found"), "knows no model 'fake'"),
        (fault(429, "You exceeded your quota", "insufficient_quota"), "quota"),
        (fault(402, "Insufficient credits"), "quota"),
        (fault(400, "This model does not support image input"), "does not take the 1 picture(s)"),
        (fault(400, "Unsupported value: 'temperature'"), "refused the request"),
        (fault(400, "128001 tokens", "context_length_exceeded"), "longer than 'fake' takes"),
    ],
)
def test_what_cannot_pass_stops_the_run(world: HostWorld, answer: Answer, expected: str) -> None:
    ledger = Ledger()
    with FakeServer(lambda body, number: answer) as server:
        played = play(world, server, 6, ledger, retries=0)
    assert expected in str(ledger.fault)
    assert KEY not in str(ledger.fault)
    assert server.count <= 6
    assert {one.record["correct"] for one in played} == {None}


def test_too_many_pictures(world: HostWorld) -> None:
    """A server that takes two pictures a request: the run says so on the turn that first holds three."""

    def respond(body: dict[str, Any], number: int) -> Answer:
        pictures = json.dumps(body).count('"image_url": {')
        return fault(400, "At most 2 image(s) may be provided") if pictures > 2 else walker(9)(body, number)

    ledger = Ledger()
    with FakeServer(respond) as server:
        play(world, server, 6, ledger)
    assert "does not take the 3 picture(s)" in str(ledger.fault)


@pytest.mark.parametrize("message", ["image 3 could not be decoded", "this context length is too long"])
def test_what_one_request_is_refused_for_fails_its_episode_alone(world: HostWorld, message: str) -> None:
    refused: list[str] = []

    def respond(body: dict[str, Any], number: int) -> Answer:
        said = json.dumps(body["messages"][1])
        # The first one that comes to its third turn, as often as it comes.
        if turn_of(body) == 3 and refused in ([], [said]):
            refused[:] = [said]
            return fault(400, message)
        return walker(5)(body, number)

    ledger = Ledger()
    with FakeServer(respond) as server:
        played = play(world, server, 4, ledger)
    assert ledger.fault is None
    assert sorted(one.status for one in played) == [Status.API_ERROR, *[Status.OK] * 3]
    assert message in next(one.record["problem"] for one in played if one.status == Status.API_ERROR)


def test_no_server(world: HostWorld) -> None:
    with FakeServer(walker(1)) as server:
        pass
    ledger = Ledger()
    play(world, server, 2, ledger, retries=0)
    assert "no connection to http://127.0.0.1" in str(ledger.fault)


def test_a_server_that_goes_away(world: HostWorld) -> None:
    """After replies, a lost server is a failure that may pass: the episode is unfinished, not wrong."""
    ledger = Ledger(patience=2)
    with FakeServer(lambda body, number: walker(9)(body, number) if number < 3 else fault(503)) as server:
        played = play(world, server, 1, ledger, retries=0)
    assert played[0].status == Status.API_ERROR
    assert played[0].record["correct"] is None and played[0].record["steps"] == 3


@pytest.mark.parametrize(
    "choice",
    [
        {"finish_reason": "error", "error": {"code": 502, "message": "upstream"}},
        {"finish_reason": "stop", "error": {"code": 502, "message": "upstream"}},
        {"finish_reason": "a new word"},
    ],
)
def test_a_failure_within_a_reply_is_no_answer(world: HostWorld, choice: dict[str, Any]) -> None:
    body = {"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}, **choice}]}
    failed = (200, {}, json.dumps(body).encode())
    with FakeServer(lambda body, number: walker(9)(body, number) if number < 3 else failed) as server:
        played = play(world, server, 1, Ledger(patience=2), retries=0)
    assert played[0].status == Status.API_ERROR and played[0].record["correct"] is None
    assert played[0].record["steps"] == 3


def test_a_failure_within_a_reply_does_not_repeat_the_key(
    monkeypatch: pytest.MonkeyPatch, world: HostWorld
) -> None:
    monkeypatch.setenv("MNISTPRO_API_KEY", KEY)
    message = {"role": "assistant", "content": ""}
    body = {
        "choices": [
            {"index": 0, "message": message, "finish_reason": "error", "error": {"message": f"bad {KEY}"}}
        ]
    }
    ledger = Ledger(patience=2)
    with FakeServer(lambda *_: (200, {}, json.dumps(body).encode())) as server:
        played = play(world, server, 1, ledger, retries=0)
    said = str(played[0].record["problem"]) + str(ledger.failures) + str(ledger.fault)
    assert "[key]" in said and KEY not in said


def test_what_is_only_in_the_total_of_tokens_is_counted(world: HostWorld) -> None:
    body = json.loads(chat('{"action": "answer", "value": "7"}')[2])
    body["usage"] = {"prompt_tokens": 1_000, "completion_tokens": 20, "total_tokens": 3_020}
    with FakeServer(lambda *_: (200, {}, json.dumps(body).encode())) as server:
        record = play(world, server)[0].record
    assert (record["input_tokens"], record["output_tokens"]) == (1_000, 2_020)


def test_keys(monkeypatch: pytest.MonkeyPatch, world: HostWorld) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        make_policy(choose_model("openai:gpt-5"), world)
    monkeypatch.delenv("MNISTPRO_API_KEY")
    with pytest.raises(ValueError, match="MNISTPRO_API_KEY"):
        make_policy(choose_model("openai-compatible:x", base_url="https://example.org/v1"), world)
    # A server on this machine needs none, and is never sent another provider's.
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FakeServer(walker(1)) as server:
        play(world, server)
    assert KEY not in server.headers[0]["authorization"]


@pytest.mark.parametrize("url", ["https://me:secret@api.test/v1", "https://api.test/v1?key=secret"])
def test_no_secret_in_the_address(url: str) -> None:
    with pytest.raises(ValueError, match="the key in the environment") as refused:
        ChatSettings("openai-compatible", "m", base_url=url)
    assert "secret" not in str(refused.value)


def test_names() -> None:
    with pytest.raises(ValueError, match="needs --base-url"):
        choose_model("openai-compatible:x")
    with pytest.raises(ValueError, match="expected openai:MODEL"):
        choose_model("openai")
    for name in ("gpt-5", "scripted", "scripted:", "nobody:x"):
        with pytest.raises(ValueError, match="unknown model"):
            choose_model(name)
    with pytest.raises(ValueError, match="temperature would do nothing"):
        choose_model("scripted:random", temperature=0.0)
    assert choose_model("ollama:qwen2.5vl:7b").name == "qwen2.5vl:7b"
    with pytest.raises(ValueError, match="base URL is 'nonsense'"):
        choose_model("openai:x", base_url="nonsense")


def test_the_only_model_of_a_server() -> None:
    with FakeServer(walker(1)) as server:
        assert choose_model("openai-compatible", base_url=server.url).full_name == "openai-compatible:fake"
    with (
        FakeServer(walker(1), models=("a", "b")) as server,
        pytest.raises(ValueError, match=r"2 models \(a, b\)"),
    ):
        choose_model("openai-compatible", base_url=server.url)
    with pytest.raises(ValueError, match="is the server running"):
        choose_model("openai-compatible", base_url=server.url)


def test_the_key_is_written_nowhere(world: HostWorld, tmp_path: Path) -> None:
    from mnistpro_jax.host.episode_log import EpisodeFolder

    answer = fault(500, f"key {KEY} is odd")
    with (
        FakeServer(failing(answer, 2)) as server,
        EpisodeFolder(tmp_path, {}, {}) as folder,
    ):
        policy = make_policy(choose_model("openai-compatible:fake", base_url=server.url), world)

        async def session() -> None:
            sittings = GlimpseSittings(world, protocol(world))
            await runner.play(sittings, policy, range(1), logs=folder.episode)
            await policy.close()

        asyncio.run(session())
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"[key] is odd" not in written or KEY.encode() not in written
    assert KEY.encode() not in written
