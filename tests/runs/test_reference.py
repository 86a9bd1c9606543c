"""Folders of the published reference become records of ours; what is torn or unknown is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.runs.load import load_run
from tests.runs import stored


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


def test_answers_of_another_length_are_wrong_answers(tmp_path: Path) -> None:
    folder = stored.reference_folder(tmp_path, 2, old=True)
    summary = json.loads((folder / "results_summary.json").read_text())
    summary["episodes"][0] |= {"answer": "7", "success": False}
    (folder / "results_summary.json").write_text(json.dumps(summary))
    record = load_run(folder).records[0]
    assert (record["ending"], record["answer"], record["correct"]) == ("ANSWERED", None, False)
