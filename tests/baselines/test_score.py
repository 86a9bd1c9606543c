"""The table of learned agents: what a row holds, and how training seeds become one."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from baselines import score as command
from baselines import score_ram
from baselines.command import exact, numbers, whole_numbers
from baselines.configs import CONFIGS
from baselines.loop import Run
from baselines.score import HEAD, LEARNED, OBSERVED, Score, check, parameters, scores, table
from mnistpro_jax.agents.learned import shipped

WEIGHTS = Path(shipped.__file__).parent / "weights"


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_seeds_become_a_mean_and_a_spread() -> None:
    rows = [
        Score("canvas", 1, 0.95, accuracy, 3.0 + accuracy, 0.5, 4.0, 1000) for accuracy in (0.97, 0.98, 0.99)
    ]
    alone = Score("glimpse", 2, 0.9, 0.9, 20, 0.5, 4, 10)
    lines = table(
        [rows[0], alone, *rows[1:], Score(OBSERVED, 1, float("nan"), 0.995, parameters=7)]
    ).splitlines()
    assert len(lines) == 2 + 3
    assert all(len(_cells(line)) == len(HEAD) for line in lines)
    canvas, glimpse, observed = map(_cells, lines[2:])
    assert canvas[:5] == ["`canvas`", "1", "0.95", "98.00 ± 1.00 %", "3.98 ± 0.01"]
    assert glimpse[3:5] == ["90.00 %", "20.00"]
    assert observed == [OBSERVED, "1", "", "99.50 %", "", "", "", "7"]


def test_confidences_that_look_alike_are_not_training_seeds() -> None:
    close = (0.9, 0.90000001, 0.9000000000000001)
    lines = table([Score("canvas", 1, confidence, 0.5, 3, 0.5, 4, 10) for confidence in close]).splitlines()
    assert [_cells(line)[2] for line in lines[2:]] == ["0.9", "0.90000001", "0.9000000000000001"]
    assert "±" not in "".join(lines)
    assert [float(exact(value)) for value in close] == list(close)


@pytest.mark.parametrize("texts", [["1.5"], ["inf"], ["nan"], ["0"], ["-1"], ["100"], ["one"], ["1", "1"]])
def test_levels_are_whole_numbers_each_once(texts: list[str]) -> None:
    assert whole_numbers(["2", "1"], 1, 99) == [2, 1]
    with pytest.raises(ValueError, match="1 to 99|has 1 twice"):
        whole_numbers(texts, 1, 99)


@pytest.mark.parametrize("texts", [["inf"], ["nan"], ["-0.1"], ["0.9", "sure"], ["0.5", "0.50"]])
def test_confidences_are_those_of_evaluate_each_once(texts: list[str]) -> None:
    assert numbers(["0.9", "0", "2"]) == [0.9, 0, 2]  # above 1: never before the last step, as there
    with pytest.raises(ValueError, match="0 or more|not a list of numbers|has 0.5 twice"):
        numbers(texts)


def _flags(**given: Any) -> SimpleNamespace:
    chosen = {
        "agents": ["glimpse"],
        "levels": ["1"],
        "confidences": [],
        "episodes": 8,
        "weights": [],
        **given,
    }
    return SimpleNamespace(**chosen)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"agents": ["canvas", "observer"]}, "'observer' is no learned agent; expected some of memoryless"),
        ({"agents": ["canvas", "canvas"]}, "--agents has canvas twice"),
        ({"agents": []}, "no agent to score"),
        ({"levels": []}, "--levels is empty"),
        ({"levels": ["1", "1.5"]}, "'1.5' is not a whole number"),
        ({"confidences": ["0.5", "0.5"]}, "has 0.5 twice"),
        ({"agents": ["glimpse", "canvas"], "weights": [str(WEIGHTS), "/nowhere"]}, "lie in /nowhere"),
        ({"weights": [str(WEIGHTS), f"{WEIGHTS}/../weights"]}, "'glimpse' has the same weights in"),
    ],
)
def test_nonsense_is_refused_before_anything_plays(
    given: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "FLAGS", _flags(**given))
    with pytest.raises(ValueError, match=expected):
        command.main()
    assert capsys.readouterr().out == ""


def test_what_a_later_agent_lacks_is_missed_at_once(tmp_path: Path) -> None:
    for name in ("reader", "glimpse"):
        shutil.copy(WEIGHTS / f"{name}.npz", tmp_path)
    check(["glimpse", "planner"], [tmp_path])
    with pytest.raises(ValueError, match="no weights 'canvas' lie in"):
        check(["glimpse", "planner", "canvas"], [tmp_path])
    with pytest.raises(ValueError, match="'planner' has the same weights in"):
        check(["planner"], [WEIGHTS, tmp_path])


def test_runs_that_share_a_reader_are_one_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two canvas agents on one reader: two training seeds of the agent, and one of the reader."""
    shutil.copy(WEIGHTS / "reader.npz", tmp_path)
    params, about, _ = shipped.load("canvas")
    shipped.save(tmp_path / "canvas.npz", jax.tree.map(lambda leaf: leaf * 1.01, params), about)

    def played(agent: str, level: int, episodes: int, confidences: Any, weights: Path, report: Any) -> Any:
        accuracy = 0.9 if weights == WEIGHTS else 0.8
        return [Score(agent, level, 0.5, accuracy, 3, 0.5, 4, 10), Score(OBSERVED, level, float("nan"), 0.99)]

    monkeypatch.setattr(command, "scores", played)
    monkeypatch.setattr(command, "FLAGS", _flags(agents=["canvas"], weights=[str(WEIGHTS), str(tmp_path)]))
    command.main()
    canvas, observed = map(_cells, capsys.readouterr().out.splitlines()[-2:])
    assert canvas[3] == "85.00 ± 7.07 %"
    assert observed[3] == "99.00 %"


