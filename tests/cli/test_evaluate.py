"""``mnistpro evaluate``: what it prints and writes, and that what fails leaves nothing."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import mnistpro_jax
from mnistpro_jax import data
from mnistpro_jax.agents.reader import build_reader, full_read, native_counts
from mnistpro_jax.cli import main
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.records import read_episodes
from mnistpro_jax.worlds.published import canvas_of
from tests.cli.runs import COUNT, RANDOM, one_line, process, summary_of
from tests.episodes import mnist_test
from tests.reference import ReferenceEpisode

KEYS = """
    accuracy accuracy_ci95 positional_accuracy control_accuracy average_steps average_moves average_return
    episodes stroke_coverage stroke_coverage_readable area_coverage area_coverage_readable revisit_rate
    endings all_digits_seen accuracy_by_topology accuracy_when_seen budget_left_at_answer published_best
    level window stride budget outline source split agent confidence seed version
"""


@pytest.mark.parametrize("level", [1, 2])
def test_summary_has_its_keys(folders: dict[int, Path], level: int) -> None:
    summary = summary_of(folders[level])
    assert set(summary) >= set(KEYS.split())
    expected = {
        "level": level,
        "agent": "random",
        "episodes": COUNT,
        "window": 64,
        "stride": 32,
        "budget": {1: 36, 2: 78}[level],
        "source": "mnist",
        "split": "test",
        "seed": 5,
        "outline": True,
        "confidence": None,
        "control_accuracy": None,
        "version": mnistpro_jax.__version__,
    }
    assert {name: summary[name] for name in expected} == expected
    assert sum(summary["endings"].values()) == COUNT
    low, high = summary["accuracy_ci95"]
    assert 0 <= low <= summary["accuracy"] <= high <= 1


@pytest.mark.parametrize("level", [1, 2])
def test_records_agree_with_the_summary(folders: dict[int, Path], level: int) -> None:
    records, summary = read_episodes(folders[level]), summary_of(folders[level])
    outcomes = Outcomes.of_records(records)
    assert [record["episode"] for record in records] == list(range(COUNT))
    assert summary["accuracy"] == outcomes.correct.mean()
    assert summary["average_steps"] == outcomes.steps.mean()
    assert summary["stroke_coverage"] == outcomes.stroke_coverage.mean()
    assert summary["average_return"] == outcomes.returns.mean()
    endings = [record["ending"] for record in records]
    assert summary["endings"] == {name: endings.count(name) for name in summary["endings"]}


@pytest.mark.parametrize("level", [1, 2])
def test_records_replay_in_the_reference(folders: dict[int, Path], level: int) -> None:
    """What is stored is what happens by the rules, on the canvas of the images that it names."""
    budget = summary_of(folders[level])["budget"]
    codes = {name: code for code, name in enumerate(("up", "down", "left", "right", "answer", "invalid"))}
    dataset = mnist_test()
    for record in read_episodes(folders[level]):
        canvas = canvas_of(dataset.images[record["indices"]])
        episode = ReferenceEpisode(canvas, record["labels"], record["start_xy"], 64, 32, budget)
        for action in record["actions"]:
            episode.step(codes[action], record["answer"])
        assert [list(corner) for corner in episode.windows] == record["windows"]
        assert (episode.correct, episode.steps, episode.revisits, episode.answer) == tuple(
            record[name] for name in ("correct", "steps", "revisits", "answer")
        )
        assert sum(episode.stroke_seen) / sum(episode.stroke_total) == record["stroke_coverage"]
        assert (
            sum(episode.stroke_seen_readable) / sum(episode.stroke_total)
            == record["stroke_coverage_readable"]
        )
        assert episode.area_seen / canvas.size == record["area_coverage"]
        assert float(episode.episode_return) == pytest.approx(record["return"], abs=1e-4)


@pytest.mark.parametrize("level", [1, 2])
def test_pictures(folders: dict[int, Path], level: int) -> None:
    names = sorted(path.name for path in (folders[level] / "pictures").iterdir())
    assert names == [
        "episode-0000.gif",
        "episode-0000.png",
        "episode-0001.gif",
        "episode-0001.png",
        "grid.png",
    ]
    for name in names:
        with Image.open(folders[level] / "pictures" / name) as image:
            image.load()
    assert sorted(path.name for path in folders[level].iterdir()) == [
        "episodes.jsonl",
        "pictures",
        "summary.json",
    ]


def test_json_is_one_object_and_the_same_as_the_file(
    folders: dict[int, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """And with it: the same seed gives the same results, to the last digit."""
    assert main([*RANDOM, "--level", "1", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == summary_of(folders[1])
    assert printed.err == ""


def test_another_seed_is_another_sample(folders: dict[int, Path], tmp_path: Path) -> None:
    assert main([*RANDOM[:-1], "6", "--out", str(tmp_path / "a" / "b"), "--json"]) == 0
    images = [
        [record["indices"] for record in read_episodes(path)] for path in (tmp_path / "a" / "b", folders[1])
    ]
    assert images[0] != images[1]


def test_tables_are_printed_without_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RANDOM, "--level", "2"]) == 0
    printed = capsys.readouterr()
    for expected in ("MNIST-PRO level 2", "published best", "63.0 %", "topology", "step limit"):
        assert expected in printed.out
    assert printed.err == ""


def test_progress_is_for_terminals_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert main([*RANDOM, "--level", "1", "--json"]) == 0
    assert "episodes" in terminal.getvalue()
    assert terminal.getvalue().endswith("\x1b[2K")  # the last thing it does is to clear its line
    json.loads(capsys.readouterr().out)


def test_a_sweep_has_a_run_each(sweep: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    folder, arguments = sweep
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert runs == summary_of(folder)["runs"]
    assert [run["confidence"] for run in runs] == [0.3, 0.99]
    assert runs[0]["average_steps"] < runs[1]["average_steps"]
    assert sorted(path.name for path in folder.iterdir()) == [
        "confidence-0.3",
        "confidence-0.99",
        "summary.json",
    ]
    for run in runs:
        assert summary_of(folder / f"confidence-{run['confidence']}") == run
        assert len(read_episodes(folder / f"confidence-{run['confidence']}")) == 30


def test_control_reads_the_whole_canvas(sweep: tuple[Path, list[str]], small_data: Path) -> None:
    """The same reader on fully revealed canvases, worked out here image by image."""
    reader = build_reader(data.load(f"idx:{small_data}", "train"))
    test = data.load(f"idx:{small_data}", "test")
    right = [
        int(full_read(reader, counts).digits[0]) == label
        for counts, label in zip(native_counts(test.images), test.labels, strict=True)
    ]
    for run in summary_of(sweep[0])["runs"]:
        assert run["control_accuracy"] == np.mean(right) > 0.5
        assert run["published_best"] is None


def test_a_sweep_prints_a_row_each(sweep: tuple[Path, list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(sweep[1]) == 0
    first_words = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.split()]
    assert {"0.3", "0.99"} <= set(first_words)


def test_training_images_are_refused_for_agents_that_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--agent", "observer", "--split", "train", "--episodes", "5"]) == 2
    assert "images that it knows" in one_line(capsys)


def test_training_images_are_named_as_such(small_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RANDOM, "--data", f"idx:{small_data}", "--split", "train", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["split"] == "train"
    assert printed.err.startswith("mnistpro: warning:") and printed.err.count("\n") == 1


def test_results_are_not_overwritten_by_accident(
    folders: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folders[1], folder)
    (folder / "notes.txt").write_text("mine")
    before = (folder / "summary.json").read_bytes()
    again = [*RANDOM[:-1], "9", "--out", str(folder), "--json"]
    assert main(again) == 2
    assert "already holds results (summary.json" in one_line(capsys)
    assert (folder / "summary.json").read_bytes() == before
    assert main([*again, "--overwrite"]) == 0
    assert summary_of(folder)["seed"] == 9
    # The pictures of the earlier run went with it; a file of other origin stays.
    assert sorted(path.name for path in folder.iterdir()) == ["episodes.jsonl", "notes.txt", "summary.json"]


def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for target in (file, file / "below"):
        assert main([*RANDOM, "--out", str(target)]) == 2
        assert str(file) in one_line(capsys)
    assert main([*RANDOM, "--out", "/proc/mnistpro"]) == 2
    assert "/proc/mnistpro" in one_line(capsys)


def test_ctrl_c_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mnistpro_jax.evaluation.evaluate.rollout", interrupted)
    assert main([*RANDOM, "--out", str(tmp_path / "new" / "run")]) == 130
    assert capsys.readouterr().err == "mnistpro: interrupted; nothing written\n"
    assert list(tmp_path.iterdir()) == []


def test_failing_while_writing_leaves_the_earlier_results(
    folders: dict[int, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(folders[1], folder)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def full(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device", "somewhere/grid.png")

    monkeypatch.setattr("mnistpro_jax.cli.evaluate.write_grid", full)
    assert main([*RANDOM, "--out", str(folder), "--overwrite", "--pictures", "1"]) == 2
    assert one_line(capsys) == "mnistpro: error: somewhere/grid.png: No space left on device\n"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_process_gives_the_same_with_another_batch(folders: dict[int, Path], tmp_path: Path) -> None:
    done = process(*RANDOM, "--batch", "7", "--out", str(tmp_path), "--json")
    assert (done.returncode, done.stderr) == (0, f"mnistpro: results are in {tmp_path}\n")
    assert json.loads(done.stdout) == summary_of(folders[1]) == summary_of(tmp_path)
    assert read_episodes(tmp_path) == read_episodes(folders[1])


@pytest.mark.parametrize("seconds", [0.0, 4.0])
def test_real_ctrl_c(seconds: float, tmp_path: Path) -> None:
    """A signal in the middle of a long run, early or while devices compute: one line, exit code 130, and no folder."""
    target = tmp_path / "run"
    arguments = [*RANDOM, "--episodes", "1000000", "--out", str(target)]
    command = [sys.executable, "-m", "mnistpro_jax", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("run/.unfinished-*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(seconds)
        running.send_signal(signal.SIGINT)
        try:
            _, errors = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 130
    assert errors == "mnistpro: interrupted; nothing written\n"
    assert list(tmp_path.iterdir()) == []
