"""``mnistpro frontier``: sweeps, and a picture of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.cli import main
from tests.cli.runs import one_line

WEIGHTS = Path(shipped.__file__).parent / "weights"


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
