"""The Inspect task, where Inspect is installed: it plays what `mnistpro run` plays, and faults are no answers."""

from __future__ import annotations

import collections
import dataclasses
import functools
import importlib
import inspect
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import eval as inspect_eval
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.model import CachePolicy, ContentText, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score

from mnistpro_jax.host import inspect_task
from mnistpro_jax.host.contract import Turn
from mnistpro_jax.host.inspect_task import mnist_pro, vote
from mnistpro_jax.host.memory import UNBOUNDED
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.run_glimpse import RunRequest, plan_of
from mnistpro_jax.host.world import HostWorld
from mnistpro_jax.runs.inspect_logs import CONFIG
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


def test_inspect_finds_the_task() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    (module,) = project["entry-points"]["inspect_ai"].values()
    assert importlib.import_module(module).mnist_pro is mnist_pro


INSPECTS_OWN = set(
    "model out temperature reasoning_effort max_tokens model_seed extra_body driver concurrency max_cost price_file "
    "limit base_url key_variable headers query retries timeout keep_going again".split()
)
"""Options of `mnistpro run` that Inspect has itself, by whatever name; docs/api_agents.md says which."""


def test_no_option_of_a_run_is_forgotten() -> None:
    fields = {field.name: field.default for field in dataclasses.fields(RunRequest)}
    own = {name: parameter.default for name, parameter in inspect.signature(mnist_pro).parameters.items()} | {
        "episodes": None
    }
    del own["votes"]
    # Inspect's epochs, and players with tools, who are another task.
    others = {*INSPECTS_OWN, "repeat", "tools"}
    assert own == {name: default for name, default in fields.items() if name not in others}
    guide = (Path(__file__).parents[2] / "docs" / "api_agents.md").read_text("utf-8")
    section = guide[guide.index("\n## Inspect\n") :]
    for name in INSPECTS_OWN:
        assert f"`--{name.replace('_', '-').replace('headers', 'header')}`" in section, name


def test_options_are_those_of_a_run() -> None:
    options: dict[str, Any] = {
        "level": 2,
        "memory": "event-log",
        "episodes": 1,
        "split": "train",
        "seed": 5,
        "window": 48,
        "stride": 16,
        "budget": 3,
        "outline": False,
        "attempts": 2,
        "retry": "explain",
        "warning": False,
        "detail": "low",
        "enlarge": 2,
        "system": "user",
        "parser": "published",
    }
    config = plan_of(RunRequest("scripted:answer", horizon=UNBOUNDED, **options)).config
    found = mnist_pro(horizon="all", **options).metadata[CONFIG]
    assert found == {
        name: value for name, value in config.items() if name not in {*INSPECTS_OWN, "server", "repeat"}
    }
    defaults = dataclasses.asdict(RunRequest(""))
    assert {name for name, value in options.items() if value == defaults[name]} == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 0}, "level is 0; expected 1 or more"),
        ({"window": "wide"}, "window is 'wide'; expected a whole number"),
        ({"outline": 1}, "outline is 1; expected true or false"),
        ({"seed": True}, "seed is True; expected a whole number"),
        ({"episodes": "many"}, "episodes is 'many'; expected a whole number, or 'published'"),
        ({"horizon": 2, "memory": "natural"}, "always shows all pictures"),
        ({"detail": "hgih"}, "detail is 'hgih'; expected one of low, high, auto"),
        ({"prompts": "nowhere.toml"}, "no prompt pack at nowhere.toml"),
        ({"votes": 0}, "votes is 0; expected a whole number, 1 or more"),
    ],
)
def test_bad_options_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(PrerequisiteError) as caught:
        mnist_pro(**options)
    assert message in caught.value.message and caught.value.message.startswith("mnist_pro: ")


def test_an_episode_that_a_limit_cut_off_is_not_scored(tmp_path: Path) -> None:
    log = evaluate(tmp_path, lambda messages, *_: say(0, walk(0)), {"token_limit": 150}, episodes=1)
    assert log.status == "error" and log.samples[0].limit.type == "token"
    assert not log.samples[0].scores and "did not come to its end" in log.samples[0].error.message


def test_votes_are_of_answers() -> None:
    scores = [
        Score(value=value, answer=answer)
        for value, answer in ((0, "1"), (1, "7"), (1, "7"), (0, "2"), (0, "3"))
    ]
    assert vote()(scores).value == 1  # the most frequent score would be 0
    assert vote()([Score(value=0, answer=None)]).value == 0
