"""What a writer stores of an episode, worked out from the slow reference alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.reference import ANSWER, Pixels, ReferenceEpisode

ACTIONS = ("up", "down", "left", "right", "answer", "invalid")
ENDINGS = ("RUNNING", "ANSWERED", "STEP_LIMIT", "INVALID_ACTION")

Record = dict[str, Any]


def record_of(
    world: ReferenceEpisode, kinds: Sequence[int], *, episode: int, indices: Sequence[int]
) -> Record:
    """The record of a finished episode. kinds: of its actions, numbers of ``ACTIONS``."""
    seen, readable, total = world.stroke_seen, world.stroke_seen_readable, world.stroke_total
    return {
        "episode": episode,
        "level": len(world.labels),
        "source": "mnist",
        "split": "test",
        "indices": list(indices),
        "labels": world.labels,
        "start_xy": list(world.windows[0]),
        "windows": [list(corner) for corner in world.windows],
        "actions": [ACTIONS[kind] for kind in kinds],
        "answer": world.answer,
        "ending": ENDINGS[world.ending],
        "correct": world.correct,
        "digits_correct": world.digits_correct,
        "steps": world.steps,
        "moves": world.moves,
        "revisits": world.revisits,
        "stroke_coverage": sum(seen) / sum(total),
        "stroke_coverage_readable": sum(readable) / sum(total),
        "area_coverage": world.area_seen / world.canvas.size,
        "area_coverage_readable": world.area_seen_readable / world.canvas.size,
        "digit_stroke_coverage": [a / b for a, b in zip(seen, total, strict=True)],
        "digit_stroke_coverage_readable": [a / b for a, b in zip(readable, total, strict=True)],
        "return": round(float(world.episode_return), 5),
    }


def played(world: ReferenceEpisode, actions: Sequence[int], answer: Sequence[int] | None = None) -> Record:
    """Play the actions and write down the record that a rollout stores."""
    for kind in actions:
        world.step(kind, answer if kind == ANSWER else None)
    return record_of(world, actions, episode=7, indices=range(len(world.labels)))


def play(
    canvas: Pixels, labels: Sequence[int], actions: Sequence[int], answer: Sequence[int] | None = None
) -> tuple[Record, ReferenceEpisode]:
    """An episode in the middle of a canvas: its record, and the reference that played it."""
    world = ReferenceEpisode(canvas, labels, (70, 90), window=64, stride=32, budget=36)
    return played(world, actions, answer), world
