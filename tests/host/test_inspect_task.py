"""The Inspect task, where Inspect is installed: it plays what `mnistpro run` plays, and faults are no answers."""

from __future__ import annotations

import collections
import functools
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import eval as inspect_eval
from inspect_ai.model import CachePolicy, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score

from mnistpro_jax.host import inspect_task
from mnistpro_jax.host.contract import Turn
from mnistpro_jax.host.inspect_task import mnist_pro, vote
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.world import HostWorld
from tests.host.helpers import play, protocol, records

EPISODES = 6


def say(number: int, text: str, stop: str = "stop") -> ModelOutput:
    output = ModelOutput.from_content("mockllm/model", text, stop_reason=stop)  # type: ignore[arg-type]
    # Without it the mock counts tokens with a vocabulary that it downloads.
    output.usage = ModelUsage(input_tokens=100, output_tokens=5, total_tokens=105)
    return output


def turn_in(messages: Any) -> int:
    return int(messages[-1].text.rsplit("Turn ", 1)[1].split(" ", 1)[0])


def walk(turn: int) -> str:
    if turn == 5:
        return '{"action": "answer", "value": "7"}'
    return json.dumps({"action": "move", "direction": ("up", "left", "down")[turn % 3]})


def evaluate(tmp_path: Path, respond: Any, asked: dict[str, Any] | None = None, **options: Any) -> Any:
    """options: of the task. asked: Inspect's own."""
    model = get_model("mockllm/model", custom_outputs=respond, memoize=False)
    return inspect_eval(
        mnist_pro(**{"episodes": EPISODES, "seed": 3, **options}),
        model=model,
        log_dir=str(tmp_path),
        display="none",
        **(asked or {}),
    )[0]


def test_it_plays_what_the_runner_plays(world: HostWorld, tmp_path: Path) -> None:
    pictures = []

    def respond(messages: Any, *_: Any) -> ModelOutput:
        pictures.append(sum(part.type == "image" for part in messages[-1].content))
        return say(0, walk(turn_in(messages)))

    log = evaluate(tmp_path, respond)
    assert log.status == "success"

    class Walk(TextPolicy):
        async def reply(self, turn: Turn) -> Reply:
            return Reply(walk(turn.step + 1))

    expected = records(play(world, protocol(world), Walk(), range(EPISODES)))
    samples = sorted(log.samples, key=lambda sample: sample.id)
    for sample, record in zip(samples, expected, strict=True):
        score = sample.scores["exact"]
        assert score.value == float(record["correct"]) and score.answer == "7"
        assert score.metadata["actions"] == record["actions"]
        assert [list(corner) for corner in score.metadata["windows"]] == record["windows"]
    assert sorted(pictures) == sorted([1, 2, 3, 4, 4] * EPISODES)


@pytest.mark.parametrize(
    ("text", "stop"),
    [
        ('{"action": "answer", "value": "7"}', "max_tokens"),
        ('{"action": "answer", "value": "7"}', "content_filter"),
        ("", "unknown"),
    ],
)
def test_faults_are_errors_of_the_sample(tmp_path: Path, text: str, stop: str) -> None:
    log = evaluate(tmp_path, lambda messages, *_: say(0, text, stop), {"max_retries": 0})
    assert log.status == "error"
    assert all(not sample.scores for sample in log.samples or [])


def test_a_refusal_is_no_wrong_answer(tmp_path: Path) -> None:
    """OpenAI's way to refuse, which Inspect passes on as text that is marked, with the reason "stop"."""

    def respond(messages: Any, *_: Any) -> ModelOutput:
        output = say(0, "")
        output.choices[0].message.content = [ContentText(text="I cannot help with that.", refusal=True)]
        return output

    log = evaluate(tmp_path, respond)
    assert log.status == "error"
    assert all(not sample.scores for sample in log.samples or [])
    assert "refused" in str(log.samples[0].error)


@pytest.mark.parametrize(
    ("cache", "other"),
    [
        (True, CachePolicy(scopes={"mine": "b"})),
        (CachePolicy(expiry="2h", scopes={"mine": "a"}), CachePolicy(expiry="2h", scopes={"mine": "b"})),
    ],
)
def test_a_spoilt_reply_in_the_cache_is_not_final(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Any, other: Any
) -> None:
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    calls: collections.Counter[str] = collections.Counter()

    def respond(messages: Any, *_: Any) -> ModelOutput:
        pictured = [part.image for part in messages[-1].content if part.type == "image"][-1]
        calls[pictured] += 1
        return say(0, "hm" if calls[pictured] == 1 else '{"action": "answer", "value": "7"}')

    def answers(policy: Any) -> list[str]:
        log = evaluate(tmp_path, respond, {"cache": policy}, episodes=2)
        return [sample.scores["exact"].answer for sample in log.samples]

    assert answers(cache) == ["7", "7"]
    assert list(calls.values()) == [2, 2]
    assert answers(cache) == ["7", "7"]
    assert list(calls.values()) == [2, 2], "what was answered is not asked again"
    assert answers(other) == ["7", "7"]
    assert list(calls.values()) == [3, 3], "the user's scopes hold"


def test_a_failure_in_the_cache_is_not_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(inspect_task, "Retries", functools.partial(Retries, first_s=0.0))
    calls = []

    def respond(*_: Any) -> ModelOutput:
        calls.append(1)
        return say(0, "", "unknown") if len(calls) == 1 else say(0, '{"action": "answer", "value": "7"}')

    for _ in range(2):
        log = evaluate(tmp_path, respond, {"cache": True}, episodes=1)
        assert log.samples[0].scores["exact"].answer == "7"
    assert len(calls) == 3


def test_votes_are_of_answers() -> None:
    scores = [
        Score(value=value, answer=answer)
        for value, answer in ((0, "1"), (1, "7"), (1, "7"), (0, "2"), (0, "3"))
    ]
    assert vote()(scores).value == 1  # the most frequent score would be 0
    assert vote()([Score(value=0, answer=None)]).value == 0
