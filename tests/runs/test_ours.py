"""Folders of our writers become records; what is torn or unknown is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.host import protocol
from mnistpro_jax.host.prompts import load_pack
from mnistpro_jax.runs.load import load_run
from tests.runs import stored


def test_evaluate_folder(tmp_path: Path) -> None:
    run = load_run(stored.evaluate_folder(tmp_path / "a", 2))
    assert list(run.records) == stored.records(2)
    setting = run.setting
    assert (setting.model, setting.memory, setting.harness, setting.level) == ("planner", "own", "agent", 2)
    assert dict(setting.others) == {"confidence": "0.99"}
    assert (run.control, run.uncounted, run.seed) == (0.99, {}, 0)


def test_host_folder_leaves_infrastructure_failures_out(tmp_path: Path) -> None:
    run = load_run(stored.host_folder(tmp_path / "a"))
    assert len(run.records) == len(stored.SCRIPTS) - 2
    assert run.uncounted == {"api_error": 2}
    assert run.planned == len(stored.SCRIPTS)
    setting = run.setting
    assert (setting.model, setting.memory, setting.horizon) == ("openai:gpt", "textual", 1)
    assert dict(setting.others) == {
        "attempts": "3",
        "prompts": "plain",
        "prompts_sha256": load_pack("plain").digest[:8],
        "protocol_version": str(protocol.VERSION),
    }
    assert setting.label == "openai:gpt, textual, H=1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": [1, 2]}, "field 'answer' is .*; expected 1 entries"),
        ({"digits_correct": []}, "field 'digits_correct' is"),
        ({"digits_correct": None}, "field 'digits_correct' is null"),
        ({"digit_stroke_coverage": [0.5, 0.5]}, "field 'digit_stroke_coverage' is"),
        ({"digit_stroke_coverage_readable": [-0.5]}, "expected shares, 0 to 1"),
        ({"stroke_coverage": 7.5}, "field 'stroke_coverage' is 7.5; expected shares, 0 to 1"),
        ({"area_coverage": float("nan")}, "field 'area_coverage' is NaN"),
        ({"return": float("inf")}, "field 'return' is Infinity"),
        ({"labels": [11]}, "field 'labels' is"),
        ({"level": 2, "labels": [1, 2], "indices": [1, 2]}, "field 'answer' is|field 'digits_correct' is"),
    ],
)
def test_bad_episodes_name_file_and_line(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = stored.evaluate_folder(tmp_path / "a")
    path = folder / "episodes.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[2] |= change
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ValueError, match=message) as raised:
        load_run(folder)
    assert str(raised.value).startswith(f"{path}, line 3: ")


def test_episodes_that_do_not_fit_the_settings(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"episodes.jsonl, episode 0: field 'level' is 1; expected 2"):
        load_run(_with_summary(stored.evaluate_folder(tmp_path / "a"), level=2))
    with pytest.raises(ValueError, match=r"episodes.jsonl, episode \d: field 'windows' is .* of 200 pixels"):
        load_run(_with_summary(stored.evaluate_folder(tmp_path / "b"), window=200))


def _with_summary(folder: Path, **changes: Any) -> Path:
    path = folder / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder
