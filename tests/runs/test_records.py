"""Episode files: read back as they were written; a bad line is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.runs.records import read_episodes
from mnistpro_jax.worlds.published import canvas_of
from tests.episodes import mnist_test
from tests.records import Record, play
from tests.reference import ANSWER


@pytest.fixture(scope="module")
def record() -> Record:
    return play(canvas_of(mnist_test().images[:1]), [7], [0, 3, 3, 3, 3, 1, ANSWER], [7])[0]


def write_lines(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_read_episodes_gives_back_what_was_written(tmp_path: Path, record: Record) -> None:
    unanswered, _ = play(canvas_of(mnist_test().images[:2]), [7, 2], [0] * 36)
    # A separator that str.splitlines would cut at, inside a text.
    written = [record | {"note": "a\u2028b"}, unanswered]
    path = write_lines(
        tmp_path / "episodes.jsonl", *(json.dumps(item, ensure_ascii=False) for item in written), ""
    )
    assert read_episodes(path) == written
    assert read_episodes(str(tmp_path)) == written


def test_missing_episode_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"episodes\.jsonl"):
        read_episodes(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda line: line[: len(line) // 2], "not a complete JSON object"),
        (lambda line: "\ufffd" + line, "not a complete JSON object"),
        (lambda line: "[1, 2]", "expected one JSON object an episode, got list"),
        (lambda line: line.replace('"windows"', '"window"'), r"without the field\(s\) windows"),
        (
            lambda line: line.replace('"moves": 6', '"moves": 5'),
            r"'windows' must have moves \+ 1 = 6 entries, got 7",
        ),
        (lambda line: line.replace('"moves": 6', '"moves": "6"'), "'moves' must be an integer"),
        (
            lambda line: line.replace('"steps": 7', '"steps": 8'),
            "'actions' must have steps = 8 entries, got 7",
        ),
        (lambda line: line.replace('"level": 1', '"level": 2'), "'labels' must have level = 2 entries"),
        (lambda line: line.replace('"level": 1', '"level": true'), "'level' must be an integer"),
        (
            lambda line: line.replace('"answer": [7]', '"answer": 7'),
            "'answer' must be a list of integers or null",
        ),
        (lambda line: line.replace('"ANSWERED"', '"DONE"'), "'ending' must be one of RUNNING, ANSWERED"),
        (lambda line: line.replace('"right"', '"east"'), "'actions' must be a list of up, down"),
        (lambda line: line.replace("[70, 90]", "[70]"), r"'start_xy' must be two integers \[x, y\]"),
        (
            lambda line: line.replace('"correct": true', '"correct": 1'),
            "'correct' must be true, false or null",
        ),
    ],
)
def test_bad_line_is_named(tmp_path: Path, record: Record, spoil: Any, message: str) -> None:
    good = json.dumps(record)
    bad = spoil(good)
    assert bad != good
    path = write_lines(tmp_path / "episodes.jsonl", good, bad)
    with pytest.raises(ValueError, match=message) as caught:
        read_episodes(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
