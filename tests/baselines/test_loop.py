"""The training loop: resuming changes nothing, NaN stops, another configuration is refused."""

from __future__ import annotations

import csv
import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from baselines.loop import Checkpoints, Run, TrainingError, TrainingInterrupted, train


@dataclasses.dataclass(frozen=True)
class LineConfig:
    updates: int = 40
    rate: float = 0.1
    spoil_at: int = -1
    spoil: str = "loss"


class LineTrainer:
    """Fits a line to noisy points; the key matters, so that a wrong resume shows."""

    def __init__(self, config: LineConfig) -> None:
        self.config = config
        self.data = jnp.asarray([2.0, -1.0], jnp.float32)
        self.evaluated: list[int] = []

    def init(self, key: jax.Array) -> Any:
        return {"weights": jax.random.normal(key, (2,), jnp.float32), "number": jnp.zeros((), jnp.int32)}

    def step(self, state: Any, key: jax.Array, data: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        x = jnp.stack([jax.random.normal(key, (), jnp.float32), jnp.float32(1)])
        error = x @ (state["weights"] - data)
        spoilt = state["number"] == self.config.spoil_at
        loss, weights = error**2, state["weights"] - self.config.rate * error * x
        if self.config.spoil == "loss":
            loss = jnp.where(spoilt, jnp.nan, loss)
        else:
            weights = jnp.where(spoilt, jnp.nan, weights)
        return {"weights": weights, "number": state["number"] + 1}, {"loss": loss}

    def evaluate(self, state: Any, key: jax.Array) -> dict[str, float]:
        self.evaluated.append(int(state["number"]))
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


def _rows(folder: Path) -> list[dict[str, float]]:
    with (folder / "curve.csv").open(encoding="utf-8") as file:
        return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]


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
    before, trainer = _rows(folder), LineTrainer(LineConfig())
    resumed = train(trainer, Run(folder, "line", 3), evaluate_every=10, quiet=True)
    assert trainer.evaluated == [30, 40]  # nothing was done again
    np.testing.assert_array_equal(whole["weights"], resumed["weights"])
    after = _rows(folder)
    assert after[: len(before)] == before
    updates = [row["update"] for row in after]
    assert updates == sorted(set(updates))
    assert updates[-1] == 40


def test_a_finished_run_is_not_trained_further(tmp_path: Path) -> None:
    first, trainer = _run(tmp_path, LineConfig(updates=10)), LineTrainer(LineConfig(updates=10))
    again = train(trainer, Run(tmp_path, "line", 3), evaluate_every=10, quiet=True)
    assert trainer.evaluated == []
    np.testing.assert_array_equal(first["weights"], again["weights"])


def test_the_state_is_saved_before_its_figures_are_made(tmp_path: Path) -> None:
    """A kill in a long evaluation loses the figures, and the next run makes them."""

    class Killed(LineTrainer):
        def evaluate(self, state: Any, key: jax.Array) -> dict[str, float]:
            raise MemoryError

    with pytest.raises(MemoryError):
        train(Killed(LineConfig(updates=10)), Run(tmp_path, "line", 3), evaluate_every=10, quiet=True)
    trainer = LineTrainer(LineConfig(updates=10))
    state = train(trainer, Run(tmp_path, "line", 3), evaluate_every=10, quiet=True)
    assert trainer.evaluated == [10] == [int(state["number"])]
    assert _rows(tmp_path)[-1]["update"] == 10 and "distance" in _rows(tmp_path)[-1]


@pytest.mark.parametrize(("spoil", "at"), [("loss", 23), ("weights", 23), ("weights", 39)])
def test_nan_stops_and_keeps_the_last_good_state(tmp_path: Path, spoil: str, at: int) -> None:
    config = LineConfig(spoil_at=at, spoil=spoil)
    with pytest.raises(TrainingError, match=f"update {at}; the checkpoint of update") as caught:
        _run(tmp_path, config)
    done, state = Checkpoints(tmp_path / "checkpoint").restore(LineTrainer(config).init(jax.random.key(0)))
    assert f"the checkpoint of update {done} " in str(caught.value)
    assert 0 < done <= at and int(state["number"]) == done
    assert np.isfinite(state["weights"]).all()
    with pytest.raises(TrainingError, match=f"update {at}"):
        _run(tmp_path, config)


def test_a_run_of_two_devices_goes_on_with_one(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from baselines.loop import Run, train
from mnistpro_jax.rollouts.sharding import episode_mesh
from tests.baselines.test_loop import LineConfig, LineTrainer

mesh = episode_mesh(2)
train(LineTrainer(LineConfig(updates=20)), Run(Path(sys.argv[1]), "line", 3), quiet=True, mesh=mesh)
"""
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        check=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "XLA_FLAGS": flags},
        timeout=300,
    )
    done, state = Checkpoints(tmp_path / "checkpoint").restore(
        LineTrainer(LineConfig()).init(jax.random.key(0))
    )
    assert done == 20 == int(state["number"])
    alone = _run(tmp_path / "alone", LineConfig(updates=20))
    np.testing.assert_allclose(state["weights"], alone["weights"], rtol=1e-5)


def test_nan_in_the_first_update_claims_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="update 0; none was saved"):
        _run(tmp_path, LineConfig(spoil_at=0))
    assert not (tmp_path / "config.json").exists()  # another configuration may have the folder


def test_a_damaged_checkpoint_gives_way_to_the_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = _run(tmp_path / "whole", LineConfig())
    like = LineTrainer(LineConfig()).init(jax.random.key(0))
    folder = tmp_path / "whole" / "checkpoint"
    kept = Checkpoints(folder)
    kept.save(41, whole)
    for file in (folder / "41").rglob("*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    again = Checkpoints(folder)
    done, state = again.restore(like)
    assert done == 40 == again.last
    assert "update 41 is damaged" in capsys.readouterr().err
    np.testing.assert_array_equal(state["weights"], whole["weights"])
    with pytest.raises(TrainingError, match="another network, or damaged"):
        again.restore({**like, "weights": jnp.zeros((3,), jnp.float32)})


def test_another_configuration_is_refused_by_field(tmp_path: Path) -> None:
    _run(tmp_path, LineConfig(updates=5))
    with pytest.raises(TrainingError, match=r"rate = 0\.1.*0\.2"):
        _run(tmp_path, LineConfig(updates=5, rate=0.2))
    for about in ({"data": "mnist"}, {}):
        folder = tmp_path / f"about-{len(about)}"
        run = Run(folder, "line", 3, about)
        train(LineTrainer(LineConfig(updates=5)), run, quiet=True)
        other = Run(folder, "line", 3, {"data": "idx:elsewhere"})
        if about:
            with pytest.raises(TrainingError, match="data = 'mnist', but 'idx:elsewhere'"):
                train(LineTrainer(LineConfig(updates=5)), other, quiet=True)
        else:
            # It does not say what it was made from.
            train(LineTrainer(LineConfig(updates=5)), other, quiet=True)
    for damaged in ("[]", '{"name": '):
        (tmp_path / "config.json").write_text(damaged, encoding="utf-8")
        with pytest.raises(TrainingError, match=r"config\.json"):
            _run(tmp_path, LineConfig(updates=5))
    (tmp_path / "config.json").unlink()
    _run(tmp_path, LineConfig(updates=5))
    with pytest.raises(TrainingError, match="seed"):
        train(LineTrainer(LineConfig(updates=5)), Run(tmp_path, "line", 4), quiet=True)
