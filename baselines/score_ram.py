"""Test error of finished RAM runs beside the paper's: ``python -m baselines.score_ram --runs runs/ram_mnist-0``.

Each run is rolled out from five sets of random first glimpses. Runs of one configuration with other seeds become one
line: the mean over the runs and the standard deviation between them. Prints Markdown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np
from absl import flags

from baselines.command import run
from baselines.ram import RamConfig, error_percent
from baselines.run_folder import read_run
from baselines.score import spread
from mnistpro_jax import data
from mnistpro_jax.cli.terminal import progress

FLAGS = flags.FLAGS
# Error in per cent with the configurations' glimpses: the NIPS text, and the arXiv version (1406.6247).
PUBLISHED = {"ram_mnist": (1.12, 1.29), "ram_translated": (1.22, 1.86), "ram_cluttered": (4.04, None)}
STARTS = 5
HEAD = ("pictures", "updates", "training seeds", "error", "sets of starts", "published")


@dataclasses.dataclass(frozen=True)
class RamScore:
    """A run. name: of its configuration. seed: of its training. errors: per cent, one for each set of starts."""

    name: str
    config: RamConfig
    seed: int
    errors: tuple[float, ...]


def score(folder: Path) -> RamScore:
    """The errors of a finished run on the test split.

    Raises ValueError for a damaged folder, one of something else, or of a run that has not finished; OSError where
    there is none.
    """
    from baselines.loop import Checkpoints
    from baselines.trainers import trainer_of

    stored = read_run(folder)
    chosen = stored.config
    if not isinstance(chosen, RamConfig):
        raise ValueError(f"{folder} holds a run of {stored.name!r}; expected one of {', '.join(PUBLISHED)}")
    done, state = Checkpoints(folder / "checkpoint").restore(trainer_of(chosen).init(jax.random.key(0)))
    if done < chosen.updates:
        raise ValueError(
            f"{folder} is at update {done:,} of {chosen.updates:,}; finish it with baselines.train, or train with a "
            "smaller --updates"
        )
    test = data.load("mnist", "test")
    images, labels = jax.device_put(test.images), jax.device_put(test.labels.astype(np.int32))
    keys = [jax.random.key(number) for number in range(STARTS)]
    errors = [error_percent(chosen, state.averaged, key, images, labels) for key in keys]
    return RamScore(stored.name, chosen, stored.seed, tuple(errors))


def check(folders: Sequence[Path]) -> None:
    """ValueError, before anything is scored, for a seed of one configuration that comes twice: it would pass for
    another one. Raises as ``score`` for folders that hold no run."""
    seen: dict[tuple[object, int], Path] = {}
    for folder in folders:
        stored = read_run(folder)
        before = seen.setdefault((stored.config, stored.seed), folder)
        if before is not folder:
            raise ValueError(
                f"{before} and {folder} hold the same run, {stored.name!r} with seed {stored.seed}; name each once"
            )


def table(scores: list[RamScore]) -> str:
    """Scores as a Markdown table, a line for each configuration; the span is that of all runs' sets of starts."""
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for name, config in dict.fromkeys((score.name, score.config) for score in scores):
        group = [score for score in scores if score.config == config]
        errors = [error for score in group for error in score.errors]
        published = ", ".join(f"{value:.2f} %" for value in PUBLISHED.get(name, ()) if value is not None)
        cells = (
            f"`{name}`",
            f"{config.updates:,}",
            ", ".join(str(score.seed) for score in group),
            spread([float(np.mean(score.errors)) for score in group], 2, " %"),
            f"{min(errors):.2f} to {max(errors):.2f} %",
            published,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Score."""
    folders = [Path(name) for name in FLAGS.runs]
    check(folders)
    scores = []
    with progress() as report:
        for number, folder in enumerate(folders):
            report("runs", number, len(folders))
            scores.append(score(folder))
    print(table(scores))


if __name__ == "__main__":
    flags.DEFINE_list("runs", None, "Folders of finished runs, separated by commas.", required=True)
    run(main)
