"""The training loop: resuming changes nothing, NaN stops, another configuration is refused."""

from __future__ import annotations

import csv
import dataclasses
import os
import signal
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.loop import Run, TrainingError, TrainingInterrupted, train


@dataclasses.dataclass(frozen=True)
class LineConfig:
    updates: int = 40
    rate: float = 0.1
    spoil_at: int = -1


class LineTrainer:
    """Fits a line to noisy points; the key matters, so that a wrong resume shows."""

    def __init__(self, config: LineConfig) -> None:
        self.config = config
        self.data = jnp.asarray([2.0, -1.0], jnp.float32)

    def init(self, key: jax.Array) -> Any:
        return {"weights": jax.random.normal(key, (2,), jnp.float32), "number": jnp.zeros((), jnp.int32)}

    def step(self, state: Any, key: jax.Array, data: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        x = jnp.stack([jax.random.normal(key, (), jnp.float32), jnp.float32(1)])
        error = x @ (state["weights"] - data)
        spoilt = state["number"] == self.config.spoil_at
        loss = jnp.where(spoilt, jnp.nan, error**2)
        after = {"weights": state["weights"] - self.config.rate * error * x, "number": state["number"] + 1}
        return after, {"loss": loss}

    def evaluate(self, state: Any, key: jax.Array) -> dict[str, float]:
        return {"distance": float(jnp.sum((state["weights"] - self.data) ** 2))}


def _run(folder: Path, config: LineConfig) -> Any:
    return train(LineTrainer(config), Run(folder, "line", 3), evaluate_every=10, quiet=True)


def test_training_learns_and_writes_a_curve(tmp_path: Path) -> None:
    state = _run(tmp_path / "run", LineConfig(updates=60))
    assert float(jnp.abs(state["weights"] - jnp.asarray([2.0, -1.0])).max()) < 0.1
    with (tmp_path / "run" / "curve.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert int(float(rows[-1]["update"])) == 60
    assert float(rows[-1]["distance"]) < float(rows[0]["loss"])
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_run_ends_where_an_uninterrupted_one_does(tmp_path: Path) -> None:
    whole = _run(tmp_path / "whole", LineConfig())
    folder = tmp_path / "parts"

    class Stopping(LineTrainer):
        def evaluate(self, state: Any, key: jax.Array) -> dict[str, float]:
            if int(state["number"]) == 20:
                os.kill(os.getpid(), signal.SIGINT)
            return super().evaluate(state, key)

    with pytest.raises(TrainingInterrupted, match="update 20"):
        train(Stopping(LineConfig()), Run(folder, "line", 3), evaluate_every=10, quiet=True)
    resumed = _run(folder, LineConfig())
    np.testing.assert_array_equal(whole["weights"], resumed["weights"])
    with (folder / "curve.csv").open(encoding="utf-8") as file:
        updates = [float(row["update"]) for row in csv.DictReader(file)]
    assert updates == sorted(set(updates))
    assert updates[-1] == 40


def test_a_finished_run_is_not_trained_further(tmp_path: Path) -> None:
    first = _run(tmp_path, LineConfig(updates=10))
    again = _run(tmp_path, LineConfig(updates=10))
    np.testing.assert_array_equal(first["weights"], again["weights"])


def test_nan_stops_and_names_the_update(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="update 23"):
        _run(tmp_path, LineConfig(spoil_at=23))


def test_another_configuration_is_refused_by_field(tmp_path: Path) -> None:
    _run(tmp_path, LineConfig(updates=5))
    with pytest.raises(TrainingError, match=r"rate = 0\.1.*0\.2"):
        _run(tmp_path, LineConfig(updates=5, rate=0.2))
    with pytest.raises(TrainingError, match="seed"):
        train(LineTrainer(LineConfig(updates=5)), Run(tmp_path, "line", 4), quiet=True)
