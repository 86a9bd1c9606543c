"""Records say what the slow reference says, survive the file, and are quick to make."""

from __future__ import annotations

import json
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from mnistpro_jax.rollouts.rollout import Trajectories
from mnistpro_jax.runs.from_rollout import episode_records
from mnistpro_jax.runs.json_files import write_json, write_jsonl
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.records import read_episodes
from tests.analysis import played

NAMES = ("up", "down", "left", "right", "answer", "invalid")
ENDINGS = ("RUNNING", "ANSWERED", "STEP_LIMIT", "INVALID_ACTION")


def test_records_are_what_the_reference_saw() -> None:
    records = episode_records(played.trajectories(), played.PIXELS)
    assert len(records) == len(played.references())
    for number, (record, episode) in enumerate(zip(records, played.references(), strict=True)):
        seen, total = episode.stroke_seen, episode.stroke_total
        readable = episode.stroke_seen_readable
        expected = {
            "episode": number,
            "level": 2,
            "source": "mnist",
            "split": "test",
            "indices": [2 * number, 2 * number + 1],
            "labels": episode.labels,
            "start_xy": list(episode.windows[0]),
            "windows": [list(corner) for corner in episode.windows],
            "actions": [NAMES[kind] for kind in played.kinds_of(number)],
            "answer": episode.answer,
            "ending": ENDINGS[episode.ending],
            "correct": episode.correct,
            "digits_correct": episode.digits_correct,
            "steps": episode.steps,
            "moves": episode.moves,
            "revisits": episode.revisits,
            "stroke_coverage": sum(seen) / sum(total),
            "stroke_coverage_readable": sum(readable) / sum(total),
            "area_coverage": episode.area_seen / played.PIXELS,
            "area_coverage_readable": episode.area_seen_readable / played.PIXELS,
            "digit_stroke_coverage": [a / b for a, b in zip(seen, total, strict=True)],
            "digit_stroke_coverage_readable": [a / b for a, b in zip(readable, total, strict=True)],
            "return": pytest.approx(float(episode.episode_return), abs=1e-5),
        }
        assert record == expected
        assert list(record) == list(expected)


def test_every_ending_is_among_them() -> None:
    records = episode_records(played.trajectories(), played.PIXELS)
    assert {record["ending"] for record in records} == set(ENDINGS[1:])
    assert any(record["revisits"] for record in records)
    assert all((record["answer"] is None) == (record["ending"] != "ANSWERED") for record in records)


def test_files_hold_the_records(tmp_path: Path) -> None:
    records = episode_records(
        played.trajectories(), played.PIXELS, source="idx:somewhere", split="train", first=100
    )
    path = write_jsonl(tmp_path / "episodes.jsonl", records)
    assert read_episodes(path) == read_episodes(tmp_path) == records
    assert [record["episode"] for record in records] == list(range(100, 100 + len(records)))
    assert {(record["source"], record["split"]) for record in records} == {("idx:somewhere", "train")}
    assert [entry.name for entry in tmp_path.iterdir()] == ["episodes.jsonl"]


def test_outcomes_of_records_are_those_of_statistics() -> None:
    trajectories = played.trajectories()
    direct = Outcomes.of(trajectories.statistics, played.PIXELS)
    stored = Outcomes.of_records(episode_records(trajectories, played.PIXELS))
    for name, column in vars(direct).items():
        np.testing.assert_array_equal(column, getattr(stored, name), err_msg=name)
        assert column.dtype == getattr(stored, name).dtype, name


def test_outcomes_of_nothing_or_of_mixed_levels_are_refused() -> None:
    record = episode_records(played.trajectories(), played.PIXELS)[0]
    with pytest.raises(ValueError, match="no records"):
        Outcomes.of_records([])
    with pytest.raises(ValueError, match="one level.*1, 2"):
        Outcomes.of_records([record, {**record, "level": 1}])


def test_writing_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_json(tmp_path / "summary.json", {"a": 1})

    def interrupted(*args: object, **kwargs: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_jsonl(path, [{}])
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {})
    monkeypatch.undo()
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]


def test_ten_thousand_records_take_less_than_two_seconds() -> None:
    few = played.trajectories()
    rows = np.arange(10_000) % len(few)
    leaves = jax.tree.map(lambda leaf: leaf[rows], (few.indices, few.windows, few.kinds, few.statistics))
    began = time.process_time()
    assert len(episode_records(Trajectories(*leaves), played.PIXELS)) == 10_000
    assert time.process_time() - began < 2
