"""Train a learned agent: ``python -m baselines.train --config NAME``.

The run's folder holds config.json, curve.csv, curve.png and checkpoint/. The same command goes on where a killed or
interrupted run stopped.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from absl import flags

from baselines.command import run
from baselines.configs import CONFIGS, config

FLAGS = flags.FLAGS
flags.DEFINE_enum("config", None, sorted(CONFIGS), "What to train.", required=True)
flags.DEFINE_string("out", None, "Folder of the run. Default: runs/CONFIG-SEED.")
flags.DEFINE_integer("seed", 0, "Seed of everything random.", lower_bound=0)
flags.DEFINE_integer("updates", None, "Updates instead of the configuration's.", lower_bound=1)
flags.DEFINE_string("data", "mnist", "Source of the images: mnist, tfds:NAME or idx:FOLDER.")
flags.DEFINE_integer(
    "evaluate_every", 1000, "Updates between two evaluations on held-out images.", lower_bound=1
)


def main() -> None:
    """Train."""
    from baselines.loop import Run, train
    from baselines.trainers import trainer_of

    chosen = config(FLAGS.config)
    if FLAGS.updates is not None:
        chosen = dataclasses.replace(chosen, updates=FLAGS.updates)
    folder = Path(FLAGS.out or f"runs/{FLAGS.config}-{FLAGS.seed}")
    every = FLAGS.evaluate_every or max(1, chosen.updates // 10)
    train(trainer_of(chosen, FLAGS.data), Run(folder, FLAGS.config, FLAGS.seed), evaluate_every=every)
    print(f"{folder}: config.json, curve.csv, curve.png, checkpoint/")


if __name__ == "__main__":
    run(main)
