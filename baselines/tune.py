"""Choose confidences on images that nothing was trained on: ``python -m baselines.tune --agent canvas --level 1``.

Prints accuracy, steps and the published reward (-0.1 a move, +10 right, -10 wrong) of each threshold on the last 5,000
training images, and the entropy of the first three moves' paths (0: all episodes look alike). The threshold of the
highest reward is an agent's default in ``agents.registry``.
"""

from __future__ import annotations

import jax
import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table

from baselines.command import numbers, run
from baselines.held_out import HELD_OUT, split
from mnistpro_jax import data, registration
from mnistpro_jax.agents import Geometry, agent_names, make_agent
from mnistpro_jax.evaluation import draw_indices
from mnistpro_jax.metrics import path_entropy
from mnistpro_jax.rollouts import rollout
from mnistpro_jax.worlds.digits import episode_bank

FLAGS = flags.FLAGS


def main() -> None:
    """Tune."""
    thresholds = numbers(FLAGS.confidences)
    dataset = split(data.load("mnist", "train"))[1]
    bank = episode_bank(dataset, draw_indices(HELD_OUT, FLAGS.level, FLAGS.episodes, 1))
    env = registration.environment(bank, start="stroke", outline=True)
    params = registration.make_params(env, bank)
    table = Table(title=f"{FLAGS.agent}, level {FLAGS.level}, {FLAGS.episodes:,} held-out training episodes")
    for name in ("confidence", "accuracy", "steps", "return", "path bits"):
        table.add_column(name, justify="right")
    best = (-np.inf, 0.0)
    for confidence in thresholds:
        agent = make_agent(FLAGS.agent, Geometry.of(env), confidence=confidence)
        trajectories = rollout(jax.random.key(0), env, params, agent, FLAGS.episodes, batch_size=256)
        played = trajectories.statistics
        gained = float(np.mean(played.episode_return))
        best = max(best, (gained, confidence))
        table.add_row(
            f"{confidence:g}",
            f"{100 * np.mean(played.correct):.2f} %",
            f"{np.mean(played.steps):.2f}",
            f"{gained:.3f}",
            f"{path_entropy(trajectories.kinds):.2f}",
        )
    Console().print(table)
    print(f"highest return at {best[1]:g}")


if __name__ == "__main__":
    flags.DEFINE_enum("agent", "canvas", list(agent_names()), "Whose threshold.")
    flags.DEFINE_integer("level", 1, "Digits.", lower_bound=1)
    flags.DEFINE_integer("episodes", 5_000, "Episodes for each threshold.", lower_bound=1)
    flags.DEFINE_list("confidences", ["0.8", "0.9", "0.95", "0.97", "0.98", "0.99", "0.995"], "Thresholds.")
    run(main)
