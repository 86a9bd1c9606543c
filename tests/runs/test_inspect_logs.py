"""Logs of Inspect are runs like any: read through its own API, an epoch a run, without what did not count."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.runs.load import load_runs

pytest.importorskip("inspect_ai")

from inspect_ai import eval as inspect_eval
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model

from mnistpro_jax.host.inspect_task import mnist_pro
from mnistpro_jax.host.run_glimpse import RunRequest
from mnistpro_jax.host.run_glimpse import run as run_glimpse

WORLD: dict[str, Any] = {"memory": "event-log"}
LIMIT = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of three published episodes and two epochs, of a model that says 7; in one all replies are cut off."""
    folder = tmp_path_factory.mktemp("logs")
    calls: list[int] = []

    def respond(*_: Any) -> ModelOutput:
        calls.append(1)
        said, stop = (
            ("hm", "max_tokens") if len(calls) <= 3 else ('{"action": "answer", "value": "7"}', "stop")
        )
        output = ModelOutput.from_content("mockllm/model", said, stop_reason=stop)  # type: ignore[arg-type]
        output.usage = ModelUsage(input_tokens=100, output_tokens=5, total_tokens=105)
        return output

    inspect_eval(
        mnist_pro(votes=2, **WORLD),
        model=get_model("mockllm/model", custom_outputs=respond, memoize=False),
        log_dir=str(folder),
        display="none",
        limit=LIMIT,
        fail_on_error=False,
        max_samples=1,  # so that the three attempts that are cut off are of one sample
        max_connections=3,
    )
    return folder


def the_log(folder: Path) -> Path:
    (path,) = folder.glob("*.eval")
    return path


def test_an_epoch_is_a_run(folder: Path, tmp_path: Path) -> None:
    cut, whole = sorted(load_runs([folder]), key=lambda run: len(run.records))
    said = run_glimpse(RunRequest("scripted:answer", tmp_path, limit=LIMIT, **WORLD))
    assert not said.stopped
    (ours,) = load_runs([tmp_path])
    assert (len(whole.records), whole.uncounted, whole.planned) == (3, {}, 100)
    assert (len(cut.records), cut.uncounted, cut.planned) == (2, {"truncated": 1}, 100)
    assert cut.name == "mockllm/model, event-log, H=1 (epoch-1) (unfinished, 2 of 100)"
    assert whole.name == "mockllm/model, event-log, H=1 (epoch-2) (unfinished, 3 of 100)"
    assert whole.key != cut.key
    # As a run of ours of the same episodes.
    assert whole.setting == cut.setting == dataclasses.replace(ours.setting, model="mockllm/model")
    assert whole.seed == ours.seed and whole.missing is not None and ours.missing is not None
    assert whole.missing.not_over == ours.missing.not_over == 97
    assert whole.keys() == ours.keys()
    for mine, other in zip(whole.records, ours.records, strict=True):
        assert set(mine) == set(other)
        same = ("labels", "start_xy", "windows", "actions", "ending", "stroke_coverage", "status", "calls")
        assert [mine[name] for name in same] == [other[name] for name in same]
        assert (mine["answer"], mine["input_tokens"], mine["output_tokens"]) == ([7], 100, 5)


def test_how_the_model_was_asked_is_of_the_setting(folder: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(the_log(folder)))
    log.plan.config = GenerateConfig(temperature=0.5, seed=11, top_p=0.9, max_connections=3, timeout=5)
    write_eval_log(log, str(tmp_path / "asked.eval"))
    plain, asked = (dict(load_runs([path])[0].setting.others) for path in (folder, tmp_path))
    assert asked.items() - plain.items() == {("temperature", "0.5"), ("model_seed", "11"), ("top_p", "0.9")}
    assert plain.items() <= asked.items()


def test_analyse_and_matrix_read_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(folder), str(the_log(folder)), "--json", "--readers"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["writer"] for run in found["runs"]] == ["inspect", "inspect"]
    # Its provider's name is no part of a model's name, in Inspect's words or in ours.
    command = [
        "matrix",
        str(folder),
        "--level",
        "1",
        "--table",
        "memory",
        "--model",
        "openai:model",
        "--json",
    ]
    assert main(command) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert (table["counts"]["partial"], table["counts"]["confounded"]) == (1, 0)
    assert main([*command, "--dry-run"]) == 0
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 9


def test_a_log_that_was_gone_on_with_is_left_out(folder: Path, tmp_path: Path) -> None:
    earlier = read_eval_log(str(the_log(folder)))
    later = earlier.model_copy(deep=True)
    earlier.samples = earlier.samples[:2]
    later.eval.created = "2099-01-01T00:00:00+00:00"
    write_eval_log(earlier, str(tmp_path / "a.eval"))
    write_eval_log(later, str(tmp_path / "2099-01-01T00-00-00_b.json"))
    assert sum(len(run.records) for run in load_runs([tmp_path])) == 5
    assert (
        sum(len(run.records) + sum(run.uncounted.values()) for run in load_runs([tmp_path / "a.eval"])) == 2
    )


def test_logs_that_are_no_runs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = read_eval_log(str(the_log(folder)))
    other.eval.metadata, other.eval.task = {}, "gsm8k"
    write_eval_log(other, str(tmp_path / "other.eval"))
    with pytest.raises(ValueError, match="holds no run"):
        load_runs([tmp_path])
    with pytest.raises(
        ValueError, match=r"other\.eval is a log of the task 'gsm8k'; expected one of mnist_pro"
    ):
        load_runs([tmp_path / "other.eval"])
    shutil.copy(the_log(folder), tmp_path / "good.eval")
    assert len(load_runs([tmp_path])) == 2
    (tmp_path / "torn.eval").write_bytes(the_log(folder).read_bytes()[:1000])
    with pytest.raises(ValueError, match=r"torn\.eval: Inspect cannot read it"):
        load_runs([tmp_path])
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(ValueError, match=r'good\.eval .* pip install "mnistpro_jax\[inspect\]"'):
        load_runs([tmp_path / "good.eval"])
