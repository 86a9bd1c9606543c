"""The command as a user meets it: what it prints and writes, and what it says when asked for nonsense."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from PIL import Image

import mnistpro_jax
from mnistpro_jax import data, registration
from mnistpro_jax.agents import agent_names
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.cli import main
from mnistpro_jax.data import idx
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.evaluation.world import draw_indices, world
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.records import read_episodes
from mnistpro_jax.worlds.published import canvas_of, published_episodes
from tests.episodes import mnist_test
from tests.reference import ReferenceEpisode

COUNT = 20
WEIGHTS = Path(shipped.__file__).parent / "weights"
RANDOM = ["evaluate", "--agent", "random", "--episodes", str(COUNT), "--seed", "5"]


@pytest.fixture(scope="module", autouse=True)
def quick_compilation() -> Iterator[None]:
    """Programs here run once or twice: optimising them would take longer than running them."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """What a run of the random agent wrote, by level."""
    home = tmp_path_factory.mktemp("runs")
    made = {}
    for level in (1, 2):
        made[level] = home / f"level-{level}"
        arguments = [*RANDOM, "--level", str(level), "--out", str(made[level]), "--pictures", "2", "--json"]
        assert main(arguments) == 0
    return made


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """IDX files of 300 training and 30 test images: a bank that is ready at once."""
    folder = tmp_path_factory.mktemp("idx")
    for split, prefix, count in (("train", "train", 300), ("test", "t10k", 30)):
        full = data.load("mnist", split)
        idx.write(folder / f"{prefix}-images-idx3-ubyte", full.images[:count])
        idx.write(folder / f"{prefix}-labels-idx1-ubyte", full.labels[:count].astype(np.uint8))
    return folder


def summary_of(folder: Path) -> dict[str, Any]:
    loaded = json.loads((folder / "summary.json").read_text())
    assert isinstance(loaded, dict)
    return loaded


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What was printed: nothing on standard output, and one line that begins as every error does."""
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1, printed.err
    assert printed.err.startswith("mnistpro: error: ")
    assert "Traceback" not in printed.err
    return printed.err


# ---- evaluate ----------------------------------------------------------------------------------------------

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


def test_no_image_comes_twice_before_all_have_come() -> None:
    drawn = draw_indices(50, 1, 120, seed=1)
    assert drawn.shape == (120, 1) and drawn.dtype == np.int32
    for first in (0, 50):
        assert sorted(drawn[first : first + 50, 0]) == list(range(50))
    assert len(set(drawn[100:, 0])) == 20


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_shorter_list_is_the_beginning_of_a_longer_one(level: int) -> None:
    np.testing.assert_array_equal(draw_indices(50, level, 130, 7)[:33], draw_indices(50, level, 33, 7))
    assert not np.array_equal(draw_indices(50, level, 33, 8), draw_indices(50, level, 33, 7))


