"""Thresholds on held-out images: who is offered, what is refused, and that no agent is asked what it was shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from baselines import tune as command
from baselines.tune import TUNABLE, Row, check, tune
from mnistpro_jax.agents import agent_names
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.data import Dataset

WEIGHTS = Path(shipped.__file__).parent / "weights"


def test_all_but_the_blind_can_be_tuned() -> None:
    assert set(agent_names()) - set(TUNABLE) == {"random"}
    for agent in TUNABLE:
        check(agent, [0.5])
    check("glimpse", [0.5], WEIGHTS)


@pytest.mark.parametrize(
    ("agent", "thresholds", "weights", "expected"),
    [
        ("random", [0.5], None, "'random' is no agent with a confidence"),
        ("oracle", [0.5], None, "expected one of random-walk"),
        ("canvas", [], None, "--confidences is empty"),
        ("observer", [0.5], WEIGHTS, "no trained weights; leave --weights out"),
        ("canvas", [0.5], Path("/nowhere"), "lie in /nowhere"),
    ],
)
def test_nonsense_is_refused(
    agent: str, thresholds: list[float], weights: Path | None, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        check(agent, thresholds, weights)


def test_weights_that_know_the_held_out_images_are_refused(tmp_path: Path) -> None:
    params, about, _ = shipped.load("glimpse")
    about["config"]["held_out"] = 4_999
    shipped.save(tmp_path / "glimpse.npz", params, about)
    with pytest.raises(ValueError, match="held_out = 4999"):
        check("glimpse", [0.5], tmp_path)


def test_a_bank_agent_is_asked_about_images_that_its_bank_lacks(
    mnist_test: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the images of 200, the last 40 are shown and the bank holds the first 160; a surer agent looks for longer."""
    small = dataclasses.replace(mnist_test, images=mnist_test.images[:200], labels=mnist_test.labels[:200])
    built, played, said = [], [], set()
    build, rollout = command.build_reader, command.rollout

    def building(dataset: Dataset, **options: Any) -> Any:
        built.append(dataset)
        return build(dataset, **options)

    def playing(key: jax.Array, env: Any, params: Any, *rest: Any, **options: Any) -> Any:
        trajectories = rollout(key, env, params, *rest, **options)
        played.append((np.asarray(params.bank.labels), trajectories))
        return trajectories

    monkeypatch.setattr(command, "build_reader", building)
    monkeypatch.setattr(command, "rollout", playing)
    hasty, careful = tune(
        "coverage", 1, 24, [0.3, 0.9], small, 40, report=lambda what, done, total: said.add(what)
    )
    assert len(built) == 1
    np.testing.assert_array_equal(built[0].images, small.images[:160])
    for labels, trajectories in played:
        shown = trajectories.indices[:, 0]
        np.testing.assert_array_equal(trajectories.statistics.label[:, 0], small.labels[160:][shown])
    np.testing.assert_array_equal(played[0][1].indices, played[1][1].indices)
    assert (hasty.confidence, careful.confidence) == (0.3, 0.9)
    assert hasty.steps < careful.steps
    assert hasty.accuracy == np.mean(played[0][1].statistics.correct)
    assert {"coverage, confidence 0.3: compiling", "coverage, confidence 0.9: episodes"} <= said


def test_the_highest_return_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    returns = {0.5: 7.0, 0.9: 9.25, 0.95: 9.0}

    def tuned(
        agent: str, level: int, episodes: int, thresholds: list[float], *_: Any, **__: Any
    ) -> list[Row]:
        return [Row(value, 0.9, 3.0, returns[value], 4.0) for value in thresholds]

    chosen = {
        "agent": "observer",
        "level": 1,
        "episodes": 8,
        "weights": None,
        "confidences": map(str, returns),
    }
    monkeypatch.setattr(
        command, "FLAGS", SimpleNamespace(**{**chosen, "confidences": ["0.5", "0.9", "0.95"]})
    )
    monkeypatch.setattr(command.data, "load", lambda *_: None)
    monkeypatch.setattr(command, "tune", tuned)
    command.main()
    printed = capsys.readouterr().out
    assert "9.250" in printed and printed.splitlines()[-1] == "highest return at 0.9"
