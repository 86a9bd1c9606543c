"""One dict that says how a run went: what ``summary.json`` holds.

Every share is a fraction in 0..1, every interval a 95 % Wilson interval [low, high], every average a mean
over episodes. Measures that do not exist in a run (no answer given, no reader) are null, never 0.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy.typing as npt

import mnistpro_jax
from mnistpro_jax.env.environment import default_budget
from mnistpro_jax.env.types import Ending
from mnistpro_jax.rollouts import metrics
from mnistpro_jax.runs.intervals import wilson
from mnistpro_jax.runs.outcomes import Flags, Outcomes
from mnistpro_jax.worlds.published import PUBLISHED_BEST, PUBLISHED_SIZE, PUBLISHED_WINDOW

_PUBLISHED_STRIDE = PUBLISHED_WINDOW // 2


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """What a run was: everything but its seed changes what its numbers mean.

    level: digits. window, stride: pixels. budget: steps of an episode, the answer included. outline: whether
    the outline hid each window's rim from the agent. source, split: see ``mnistpro_jax.data.load``.
    episode_list: "published" or "random". num_classes: of the source. agent: its name. confidence: the
    probability from which on it answers, None where it has no such threshold. seed: of episodes drawn at
    random, starts and agent. weights: folder of a learned agent's weights, None for the package's own.
    """

    level: int
    window: int
    stride: int
    budget: int
    outline: bool
    source: str
    split: str
    episode_list: str
    num_classes: int
    agent: str
    confidence: float | None
    seed: int
    weights: str | None = None


def summarise(
    outcomes: Outcomes, settings: RunSettings, *, control_correct: Flags | None = None
) -> dict[str, Any]:
    """The summary of a run, JSON-ready.

    control_correct: bool (N,), whether the same reader reads the unmasked canvas of each episode right.

    Keys, beside those of ``settings`` and ``version``: episodes; accuracy, accuracy_ci95 (all digits right);
    positional_accuracy (share of digits right); control_accuracy, control_accuracy_ci95; average_steps,
    average_moves, average_return; stroke_coverage, stroke_coverage_readable, area_coverage,
    area_coverage_readable, revisit_rate (``mnistpro_jax.rollouts.metrics``); endings: episodes by reason;
    all_digits_seen: share of episodes with over 75 % of every digit's stroke seen (windows);
    accuracy_when_seen: over those episodes; accuracy_by_topology: of single digits (null unless there are ten
    classes; meaningful where these are digits); at_answer: steps left and stroke coverage when an answer was
    given, right and wrong ones apart (over-optimistic stopping: wrong, with budget left and stroke unseen);
    budget_left_at_answer: mean of all answers; published_best: null where nothing published is comparable.
    """
    count = len(outcomes)
    answered = outcomes.ending == Ending.ANSWERED
    left = settings.budget - outcomes.steps
    seen = metrics.all_digits_seen(outcomes.digit_stroke_coverage)
    control = {"accuracy": None, "ci95": None} if control_correct is None else _proportion(control_correct)
    accuracy = _proportion(outcomes.correct)
    return {
        "agent": settings.agent,
        "level": settings.level,
        "episodes": count,
        "episode_list": settings.episode_list,
        "accuracy": accuracy["accuracy"],
        "accuracy_ci95": accuracy["ci95"],
        "positional_accuracy": float(outcomes.digits_correct.mean()),
        "control_accuracy": control["accuracy"],
        "control_accuracy_ci95": control["ci95"],
        "average_steps": float(outcomes.steps.mean()),
        "average_moves": float(outcomes.moves.mean()),
        "average_return": float(outcomes.returns.mean()),
        "stroke_coverage": float(outcomes.stroke_coverage.mean()),
        "stroke_coverage_readable": float(outcomes.stroke_coverage_readable.mean()),
        "area_coverage": float(outcomes.area_coverage.mean()),
        "area_coverage_readable": float(outcomes.area_coverage_readable.mean()),
        "revisit_rate": float(outcomes.revisit_rate.mean()),
        "endings": {
            ending.name: int((outcomes.ending == ending).sum())
            for ending in Ending
            if ending != Ending.RUNNING
        },
        "all_digits_seen": float(seen.mean()),
        "accuracy_when_seen": {
            "threshold": metrics.SEEN_THRESHOLD,
            "episodes": int(seen.sum()),
            **_proportion(outcomes.correct[seen]),
        },
        "accuracy_by_topology": _by_topology(outcomes) if settings.num_classes == 10 else None,
        "budget_left_at_answer": _mean(left[answered]),
        "at_answer": {
            name: {
                "episodes": int(chosen.sum()),
                "budget_left": _mean(left[chosen]),
                "stroke_coverage": _mean(outcomes.stroke_coverage[chosen]),
            }
            for name, chosen in (
                ("right", answered & outcomes.correct),
                ("wrong", answered & ~outcomes.correct),
            )
        },
        "published_best": published_best(settings),
        "source": settings.source,
        "split": settings.split,
        "window": settings.window,
        "stride": settings.stride,
        "budget": settings.budget,
        "outline": settings.outline,
        "confidence": settings.confidence,
        "seed": settings.seed,
        "version": mnistpro_jax.__version__,
    }


def published_best(settings: RunSettings) -> dict[str, Any] | None:
    """The best published agent in the same world: {accuracy 0..1, average_steps, who, source}.

    None where the world is not the published one: another source or split, window, stride or budget, or a
    level without published results.
    """
    figure = PUBLISHED_BEST.get(settings.level)
    width = PUBLISHED_SIZE * settings.level
    budget = default_budget(PUBLISHED_SIZE, width, PUBLISHED_WINDOW, _PUBLISHED_STRIDE)
    world = (settings.source, settings.split, settings.window, settings.stride, settings.budget)
    if figure is None or world != ("mnist", "test", PUBLISHED_WINDOW, _PUBLISHED_STRIDE, budget):
        return None
    return {
        "accuracy": round(figure.accuracy_percent / 100, 6),
        "average_steps": figure.mean_steps,
        "who": f"{figure.model}, {figure.setting}",
        "source": figure.source,
    }


def _by_topology(outcomes: Outcomes) -> dict[str, Any]:
    """Accuracy of single digits, by the group of the digit shown."""
    group = metrics.topology_group(outcomes.labels)
    return {
        name: {
            "digits": list(digits),
            "count": int((group == number).sum()),
            "correct": int(outcomes.digits_correct[group == number].sum()),
            **_proportion(outcomes.digits_correct[group == number]),
        }
        for number, (name, digits) in enumerate(metrics.TOPOLOGY.items())
    }


def _proportion(flags: Flags) -> dict[str, Any]:
    """Share of true values and its interval; both null where there is none."""
    if flags.size == 0:
        return {"accuracy": None, "ci95": None}
    right = int(flags.sum())
    return {"accuracy": right / flags.size, "ci95": list(wilson(right, flags.size))}


def _mean(values: npt.NDArray[Any]) -> float | None:
    return float(values.mean()) if values.size else None