@pytest.mark.parametrize(("level", "window"), [(1, 64), (2, 64), (1, 128)])
def test_published_episodes_start_where_they_were_published(level: int, window: int) -> None:
    """For every window: the same stroke pixel is in its middle, so that the corner is another one."""
    request = EvaluationRequest(level=level, window=window, stride=window // 2)
    env, bank = world(request, mnist_test())
    published = published_episodes(level, window)
    assert (env.start, env.outline, bank.episodes is not None) == ("published", True, True)
    assert bank.episodes is not None
    np.testing.assert_array_equal(bank.episodes.starts, published.start_xy)
    indices = np.asarray(bank.indices)[np.asarray(bank.episodes.scenes), 0]
    np.testing.assert_array_equal(indices, published.indices)


# ---- agents that read --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A threshold sweep of an agent that reads: its folder, and the arguments."""
    folder = tmp_path_factory.mktemp("sweep")
    arguments = ["evaluate", "--agent", "serpentine", "--data", f"idx:{small_data}", "--episodes", "30"]
    arguments += ["--confidence", "0.3", "0.99"]
    assert main([*arguments, "--out", str(folder), "--json"]) == 0
    return folder, arguments


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
    from mnistpro_jax.agents.reader import build_reader, full_read, native_counts

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


# ---- frontier ----------------------------------------------------------------------------------------------


def test_frontier_sweeps_agents_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "frontier.png"
    arguments = ["frontier", "--agents", "planner", "--episodes", "40", "--confidence", "0.5", "0.99"]
    assert main([*arguments, "--out", str(picture), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    quick, careful = printed["agents"]["planner"]
    assert (printed["level"], quick["confidence"], careful["confidence"]) == (1, 0.5, 0.99)
    assert quick["average_steps"] < careful["average_steps"]
    assert quick["accuracy"] <= careful["accuracy"]
    with Image.open(picture) as drawn:
        assert min(drawn.size) > 400
    assert os.listdir(tmp_path) == ["frontier.png"]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "0.99" in text and "published" in text


def test_frontier_refuses_before_anything_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    played: list[Any] = []
    monkeypatch.setattr("mnistpro_jax.evaluation.evaluate.prepare", lambda *args: played.append(args))
    weights, taken = tmp_path / "weights", tmp_path / "taken"
    weights.mkdir()
    taken.mkdir()
    (weights / "reader.npz").write_bytes((WEIGHTS / "reader.npz").read_bytes())
    # The planner could play with what is there; the canvas agent, which comes later, could not.
    for arguments, expected in (
        (
            ["--agents", "planner", "canvas", "--weights", str(weights)],
            f"no weights 'canvas' lie in {weights}",
        ),
        (["--agents", "planner", "--out", str(taken)], f"{taken} is a folder"),
    ):
        assert main(["frontier", *arguments]) == 2
        text = one_line(capsys)
        assert expected in text and ".part" not in text
    assert played == []
    assert sorted(os.listdir(tmp_path)) == ["taken", "weights"]


# ---- agents, envs, help ------------------------------------------------------------------------------------


def test_agents(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["agents"]
    assert [agent["name"] for agent in listed] == list(agent_names())
    reads = {agent["name"]: agent["reads_with"] for agent in listed}
    assert (reads["random"], reads["observer"], reads["canvas"]) == (None, "bank", "network")
    assert main(["agents"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in agent_names())


def test_envs_are_what_the_environments_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["envs", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["environments"]
    assert [facts["id"] for facts in listed] == list(registration.registered())
    bank = registration.published_bank(1)
    for mode, facts in listed[0]["observations"].items():
        env = registration.environment(bank, observation=mode)
        params = registration.make_params(env, bank)
        shown, _ = jax.eval_shape(env.reset, jax.random.key(0), params)
        leaves = jax.tree.leaves(shown.view)
        assert facts["bytes"] == sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        described = [(tuple(array["shape"]), array["dtype"]) for array in facts["arrays"].values()]
        assert described == [(leaf.shape, str(leaf.dtype)) for leaf in leaves]
        assert (listed[0]["budget"], listed[0]["actions"]) == (
            int(params.budget),
            env.action_space().num_values,
        )
        assert listed[0]["canvas"] == [env.height, env.width]
    assert main(["envs"]) == 0
    assert "MnistPro-L2-v0" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["evaluate", "agents", "envs", "render"])
def test_help_ends_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"example: mnistpro {command}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mnistpro {mnistpro_jax.__version__}\n"


# ---- render ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "suffixes"),
    [([], [".png", ".gif"]), (["--both"], [".png", ".gif"]), (["--gif"], [".gif"]), (["--sheet"], [".png"])],
)
def test_render_writes_what_it_says(
    folders: dict[int, Path],
    tmp_path: Path,
    options: list[str],
    suffixes: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    for source in (folders[2], folders[2] / "episodes.jsonl"):
        capsys.readouterr()
        assert main(["render", str(source), "--episode", "3", "--out", str(tmp_path), *options]) == 0
        written = [Path(line) for line in capsys.readouterr().out.splitlines()]
        assert written == [tmp_path / f"episode-0003{suffix}" for suffix in suffixes]
        assert sorted(tmp_path.iterdir()) == sorted(written)


def test_render_puts_pictures_beside_the_run(folders: dict[int, Path], tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("summary.json", "episodes.jsonl"):
        shutil.copy(folders[1] / name, run / name)
    assert main(["render", str(run), "--episode", "0", "--sheet"]) == 0
    drawn = (run / "pictures" / "episode-0000.png").read_bytes()
    assert drawn == (folders[1] / "pictures" / "episode-0000.png").read_bytes()
    assert main(["render", str(run), "--episode", "0", "--sheet", "--remembered"]) == 0


def test_render_refuses_what_it_cannot_draw(
    folders: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["render", str(folders[1]), "--episode", str(COUNT)]) == 2
    assert f"it holds episodes 0 to {COUNT - 1}" in one_line(capsys)
    assert main(["render", str(tmp_path / "nothing"), "--episode", "0"]) == 2
    assert "no episode file" in one_line(capsys)

    episodes = tmp_path / "episodes.jsonl"
    text = (folders[1] / "episodes.jsonl").read_text()
    episodes.write_text(text)
    assert main(["render", str(tmp_path), "--episode", "0"]) == 2
    assert "no summary.json" in one_line(capsys)
    for broken in ("{", "[]", "{}", '{"window": "64", "outline": true}'):
        (tmp_path / "summary.json").write_text(broken)
        assert main(["render", str(tmp_path), "--episode", "0"]) == 2
        assert "summary.json" in one_line(capsys)

    shutil.copy(folders[1] / "summary.json", tmp_path / "summary.json")
    episodes.write_text(text[: len(text) // 2])
    assert main(["render", str(tmp_path), "--episode", "0"]) == 2
    assert "episodes.jsonl, line" in one_line(capsys)
    first = json.loads(text.splitlines()[0])
    other = {**first, "labels": [(first["labels"][0] + 1) % 10]}
    for record, expected in (
        (other, "came from"),
        ({**first, "indices": [10_000]}, "images 0..9999"),
        ({**first, "source": "idx:/nowhere"}, "/nowhere"),
    ):
        episodes.write_text(json.dumps(record) + "\n")
        assert main(["render", str(tmp_path), "--episode", "0"]) == 2
        assert expected in one_line(capsys)


def test_render_names_the_runs_of_a_sweep(
    sweep: tuple[Path, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["render", str(sweep[0]), "--episode", "0"]) == 2
    assert "confidence-0.99" in one_line(capsys)
    assert main(["render", str(sweep[0] / "confidence-0.99"), "--episode", "0", "--out", str(tmp_path)]) == 0


# ---- Nonsense ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no command; expected one of evaluate, "),
        (["play"], "evaluate"),
        (["evaluate", "--agent", "oracle"], ", ".join(agent_names())),
        (["evaluate", "--level", "0"], "1 to 99"),
        (["evaluate", "--level", "two"], "1 to 99"),
        (["evaluate", "--level", "3"], "levels 1 and 2"),
        (["evaluate", "--episodes", "-3"], "'published' or a whole number, 1 or more"),
        (["evaluate", "--episodes", "abc"], "'published' or a whole number, 1 or more"),
        (["evaluate", "--episodes", "0"], "'published' or a whole number, 1 or more"),
        (["evaluate", "--split", "validation"], "'train', 'test'"),
        (["evaluate", "--data", "cifar", "--episodes", "5"], '"idx:FOLDER"'),
        (["evaluate", "--data", "idx:/nowhere", "--episodes", "5"], "/nowhere"),
        (["evaluate", "--data", "idx:/nowhere"], "published episodes"),
        (["evaluate", "--agent", "random", "--split", "train"], "published episodes"),
        (["evaluate", "--seed", "-1"], "0 to 4294967295"),
        (["evaluate", "--confidence", "nan"], "probability"),
        (["evaluate", "--confidence", "sure"], "probability"),
        (["evaluate", "--confidence", "-0.1"], "probability"),
        (["evaluate", "--confidence", "0.9", "0.90"], "twice"),
        (["evaluate", "--agent", "random", "--confidence", "0.9"], "does not read"),
        (["evaluate", "--agent", "random", "--window", "300"], "224"),
        (["evaluate", "--agent", "random", "--episodes", "3", "--window", "225"], "224"),
        (["evaluate", "--agent", "random", "--episodes", "3", "--window", "3"], "needs 4"),
        (["evaluate", "--agent", "random", "--stride", "0"], "1 or more"),
        (["evaluate", "--budget", "0"], "1 or more"),
        (["evaluate", "--batch", "0"], "1 or more"),
        (["evaluate", "--pictures", "2"], "--out DIR"),
        (["evaluate", "--overwrite"], "--out DIR"),
        (["evaluate", "--wat"], "--wat"),
        (["evaluate", "--agent", "canvas", "--window", "96"], "trained for window 64"),
        (["evaluate", "--agent", "glimpse", "--window", "96"], "trained for window 64"),
        (["evaluate", "--agent", "glimpse", "--weights", "/nowhere"], "no weights 'glimpse' lie in /nowhere"),
        (["evaluate", "--weights", "/nowhere"], "no trained weights"),
        (["frontier", "--agents", "random"], "no confidence"),
        (["frontier", "--agents", "oracle"], ", ".join(agent_names())),
        (["frontier", "--out", "/nowhere/at/all.png"], "there is no folder"),
        (["frontier", "--out", "/"], "--out: / is a folder"),
        (["frontier", "--out", "/proc/x.png"], "cannot write to the folder /proc"),
        (["frontier", "--agents", "observer", "coverage", "--weights", "/nowhere"], "has trained weights"),
        (["frontier", "--level", "3", "--episodes", "published"], "levels 1 and 2"),
        (["render", "somewhere"], "--episode"),
        (["render", "somewhere", "--episode", "-1"], "0 or more"),
        (["render", "somewhere", "--episode", "1", "--gif", "--sheet"], "--gif"),
    ],
)
def test_nonsense_gets_one_line(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    text = one_line(capsys)
    assert expected in text or (expected.startswith("'train'") and "train, test" in text)


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

    monkeypatch.setattr("mnistpro_jax.analysis.pictures.write_grid", full)
    assert main([*RANDOM, "--out", str(folder), "--overwrite", "--pictures", "1"]) == 2
    assert one_line(capsys) == "mnistpro: error: somewhere/grid.png: No space left on device\n"
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_unexpected_errors_offer_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a fault\nin two lines")

    monkeypatch.setattr("mnistpro_jax.evaluation.evaluate.rollout", broken)
    assert main(RANDOM) == 1
    assert "MNISTPRO_DEBUG=1" in one_line(capsys)
    monkeypatch.setenv("MNISTPRO_DEBUG", "1")
    assert main(RANDOM) == 1
    assert "Traceback" in capsys.readouterr().err


# ---- The process -------------------------------------------------------------------------------------------


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    environment.pop("MNISTPRO_DEBUG", None)
    command = [sys.executable, "-m", "mnistpro_jax", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_process_gives_the_same_with_another_batch(folders: dict[int, Path], tmp_path: Path) -> None:
    done = process(*RANDOM, "--batch", "7", "--out", str(tmp_path), "--json")
    assert (done.returncode, done.stderr) == (0, f"mnistpro: results are in {tmp_path}\n")
    assert json.loads(done.stdout) == summary_of(folders[1]) == summary_of(tmp_path)
    assert read_episodes(tmp_path) == read_episodes(folders[1])


def test_process_fails_with_one_line() -> None:
    done = process("evaluate", "--level", "0")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("mnistpro: error: ") and done.stderr.count("\n") == 1


def test_help_does_not_load_jax() -> None:
    code = "import sys; from mnistpro_jax.cli import main; main(['--help']); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


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
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert errors == "mnistpro: interrupted; nothing written\n"
    assert list(tmp_path.iterdir()) == []
