"""Choose confidences on images that nothing was fitted to: ``python -m baselines.tune --agent canvas --level 1``.

Prints accuracy, steps and the published reward (-0.1 a move, +10 right, -10 wrong) of each threshold on the last 5,000
training images (``baselines.held_out`` says what the learned reader has of them all the same), and the entropy of the
first three moves' paths (0: all episodes look alike). Agents that read with a bank of training images get the others.

An agent's default in ``agents.registry`` was chosen from such a table: the threshold of the highest reward, and where
several have it but for chance, one of those; the comments there say which, and with how many episodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table

from baselines.command import exact, numbers, run
from baselines.held_out import HELD_OUT, split
from baselines.score import networks
from mnistpro_jax import data, registration
from mnistpro_jax.agents import Geometry, agent_names, make_agent
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.agents.reader import build_reader
from mnistpro_jax.agents.registry import has_confidence, is_learned, reads_with
from mnistpro_jax.cli.options import LARGEST_LEVEL
from mnistpro_jax.cli.terminal import progress
from mnistpro_jax.evaluation.request import Report
from mnistpro_jax.evaluation.world import draw_indices
from mnistpro_jax.rollouts.metrics import path_entropy
from mnistpro_jax.rollouts.rollout import rollout
from mnistpro_jax.worlds.digits import episode_bank

FLAGS = flags.FLAGS
TUNABLE = tuple(name for name in agent_names() if has_confidence(name))
_SEED = 1  # of the images that are drawn


@dataclasses.dataclass(frozen=True)
class Row:
    """What one threshold is worth: means over the episodes. gained: the return. path_bits: see ``path_entropy``."""

    confidence: float
    accuracy: float
    steps: float
    gained: float
    path_bits: float


def check(agent: str, thresholds: Sequence[float], weights: Path | None = None) -> None:
    """ValueError, before anything plays, for an agent without a threshold, for none to try, and for weights that are
    not there, or know the images that thresholds are chosen on."""
    if agent not in TUNABLE:
        raise ValueError(
            f"{agent!r} is no agent with a confidence to choose; expected one of {', '.join(TUNABLE)}"
        )
    if not thresholds:
        raise ValueError("--confidences is empty; expected numbers, as in 0.9,0.95")
    if not is_learned(agent):
        if weights is not None:
            raise ValueError(f"agent {agent!r} has no trained weights; leave --weights out")
        return
    make_agent(agent, weights=weights)
    for name in networks(agent):
        kept_back = shipped.load(name, weights)[1]["config"].get("held_out", HELD_OUT)
        if kept_back < HELD_OUT:
            raise ValueError(
                f"{name!r} in {weights} was trained with held_out = {kept_back}: it knows some of the last "
                f"{HELD_OUT:,} training images, on which thresholds are chosen"
            )


def tune(
    agent: str,
    level: int,
    episodes: int,
    thresholds: Sequence[float],
    dataset: data.Dataset,
    held_out: int = HELD_OUT,
    weights: Path | None = None,
    report: Report | None = None,
) -> list[Row]:
    """Play every threshold on the last ``held_out`` images of ``dataset``, the same episodes for each."""
    say = report or (lambda what, done, total: None)
    kept, shown = split(dataset, held_out)
    bank = episode_bank(shown, draw_indices(held_out, level, episodes, _SEED))
    env = registration.environment(bank, start="stroke", outline=True)
    params = registration.make_params(env, bank)
    fixed: dict[str, Any] = {"weights": weights}
    if reads_with(agent) == "bank":
        say("reader: preparing the training images", 0, 0)
        fixed = {"reader": build_reader(kept, native_factor=env.native_factor)}
    rows = []
    for confidence in thresholds:
        what = f"{agent}, confidence {exact(confidence)}"
        say(f"{what}: compiling", 0, 0)
        trajectories = rollout(
            jax.random.key(0),
            env,
            params,
            make_agent(agent, Geometry.of(env), confidence=confidence, **fixed),
            episodes,
            batch_size=64 if "reader" in fixed else 256,
            progress=lambda done, total, what=what: say(f"{what}: episodes", done, total),  # type: ignore[misc]
        )
        played = trajectories.statistics
        rows.append(
            Row(
                confidence,
                float(np.mean(played.correct)),
                float(np.mean(played.steps)),
                float(np.mean(played.episode_return)),
                path_entropy(trajectories.kinds),
            )
        )
    return rows


def main() -> None:
    """Tune."""
    thresholds = numbers(FLAGS.confidences)
    weights = None if FLAGS.weights is None else Path(FLAGS.weights)
    check(FLAGS.agent, thresholds, weights)
    with progress() as report:
        report("loading images", 0, 0)
        dataset = data.load("mnist", "train")
        rows = tune(
            FLAGS.agent, FLAGS.level, FLAGS.episodes, thresholds, dataset, weights=weights, report=report
        )
    table = Table(title=f"{FLAGS.agent}, level {FLAGS.level}, {FLAGS.episodes:,} held-out training episodes")
    for name in ("confidence", "accuracy", "steps", "return", "path bits"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            exact(row.confidence),
            f"{100 * row.accuracy:.2f} %",
            f"{row.steps:.2f}",
            f"{row.gained:.3f}",
            "" if np.isnan(row.path_bits) else f"{row.path_bits:.2f}",
        )
    Console().print(table)
    best = max(rows, key=lambda row: (row.gained, row.confidence))
    print(f"highest return at {exact(best.confidence)}")


if __name__ == "__main__":
    flags.DEFINE_string("agent", "canvas", f"Whose threshold: one of {', '.join(TUNABLE)}.")
    flags.DEFINE_integer("level", 1, "Digits.", lower_bound=1, upper_bound=LARGEST_LEVEL)
    flags.DEFINE_integer("episodes", 5_000, "Episodes for each threshold.", lower_bound=1)
    flags.DEFINE_list(
        "confidences", ["0.8", "0.9", "0.95", "0.97", "0.98", "0.99", "0.995"], "Thresholds, 0 or more."
    )
    flags.DEFINE_string(
        "weights", None, "Folder of a learned agent's weights (baselines.export); default: the package's."
    )
    run(main)
