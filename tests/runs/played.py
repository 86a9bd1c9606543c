"""Episodes played by the slow reference, as the arrays that a rollout returns: no compilation."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnistpro_jax.env.types import EpisodeStatistics
from mnistpro_jax.rollouts.rollout import Trajectories
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.summary import RunSettings
from mnistpro_jax.worlds.published import canvas_of
from tests.episodes import mnist_test
from tests.reference import ANSWER, INVALID, ReferenceEpisode

BUDGET = 6
WINDOW, STRIDE = 64, 32
PIXELS = 224 * 448

SETTINGS = RunSettings(
    level=2,
    window=64,
    stride=32,
    budget=BUDGET,
    outline=True,
    source="mnist",
    split="test",
    episode_list="random",
    num_classes=10,
    agent="scripted",
    confidence=None,
    seed=3,
)

# Kinds of action, and what is answered (None: the label). Every ending, a revisit, half right answers.
SCRIPTS: tuple[tuple[Sequence[int], Sequence[int] | None], ...] = (
    ((3, 3, ANSWER), None),
    ((0, 1, 2, 3, ANSWER), None),
    ((1, 1, 3, 3, 0, 2), None),
    ((INVALID,), None),
    ((3, ANSWER), (10, 0)),
    ((2, ANSWER), (7, 9)),
    ((ANSWER,), (0, 0)),
)


@functools.cache
def references() -> tuple[ReferenceEpisode, ...]:
    """One finished level 2 episode a script, of images (2 i, 2 i + 1) of the MNIST test split."""
    dataset = mnist_test()
    episodes = []
    for number, (kinds, answer) in enumerate(SCRIPTS):
        rows = [2 * number, 2 * number + 1]
        labels = dataset.labels[rows].tolist()
        start = (40 * number % 384, 30 * number % 160)
        episode = ReferenceEpisode(canvas_of(dataset.images[rows]), labels, start, WINDOW, STRIDE, BUDGET)
        for kind in kinds:
            episode.step(kind, (labels if answer is None else answer) if kind == ANSWER else None)
        assert episode.ending != 0
        episodes.append(episode)
    return tuple(episodes)


def kinds_of(number: int) -> list[int]:
    """Kinds of action as they count: an answer out of range is an invalid action."""
    kinds = list(SCRIPTS[number][0])
    if references()[number].ending == 3:
        kinds[-1] = INVALID
    return kinds


@functools.cache
def trajectories() -> Trajectories:
    """The reference's episodes as a rollout would return them."""
    episodes = references()
    windows = np.full((len(episodes), BUDGET + 1, 2), -1, np.int16)
    kinds = np.full((len(episodes), BUDGET), -1, np.int8)
    for number, episode in enumerate(episodes):
        windows[number, : len(episode.windows)] = episode.windows
        kinds[number, : episode.steps] = kinds_of(number)

    def column(name: str, dtype: type = np.int32) -> Any:
        return np.asarray([getattr(episode, name) for episode in episodes], dtype)

    columns: dict[str, Any] = {
        "steps": column("steps"),
        "moves": column("moves"),
        "revisits": column("revisits"),
        "ending": column("ending"),
        "answer": np.asarray([episode.answer or [-1, -1] for episode in episodes], np.int32),
        "label": column("labels"),
        "correct": column("correct", np.bool_),
        "digits_correct": column("digits_correct", np.bool_),
        "stroke_total": column("stroke_total"),
        "stroke_seen": column("stroke_seen"),
        "stroke_seen_readable": column("stroke_seen_readable"),
        "area_seen": column("area_seen"),
        "area_seen_readable": column("area_seen_readable"),
        "episode_return": column("episode_return", np.float32),
    }
    indices = np.arange(2 * len(episodes), dtype=np.int32).reshape(-1, 2)
    return Trajectories(indices, windows, kinds, EpisodeStatistics(**columns))


def outcomes() -> Outcomes:
    """The outcomes of these episodes."""
    return Outcomes.of(trajectories().statistics, PIXELS)
