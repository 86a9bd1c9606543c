"""Records say what the slow reference says, survive the file, and are quick to make."""

from __future__ import annotations

import time
from pathlib import Path

import jax
import numpy as np
import pytest

from mnistpro_jax.rollouts.rollout import Trajectories
from mnistpro_jax.runs.from_rollout import episode_records
from mnistpro_jax.runs.json_files import write_jsonl
from mnistpro_jax.runs.records import read_episodes
from tests.records import ENDINGS, record_of
from tests.runs import played


def test_records_are_what_the_reference_saw() -> None:
    records = episode_records(played.trajectories(), played.PIXELS)
    assert len(records) == len(played.references())
    for number, (record, episode) in enumerate(zip(records, played.references(), strict=True)):
        expected = record_of(
            episode, played.kinds_of(number), episode=number, indices=[2 * number, 2 * number + 1]
        )
        assert record.pop("return") == pytest.approx(expected.pop("return"), abs=1e-5)
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


def test_ten_thousand_records_take_less_than_two_seconds() -> None:
    few = played.trajectories()
    rows = np.arange(10_000) % len(few)
    leaves = jax.tree.map(lambda leaf: leaf[rows], (few.indices, few.windows, few.kinds, few.statistics))
    began = time.process_time()
    assert len(episode_records(Trajectories(*leaves), played.PIXELS)) == 10_000
    assert time.process_time() - began < 2
