"""The scaling study end to end, on tiny settings."""

from __future__ import annotations

import json

import jax
import pytest

from experiments.scaling import MACHINES, Machine, estimate, main
from tests.evaluation.processes import finish, start

FEW = """
import sys
import pytest
from experiments.scaling import main
from tests.episodes import few_digits
few_digits(pytest.MonkeyPatch())
sys.exit(main())
"""
TINY = ["-c", FEW, "--quick", "--batches", "16", "--devices", "2", "--episodes", "64"]


def test_a_quick_study() -> None:
    code, output, errors = finish(start(*TINY, "--seconds", "0.02", "--json"))
    assert code == 0, errors
    report = json.loads(output)
    assert [(row["devices"], row["batch"]) for row in report["steps"]] == [(2, 16)]
    assert report["steps"][0]["steps_per_s"] > 0
    bytes_ = report["bytes"]
    # The state, and the window with its numbers.
    assert (bytes_["state"], bytes_["observation"]) == (92, 532)
    assert bytes_["step_least"] < bytes_["step_counted"]
    (evaluation,) = report["evaluations"]
    row = evaluation["devices"]["2"]
    assert row["million_episodes_s"] == pytest.approx(1e6 / row["episodes_per_s"], rel=0.01)
    assert 1 <= row["steps_per_episode"] <= 36
    assert [row["machine"] for row in report["estimates"][1:]] == [machine.name for machine in MACHINES]
    assert "compiled in" in errors


def test_an_estimate_is_its_formula() -> None:
    bytes_ = {"step_least": 1_000, "step_counted": 4_000}
    result = estimate(Machine("box", 8, 2_000, "nobody"), bytes_, 36)
    assert result["counted_steps_per_s"] == 8 * 2_000e9 / 4_000
    assert result["least_steps_per_s"] == 8 * 2_000e9 / 1_000
    assert result["million_episodes_s"] == pytest.approx(36e6 / 4e9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batches", "0"], "--batches is 0; expected 1 or more"),
        (["--seconds", "0"], "--seconds is 0; expected more than 0"),
        (
            ["--batches", "3", "--devices", "2"],
            "--batches are [3]; expected one at least that 2 devices divide",
        ),
    ],
)
def test_nonsense_is_one_line(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["scaling", *arguments])
    monkeypatch.setenv("XLA_FLAGS", "")  # the command adds to it
    monkeypatch.setattr(jax, "local_devices", lambda: [None, None])
    assert main() == 2
    assert capsys.readouterr() == ("", f"scaling: error: {message}\n")
