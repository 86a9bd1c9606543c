"""Train a learned agent: ``python -m baselines.train --config NAME``.

The run's folder holds config.json, curve.csv, curve.png and checkpoint/. The same command goes on where a killed or
interrupted run stopped.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

from absl import app, flags, logging

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


def main(arguments: list[str]) -> int:
    """Train; the exit code."""
    from baselines.loop import Run, TrainingError, TrainingInterrupted, train
    from baselines.trainers import trainer_of

    if len(arguments) > 1:
        print(f"unexpected argument {arguments[1]!r}; see --help", file=sys.stderr)
        return 2
    logging.set_verbosity(logging.WARNING)  # orbax says a lot
    chosen = config(FLAGS.config)
    if FLAGS.updates is not None:
        chosen = dataclasses.replace(chosen, updates=FLAGS.updates)
    folder = Path(FLAGS.out or f"runs/{FLAGS.config}-{FLAGS.seed}")
    run = Run(folder, FLAGS.config, FLAGS.seed)
    try:
        train(trainer_of(chosen, FLAGS.data), run, evaluate_every=FLAGS.evaluate_every)
    except TrainingInterrupted as stop:
        print(stop, file=sys.stderr)
        return 130
    except (TrainingError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{folder}: config.json, curve.csv, curve.png, checkpoint/")
    return 0


def cli() -> None:
    """``python -m baselines.train``."""
    app.run(main)


if __name__ == "__main__":
    cli()
