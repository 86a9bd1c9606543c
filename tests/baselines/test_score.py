"""The table of learned agents: what a row holds, and how training seeds become one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from baselines import score_ram
from baselines.score import HEAD, LEARNED, OBSERVED, Score, parameters, scores, table
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


def test_runs_of_one_ram_configuration_become_a_line() -> None:
    runs = [
        score_ram.RamScore("ram_mnist", 24_000, 0, (1.0, 1.2)),
        score_ram.RamScore("ram_cluttered", 25_000, 0, (3.0, 3.2)),
        score_ram.RamScore("ram_mnist", 24_000, 1, (0.8, 1.0)),
        score_ram.RamScore("ram_mnist", 10, 1, (90.0, 90.0)),
    ]
    lines = [_cells(line) for line in score_ram.table(runs).splitlines()]
    assert all(len(line) == len(score_ram.HEAD) for line in lines)
    assert lines[2:] == [
        ["`ram_mnist`", "24,000", "0, 1", "1.00 ± 0.14 %", "0.80 to 1.20 %", "1.12 %, 1.29 %"],
        ["`ram_cluttered`", "25,000", "0", "3.10 %", "3.00 to 3.20 %", "4.04 %"],
        ["`ram_mnist`", "10", "1", "90.00 %", "90.00 to 90.00 %", "1.12 %, 1.29 %"],
    ]


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
