"""Thresholds on held-out images: who is offered, what is refused, and that no agent is asked what it was shown."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from baselines import tune as command
from baselines.tune import TUNABLE, Row, check, tune
from mnistpro_jax.agents import agent_names
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.agents.reader import native_counts
from mnistpro_jax.data import Dataset
from mnistpro_jax.rollouts.rollout import rollout
from mnistpro_jax.worlds.published import canvas_of

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
    """Of 200 images the last 40 are shown, and the bank holds the first 160. Rollouts have tests of their own."""
    small = dataclasses.replace(mnist_test, images=mnist_test.images[:200], labels=mnist_test.labels[:200])
    played, said = [], set()

    def playing(key: Any, env: Any, params: Any, policy: Any, num_episodes: int, **options: Any) -> Any:
        inspect.signature(rollout).bind(key, env, params, policy, num_episodes, **options)
        options["progress"](num_episodes, num_episodes)
        played.append((params.bank, policy))
        sure = float(policy.confidence)
        statistics = SimpleNamespace(
            correct=np.array([True, False]),
            steps=np.array([4, 10 * sure]),
            episode_return=np.array([sure, 0]),
        )
        return SimpleNamespace(statistics=statistics, kinds=np.zeros((2, 36), np.int8))

    monkeypatch.setattr(command, "rollout", playing)
    rows = tune("coverage", 2, 24, [0.5, 0.75], small, 40, report=lambda what, done, total: said.add(what))
    assert rows == [Row(0.5, 0.5, 4.5, 0.25, 0), Row(0.75, 0.5, 5.75, 0.375, 0)]
    assert {"coverage, confidence 0.5: compiling", "coverage, confidence 0.75: episodes"} <= said
    (bank, first), (same_bank, second) = played
    assert bank is same_bank and first.reader is second.reader
    np.testing.assert_array_equal(first.reader.labels, small.labels[:160])
    np.testing.assert_array_equal(first.reader.templates, native_counts(small.images[:160]))
    scenes = np.asarray(bank.episodes.scenes)
    assert scenes.shape == (24, 2)
    for tiles in scenes[:4]:
        shown = np.asarray(bank.indices)[tiles, 0]
        np.testing.assert_array_equal(np.asarray(bank.answers)[tiles, 0], small.labels[160:][shown])
        ink = [np.count_nonzero(canvas_of(small.images[160:][[image]]) == 0) for image in shown]
        np.testing.assert_array_equal(np.asarray(bank.stroke_totals)[tiles, 0], ink)


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
