"""Summaries against plain sums over the slow reference's episodes."""

from __future__ import annotations

import dataclasses
import json
from statistics import mean

import numpy as np
import pytest

import mnistpro_jax
from mnistpro_jax.runs.from_rollout import episode_records
from mnistpro_jax.runs.intervals import wilson
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.summary import summarise
from tests.runs import played
from tests.runs.played import SETTINGS, outcomes


def test_means_and_rates() -> None:
    summary = summarise(outcomes(), SETTINGS)
    episodes = played.references()
    count, right = len(episodes), sum(episode.correct for episode in episodes)
    assert 0 < right < count
    assert summary["episodes"] == count
    assert summary["accuracy"] == right / count
    assert summary["accuracy_ci95"] == list(wilson(right, count))
    expected = {
        "positional_accuracy": mean(mean(episode.digits_correct) for episode in episodes),
        "average_steps": mean(episode.steps for episode in episodes),
        "average_moves": mean(episode.moves for episode in episodes),
        "average_return": mean(float(episode.episode_return) for episode in episodes),
        "stroke_coverage": mean(sum(e.stroke_seen) / sum(e.stroke_total) for e in episodes),
        "stroke_coverage_readable": mean(sum(e.stroke_seen_readable) / sum(e.stroke_total) for e in episodes),
        "area_coverage": mean(episode.area_seen / played.PIXELS for episode in episodes),
        "area_coverage_readable": mean(episode.area_seen_readable / played.PIXELS for episode in episodes),
        "revisit_rate": mean(episode.revisits / (episode.moves + 1) for episode in episodes),
        "budget_left_at_answer": mean(e.budget - e.steps for e in episodes if e.ending == 1),
    }
    assert {name: summary[name] for name in expected} == pytest.approx(expected, abs=1e-6)


def test_endings_add_up() -> None:
    summary = summarise(outcomes(), SETTINGS)
    endings = [episode.ending for episode in played.references()]
    names = ("ANSWERED", "STEP_LIMIT", "INVALID_ACTION")
    assert summary["endings"] == {name: endings.count(code) for code, name in enumerate(names, start=1)}
    at_answer = summary["at_answer"]
    assert at_answer["right"]["episodes"] + at_answer["wrong"]["episodes"] == summary["endings"]["ANSWERED"]
    wrong = [episode for episode in played.references() if episode.ending == 1 and not episode.correct]
    assert at_answer["wrong"]["episodes"] == len(wrong) > 0
    assert at_answer["wrong"]["budget_left"] == mean(episode.budget - episode.steps for episode in wrong)


def test_topology_counts_single_digits() -> None:
    groups = summarise(outcomes(), SETTINGS)["accuracy_by_topology"]
    for group in groups.values():
        flags = [
            flag
            for episode in played.references()
            for label, flag in zip(episode.labels, episode.digits_correct, strict=True)
            if label in group["digits"]
        ]
        assert (group["count"], group["correct"]) == (len(flags), sum(flags))
        assert group["accuracy"] == sum(flags) / len(flags)
        assert group["ci95"] == list(wilson(sum(flags), len(flags)))
    assert sum(group["count"] for group in groups.values()) == 2 * len(played.references())


def test_accuracy_when_seen() -> None:
    """Two of four episodes saw over 75 % of both digits; one of these was right."""
    four = dataclasses.replace(
        outcomes(),
        **{name: column[:4] for name, column in vars(outcomes()).items()}
        | {
            "correct": np.array([True, False, True, False]),
            "digit_stroke_coverage": np.array([[0.8, 0.9], [0.76, 1.0], [0.75, 1.0], [0.2, 0.9]]),
        },
    )
    summary = summarise(four, SETTINGS)
    assert summary["all_digits_seen"] == 0.5
    assert summary["accuracy_when_seen"] == {
        "threshold": 0.75,
        "episodes": 2,
        "accuracy": 0.5,
        "ci95": list(wilson(1, 2)),
    }


def test_the_same_from_records_and_from_statistics() -> None:
    stored = Outcomes.of_records(episode_records(played.trajectories(), played.PIXELS))
    assert summarise(stored, SETTINGS) == summarise(outcomes(), SETTINGS)


def test_what_does_not_exist_is_null() -> None:
    summary = summarise(outcomes(), SETTINGS)
    assert summary["control_accuracy"] is None
    assert summary["control_accuracy_ci95"] is None
    assert summary["confidence"] is None
    others = dataclasses.replace(SETTINGS, num_classes=26)
    assert summarise(outcomes(), others)["accuracy_by_topology"] is None
    unanswered = dataclasses.replace(outcomes(), ending=np.full(len(outcomes()), 2))
    assert summarise(unanswered, SETTINGS)["budget_left_at_answer"] is None
    json.dumps(summary, allow_nan=False)


def test_control() -> None:
    flags = np.array([True] * 6 + [False])
    summary = summarise(outcomes(), SETTINGS, control_correct=flags)
    assert summary["control_accuracy"] == 6 / 7
    assert summary["control_accuracy_ci95"] == list(wilson(6, 7))


def test_published_best_stands_beside_the_published_world_alone() -> None:
    published = dataclasses.replace(SETTINGS, budget=78)
    assert summarise(outcomes(), published)["published_best"] == {
        "accuracy": 0.63,
        "average_steps": 41.0,
        "who": "Gemini-3.7-Flash, tool harness",
        "source": "arXiv 2608.31022",
    }
    for change in (
        {"window": 32},
        {"stride": 16},
        {"source": "tfds:mnist"},
        {"split": "train"},
        {"budget": 77},
    ):
        other = dataclasses.replace(published, **change)
        assert summarise(outcomes(), other)["published_best"] is None


def test_settings_are_in_the_summary() -> None:
    summary = summarise(outcomes(), SETTINGS)
    for name in "level window stride budget outline source split episode_list agent confidence seed".split():
        assert summary[name] == getattr(SETTINGS, name)
    assert summary["version"] == mnistpro_jax.__version__
