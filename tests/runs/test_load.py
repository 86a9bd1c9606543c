"""Runs are found in folders and named apart; what cannot be read is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mnistpro_jax.runs.load import load_run, load_runs
from mnistpro_jax.runs.stored import common_episodes
from tests.runs import stored


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
