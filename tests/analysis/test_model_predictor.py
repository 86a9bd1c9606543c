"""A model as a predictor: nothing is asked twice, and what failed outside the model is no wrong answer."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mnistpro_jax.analysis.failures import failures_sheet
from mnistpro_jax.analysis.model_predictor import ModelPredictor, messages
from mnistpro_jax.analysis.predictors import NOT_COUNTED
from mnistpro_jax.analysis.swap import swap, swap_sheet
from mnistpro_jax.cli import main
from mnistpro_jax.demo_server.conversation import read_request
from mnistpro_jax.host.contract import Decision, HostPolicy, Status, StopRun, Turn, Usage
from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy
from mnistpro_jax.runs.load import load_run
from mnistpro_jax.runs.stored import StoredRun
from tests.runs import stored


class Scripted(HostPolicy):
    """Answers 7; says statuses as they are scripted by call, OK where they end."""

    def __init__(self, *statuses: Status) -> None:
        self.calls = 0
        self._statuses = list(statuses)

    async def act(self, turn: Turn) -> Decision:
        await asyncio.sleep(0)
        # What it is shown is a conversation that a player would understand.
        assert len(read_request({"messages": list(turn.messages)}).pictures) == 1
        self.calls += 1
        status = self._statuses.pop(0) if self._statuses else Status.OK
        if status is not Status.OK:
            return Decision(status, problem="scripted")
        return Decision(status, "answer", (7,) * turn.digits, text="7", usage=Usage(5, 1))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    return load_run(stored.evaluate_folder(tmp_path_factory.mktemp("run") / "a", 1))


def test_answers_are_kept_and_never_asked_for_again(run: StoredRun, tmp_path: Path) -> None:
    policy, path = Scripted(), tmp_path / "answers.jsonl"
    made = swap(run, ModelPredictor("m", policy, path, concurrency=2))
    labels = [record["labels"][0] for record in run.records]
    assert made.correct.tolist() == made.control.tolist() == [label == 7 for label in labels]
    assert policy.calls == 2 * len(run.records) == len(path.read_text().splitlines())
    again = swap(run, ModelPredictor("m", policy, path))
    assert again.answers == made.answers and policy.calls == 2 * len(run.records)
    other = ModelPredictor("another", policy, path)
    swap(run, other)
    assert policy.calls == 4 * len(run.records)
    # A line that was torn by a crash is asked for again, alone.
    path.write_bytes(path.read_bytes()[:-9])
    swap(run, ModelPredictor("another", policy, path))
    assert policy.calls == 4 * len(run.records) + 1


def test_refusals_do_not_count_and_failures_stop(run: StoredRun, tmp_path: Path) -> None:
    policy = Scripted(Status.REFUSED, Status.UNPARSEABLE, Status.UNPARSEABLE, Status.UNPARSEABLE, Status.OK)
    made = swap(run, ModelPredictor("m", policy, tmp_path / "a.jsonl", concurrency=1))
    assert made.answers[:3] == (NOT_COUNTED, None, (7,))
    assert made.counted.tolist() == [False] + [True] * (len(run.records) - 1)
    (row,) = swap_sheet([run], {run.key: [made]}).rows
    assert row["episodes"] == len(run.records) - 1
    assert failures_sheet([run], {run.key: [made]}).rows == ()

    path = tmp_path / "b.jsonl"
    broken = Scripted(Status.OK, Status.API_ERROR)
    with pytest.raises(ValueError, match="could not be asked \\(scripted\\)"):
        swap(run, ModelPredictor("m", broken, path, concurrency=1))
    assert [json.loads(line)["answer"] for line in path.read_text().splitlines()] == [[7]]
    assert broken.calls == 2
    path.write_text("{}\n")
    with pytest.raises(ValueError, match="line 1: no kept answer"):
        ModelPredictor("m", broken, path)


def test_a_stop_lets_the_calls_under_way_land(run: StoredRun, tmp_path: Path) -> None:
    class Stopping(Scripted):
        """The third call is refused while two others are under way."""

        def __init__(self) -> None:
            super().__init__()
            self.closed = False
            self.begun = 0

        async def act(self, turn: Turn) -> Decision:
            self.begun += 1
            if self.begun == 3:
                raise StopRun("refused the key")
            for _ in range(10):
                await asyncio.sleep(0)
            assert not self.closed
            return await super().act(turn)

        async def close(self) -> None:
            self.closed = True

    policy, path = Stopping(), tmp_path / "a.jsonl"
    with pytest.raises(ValueError, match="could not be asked \\(refused the key\\)"):
        swap(run, ModelPredictor("m", policy, path, concurrency=3))
    assert policy.closed and policy.begun == 3
    assert [json.loads(line)["answer"] for line in path.read_text().splitlines()] == [[7], [7]]


@pytest.mark.parametrize("where", ["no/answers.jsonl", "."])
def test_nobody_is_asked_where_answers_cannot_be_kept(run: StoredRun, tmp_path: Path, where: str) -> None:
    policy = Scripted()
    with pytest.raises(OSError, match=r"No such file|Is a directory"):
        swap(run, ModelPredictor("m", policy, tmp_path / where))
    assert policy.calls == 0


def test_answers_that_can_no_longer_be_kept_stop(
    run: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: ModelPredictor, key: str, decision: Decision) -> None:
        raise OSError(28, "No space left on device")

    policy = Scripted()
    monkeypatch.setattr(ModelPredictor, "_keep", full)
    with pytest.raises(ValueError, match="cannot be kept in .*a.jsonl: No space left"):
        swap(run, ModelPredictor("m", policy, tmp_path / "a.jsonl", concurrency=1))
    assert policy.calls == 1


def test_a_server_that_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refused(self: OpenAIChatPolicy, turn: Turn) -> Decision:
        raise StopRun("http://127.0.0.1:1/v1 refused the key (401)")

    monkeypatch.setattr(OpenAIChatPolicy, "act", refused)
    folder = stored.evaluate_folder(tmp_path / "a", 1)
    command = [
        "analyse",
        str(folder),
        "--readers",
        "openai-compatible:m",
        "--answers",
        str(tmp_path / "k.jsonl"),
    ]
    assert main([*command, "--base-url", "http://127.0.0.1:1/v1"]) == 2
    printed = capsys.readouterr()
    assert "refused the key (401)" in printed.err and printed.err.count("\n") == 1 and printed.out == ""


def test_what_it_is_told() -> None:
    one, two = (messages(level, b"")[0]["content"] for level in (1, 2))
    assert '"value": "?"' in one and "one handwritten digit" in one
    assert '"value": "??"' in two and "from left to right" in two
