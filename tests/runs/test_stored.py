"""Folders of every writer become the same records; what is torn or unknown is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mnistpro_jax.host import protocol
from mnistpro_jax.host.prompts import load_pack
from mnistpro_jax.render.seen import coverage_along
from mnistpro_jax.runs.recount import counted
from mnistpro_jax.runs.stored import common_episodes, load_run, load_runs
from tests.runs import played, stored


def test_recount_is_the_slow_reference() -> None:
    for world in played.references():
        found = counted(world.canvas, world.windows, 64, 2)
        seen, total = world.stroke_seen, world.stroke_total
        assert found["revisits"] == world.revisits
        assert found["stroke_coverage"] == sum(seen) / sum(total)
        assert found["digit_stroke_coverage"] == [a / b for a, b in zip(seen, total, strict=True)]
        assert found["stroke_coverage_readable"] == sum(world.stroke_seen_readable) / sum(total)
        assert found["area_coverage"] == world.area_seen / world.canvas.size
        assert found["area_coverage_readable"] == world.area_seen_readable / world.canvas.size
        along = coverage_along(world.canvas, world.windows, 64)
        assert along[-1] == pytest.approx(found["stroke_coverage"]) and along == sorted(along)


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


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("old", [False, True])
def test_reference_folders_are_read_as_ours(tmp_path: Path, level: int, old: bool) -> None:
    run = load_run(stored.reference_folder(tmp_path, level, old=old))
    for record, expected in zip(run.records, stored.records(level), strict=True):
        assert record.keys() == expected.keys()
        for name, value in expected.items():
            assert (
                record[name] == pytest.approx(value) if isinstance(value, float) else record[name] == value
            ), name
    setting = run.setting
    assert (setting.model, setting.level) == ("gemini-3.7-flash", level)
    assert (setting.memory, setting.horizon) == ("textual", 1)
    assert (setting.window, setting.stride, setting.budget, setting.episode_list) == (64, 32, 36, "published")
    assert run.control == pytest.approx(6 / 7)
    assert run.writer == "reference"


def test_reference_settings_and_failures(tmp_path: Path) -> None:
    natural = {"turn_mode": "natural", "harness": "natural", "horizon": -1, "memory": "event_logging"}
    run = load_run(stored.reference_folder(tmp_path / "a", failed=2, **natural))
    assert (run.setting.memory, run.setting.horizon, run.uncounted) == ("natural", -1, {"api_error": 2})
    assert len(run.records) == 5
    tools = load_run(stored.reference_folder(tmp_path / "b", harness="mcp", arm="A2", seed=7))
    assert (tools.setting.harness, tools.setting.others, tools.setting.episode_list) == (
        "mcp",
        (("arm", "A2"),),
        "random",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"memory": "dreams"}, "memory 'dreams' is unknown"),
        ({"box_size": "64"}, "'box_size' is \"64\"; expected a whole number"),
        ({"image_size": 448}, "images of 448 pixels"),
        ({"digits": 0}, "digits is 0; expected 1 or more"),
        ({"box_size": 300}, "box_size is 300"),
        ({"step_size": -1}, "step_size is -1"),
    ],
)
def test_bad_reference_configurations(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = stored.reference_folder(tmp_path, **change)
    with pytest.raises(ValueError, match=message):
        load_run(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "x"}, "'label' is \"x\""),
        ({"indices": [1, 2]}, "'indices' is"),
        ({"termination_reason": "tired"}, "'termination_reason'"),
        ({"indices": [99_999]}, "images"),
        ({"indices": ["1"]}, "'indices' is .* as whole numbers"),
        ({"indices": [True]}, "'indices' is .* as whole numbers"),
        ({"total_reward": None}, "'total_reward' is null; expected a number"),
        ({"total_reward": "5"}, "'total_reward' is \"5\"; expected a number"),
        ({"total_reward": float("nan")}, "'total_reward' is NaN; expected a number"),
        ({"trajectory": 5}, "'trajectory' is 5; expected a list of steps"),
        ({"windows": []}, "'windows' is .*at least one"),
        ({"windows": 3}, "'windows' is 3"),
        ({"windows": [{"x": 0, "y": 0}]}, "'windows' is .*; expected corners"),
        ({"windows": [["0", "0"]]}, "'windows' is .*; expected corners"),
        ({"windows": [[0, 0], [161, 0]]}, "within 0..160 and 0..160.*161, 0. does not"),
        ({"windows": [[0, -1]]}, "0, -1. does not"),
        ({"episode_id": 0}, "'episode_id' is 0; expected a number that no other episode has"),
    ],
)
def test_bad_reference_episodes(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder = stored.reference_folder(tmp_path, old=True)
    summary = json.loads((folder / "results_summary.json").read_text())
    summary["episodes"][1] |= change
    (folder / "results_summary.json").write_text(json.dumps(summary))
    with pytest.raises(ValueError, match=message) as raised:
        load_run(folder)
    if message != "images":
        assert f"{folder / 'results_summary.json'}, episodes[1]: field" in str(raised.value)


def test_bad_windows_name_their_own_file(tmp_path: Path) -> None:
    folder = stored.reference_folder(tmp_path)
    path = folder / "episode_1" / "trajectory.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"windows": []}))
    with pytest.raises(ValueError, match="'windows' is") as raised:
        load_run(folder)
    assert str(raised.value).startswith(f"{path}: field 'windows'")


def test_directions_of_any_kind_are_invalid_actions(tmp_path: Path) -> None:
    folder = stored.reference_folder(tmp_path, old=True)
    summary = json.loads((folder / "results_summary.json").read_text())
    summary["episodes"][0]["trajectory"][0]["action"] = {"action": "move", "direction": ["up"]}
    (folder / "results_summary.json").write_text(json.dumps(summary))
    assert load_run(folder).records[0]["actions"][0] == "invalid"


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


def test_answers_of_another_length_are_wrong_answers(tmp_path: Path) -> None:
    folder = stored.reference_folder(tmp_path, 2, old=True)
    summary = json.loads((folder / "results_summary.json").read_text())
    summary["episodes"][0] |= {"answer": "7", "success": False}
    (folder / "results_summary.json").write_text(json.dumps(summary))
    record = load_run(folder).records[0]
    assert (record["ending"], record["answer"], record["correct"]) == ("ANSWERED", None, False)


def test_runs_are_found_in_subfolders_and_named_apart(tmp_path: Path) -> None:
    stored.evaluate_folder(tmp_path / "x" / "a", confidence=0.5)
    stored.evaluate_folder(tmp_path / "x" / "b", confidence=0.9)
    stored.evaluate_folder(tmp_path / "c")
    stored.evaluate_folder(tmp_path / "d", 2)
    stored.reference_folder(tmp_path / "y")
    runs = load_runs([tmp_path, tmp_path / "c"])
    names = sorted((run.setting.level, run.name) for run in runs)
    assert names == [
        (1, "gemini-3.7-flash, textual, H=1"),
        (1, "planner, confidence 0.5"),
        (1, "planner, confidence 0.9"),
        (1, "planner, confidence 0.99"),
        (2, "planner"),
    ]
    assert len({run.key for run in runs}) == 5
    twice = load_runs(
        [stored.evaluate_folder(tmp_path / "e" / "1"), stored.evaluate_folder(tmp_path / "e" / "2")]
    )
    assert [run.name for run in twice] == ["planner (1)", "planner (2)"]
    same = load_runs(
        [stored.evaluate_folder(tmp_path / "r1" / "x" / "run"), stored.evaluate_folder(tmp_path / "r2/x/run")]
    )
    assert [run.name for run in same] == ["planner (r1/x/run)", "planner (r2/x/run)"]
    assert len({run.key for run in same}) == 2
    # Runs that were loaded one by one have one name, and are two runs all the same.
    assert load_run(same[0].path).key != load_run(same[1].path).key


def test_common_episodes(tmp_path: Path) -> None:
    first = load_run(stored.host_folder(tmp_path / "a", failed=3))
    second = load_run(stored.evaluate_folder(tmp_path / "b"))
    here, there = common_episodes(first, second)
    np.testing.assert_array_equal(here, range(4))
    np.testing.assert_array_equal(there, range(4))


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_runs([tmp_path / "nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no run"):
        load_runs([tmp_path / "empty"])
    folder = stored.evaluate_folder(tmp_path / "a")
    whole = (folder / "episodes.jsonl").read_text()
    (folder / "episodes.jsonl").write_text(whole[:-40])
    with pytest.raises(ValueError, match="line 7: not a complete JSON"):
        load_run(folder)
    (folder / "episodes.jsonl").write_text(whole + whole)
    with pytest.raises(ValueError, match="episode 0 is there twice"):
        load_run(folder)
    (folder / "episodes.jsonl").write_text(whole)
    (folder / "summary.json").write_text('{"agent": "planner", "level": "1"}')
    with pytest.raises(ValueError, match=r"summary\.json: field 'level' is \"1\"; expected a whole number"):
        load_run(folder)
    (folder / "summary.json").unlink()
    with pytest.raises(ValueError, match="neither"):
        load_run(folder)
    other = stored.host_folder(tmp_path / "b")
    (other / "run.json").write_text('{"config": []}')
    with pytest.raises(ValueError, match="'config' is no object"):
        load_run(other)
