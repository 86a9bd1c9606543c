"""Trainers that nobody here wrote learn level 1, and how that is measured."""

from __future__ import annotations

import csv
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from experiments.trainers import rejax_ppo
from experiments.trainers.curve import Curve
from experiments.trainers.measure import played
from mnistpro_jax.registration import make
from tests.episodes import few_digits


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    few_digits(monkeypatch)


def test_rejax_learns_in_a_short_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve = Curve("rejax PPO", tmp_path / "curve.csv")
    rejax_ppo.train(49_152, 1, 0, curve, episodes=500, split="test")
    (steps, accuracy, average, _) = curve.points[0]
    assert steps == 49_152
    assert accuracy >= 0.2  # guessing: 0.1
    assert 1 < average <= 36
    with (tmp_path / "curve.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert float(row["accuracy"]) == pytest.approx(accuracy, abs=1e-4)
    assert f"{100 * accuracy:.1f} % right" in capsys.readouterr().out


def test_what_is_measured_is_what_was_played() -> None:
    """Two moves, then always 7: right where the digit is one, and three steps."""
    env, params = make("MnistPro-L1-v0", split="test")

    def act(shown: jax.Array, key: jax.Array) -> jax.Array:
        steps = (
            shown[:, -9] * params.budget
        )  # of the features: steps taken, steps left, seven of the last action
        return jnp.where(steps < 1.5, 0, 4 + 7).astype(jnp.int32)

    accuracy, average = jax.jit(lambda params, key: played(act, env, params, key, 400))(
        params, jax.random.key(0)
    )
    assert float(average) == pytest.approx(3)
    assert 0.05 <= float(accuracy) <= 0.16  # a tenth are a 7


def test_sbx_learns_in_a_short_run(tmp_path: Path) -> None:
    """Where it is installed: it brings torch along, which the test environment does without."""
    pytest.importorskip("sbx")
    pytest.importorskip("stable_baselines3")
    from experiments.trainers import sb3_ppo

    curve = Curve("SBX PPO", tmp_path / "curve.csv")
    sb3_ppo.train("sbx", 49_152, 1, 0, curve, episodes=500)
    (steps, accuracy, average, _) = curve.points[0]
    assert steps == 49_152
    assert accuracy >= 0.25  # guessing: 0.1
    assert 1 < average <= 36
