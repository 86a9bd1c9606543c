"""Records of the episodes that a rollout played."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mnistpro_jax.env.types import Ending, Kind
from mnistpro_jax.runs.outcomes import Outcomes

if TYPE_CHECKING:
    from mnistpro_jax.rollouts.rollout import Trajectories

_ACTIONS = {kind.value: kind.name.lower() for kind in Kind if kind != Kind.NONE}
_ENDINGS = {ending.value: ending.name for ending in Ending}


def episode_records(
    trajectories: Trajectories,
    canvas_pixels: int,
    *,
    source: str = "mnist",
    split: str = "test",
    first: int = 0,
) -> list[dict[str, Any]]:
    """Trajectories as plain records (Python numbers, lists and text), in order; numbered from ``first``.

    canvas_pixels: height times width. source, split: where the images come from (``mnistpro_jax.data.load``).
    ``answer`` is null where none was given: never a magic value.
    """
    outcomes = Outcomes.of(trajectories.statistics, canvas_pixels)
    level = outcomes.num_digits
    # Whole columns become Python lists at once: 10,000 records are then a matter of tenths of a second.
    columns = {
        "indices": trajectories.indices.tolist(),
        "labels": outcomes.labels.tolist(),
        "windows": trajectories.windows.tolist(),
        "kinds": trajectories.kinds.tolist(),
        "answers": outcomes.answers.tolist(),
        "ending": outcomes.ending.tolist(),
        "correct": outcomes.correct.tolist(),
        "digits_correct": outcomes.digits_correct.tolist(),
        "steps": outcomes.steps.tolist(),
        "moves": outcomes.moves.tolist(),
        "revisits": outcomes.revisits.tolist(),
        "stroke_coverage": outcomes.stroke_coverage.tolist(),
        "stroke_coverage_readable": outcomes.stroke_coverage_readable.tolist(),
        "area_coverage": outcomes.area_coverage.tolist(),
        "area_coverage_readable": outcomes.area_coverage_readable.tolist(),
        "digit_stroke_coverage": outcomes.digit_stroke_coverage.tolist(),
        "digit_stroke_coverage_readable": outcomes.digit_stroke_coverage_readable.tolist(),
        "returns": outcomes.returns.tolist(),
    }
    names = list(columns)
    records = []
    for number, values in enumerate(zip(*columns.values(), strict=True), start=first):
        row = dict(zip(names, values, strict=True))
        windows = row["windows"][: row["moves"] + 1]
        records.append(
            {
                "episode": number,
                "level": level,
                "source": source,
                "split": split,
                "indices": row["indices"],
                "labels": row["labels"],
                "start_xy": list(windows[0]),
                "windows": windows,
                "actions": [_ACTIONS[kind] for kind in row["kinds"][: row["steps"]]],
                "answer": row["answers"] if row["ending"] == Ending.ANSWERED else None,
                "ending": _ENDINGS[row["ending"]],
                "correct": row["correct"],
                "digits_correct": row["digits_correct"],
                "steps": row["steps"],
                "moves": row["moves"],
                "revisits": row["revisits"],
                "stroke_coverage": row["stroke_coverage"],
                "stroke_coverage_readable": row["stroke_coverage_readable"],
                "area_coverage": row["area_coverage"],
                "area_coverage_readable": row["area_coverage_readable"],
                "digit_stroke_coverage": row["digit_stroke_coverage"],
                "digit_stroke_coverage_readable": row["digit_stroke_coverage_readable"],
                "return": row["returns"],
            }
        )
    return records