def test_runs_of_one_ram_configuration_become_a_line() -> None:
    plain, cluttered = CONFIGS["ram_mnist"], CONFIGS["ram_cluttered"]
    short, noisy = (dataclasses.replace(plain, **change) for change in ({"updates": 10}, {"noise": 0.2}))
    runs = [
        score_ram.RamScore("ram_mnist", plain, 0, (1.0, 1.2)),
        score_ram.RamScore("ram_cluttered", cluttered, 0, (3.0, 3.2)),
        score_ram.RamScore("ram_mnist", plain, 1, (0.8, 1.0)),
        score_ram.RamScore("ram_mnist", short, 1, (90.0, 90.0)),
        score_ram.RamScore("ram_mnist", noisy, 1, (5.0, 5.0)),
    ]
    lines = [_cells(line) for line in score_ram.table(runs).splitlines()]
    assert all(len(line) == len(score_ram.HEAD) for line in lines)
    assert lines[2:] == [
        ["`ram_mnist`", "24,000", "0, 1", "1.00 ± 0.14 %", "0.80 to 1.20 %", "1.12 %, 1.29 %"],
        ["`ram_cluttered`", "25,000", "0", "3.10 %", "3.00 to 3.20 %", "4.04 %"],
        ["`ram_mnist`", "10", "1", "90.00 %", "90.00 to 90.00 %", "1.12 %, 1.29 %"],
        ["`ram_mnist`", "24,000", "1", "5.00 %", "5.00 to 5.00 %", "1.12 %, 1.29 %"],
    ]


def test_a_ram_run_that_comes_twice_is_no_training_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 1), ("copy", 1)):
        Run(tmp_path / name, "ram_mnist", seed).write(CONFIGS["ram_mnist"])
    score_ram.check([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(ValueError, match="hold the same run, 'ram_mnist' with seed 1"):
        score_ram.check([tmp_path / "a", tmp_path / "b", tmp_path / "copy"])


def test_scores_of_a_folder_are_those_of_the_same_weights_in_the_package() -> None:
    ours, folder = (list(scores("glimpse", 1, 24, [0.5, 0.99], weights)) for weights in (None, WEIGHTS))
    assert ours == folder
    assert [row.confidence for row in ours] == [0.5, 0.99]
    assert ours[0].steps < ours[1].steps
    assert all(np.isfinite([row.accuracy, row.stroke_seen, row.path_bits]).all() for row in ours[1:])


def test_a_reader_counts_with_those_that_read_with_it() -> None:
    assert parameters("canvas") == parameters("planner") + 359_110
    assert parameters("glimpse") == 514_640


@pytest.mark.parametrize("name", LEARNED)
def test_every_learned_agent_is_shipped(name: str) -> None:
    assert parameters(name) > 0
