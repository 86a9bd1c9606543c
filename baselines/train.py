"""Train a learned agent: ``python -m baselines.train --config NAME``.

The run's folder holds config.json, curve.csv, curve.png and checkpoint/. The same command goes on where a killed or
interrupted run stopped.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from absl import flags

from baselines.command import run
from baselines.configs import CONFIGS, config

FLAGS = flags.FLAGS
flags.DEFINE_enum("config", None, sorted(CONFIGS), "What to train.", required=True)
flags.DEFINE_string("out", None, "Folder of the run. Default: runs/CONFIG-SEED.")
flags.DEFINE_integer("seed", 0, "Seed of everything random.", lower_bound=0)
flags.DEFINE_integer("updates", None, "Updates instead of the configuration's.", lower_bound=1)
flags.DEFINE_multi_string(
    "set",
    [],
    "FIELD=VALUE: another value, as JSON, for a field of the configuration; may come several times.",
)
flags.DEFINE_string(
    "weights", None, "Folder with the reader that `canvas` stands on. Default: the one in the package."
)
flags.DEFINE_string("data", "mnist", "Source of the images: mnist, tfds:NAME or idx:FOLDER.")
flags.DEFINE_integer(
    "evaluate_every", 1000, "Updates between two evaluations on held-out images.", lower_bound=1
)
flags.DEFINE_integer(
    "devices", None, "Split batches over the first so many devices. Default: all.", lower_bound=1
)


def main() -> None:
    """Train."""
    from baselines.canvas import CanvasConfig
    from baselines.loop import Run, train
    from baselines.trainers import trainer_of
    from mnistpro_jax.agents.learned import shipped
    from mnistpro_jax.rollouts.sharding import episode_mesh

    changes = dict(_change(text) for text in FLAGS.set)
    if FLAGS.updates is not None:
        changes["updates"] = FLAGS.updates
    chosen = config(FLAGS.config, changes)
    mesh = episode_mesh(FLAGS.devices)
    folder = Path(FLAGS.out or f"runs/{FLAGS.config}-{FLAGS.seed}")
    weights = None if FLAGS.weights is None else Path(FLAGS.weights)
    about = {"data": FLAGS.data}
    if isinstance(chosen, CanvasConfig):
        about["reader"] = shipped.fingerprint(shipped.load_reader(weights)[0])
    elif weights is not None:
        raise ValueError(
            f"--weights is for the config canvas, which stands on a reader; {FLAGS.config!r} does not"
        )
    trainer = trainer_of(chosen, FLAGS.data, weights)
    run_ = Run(folder, FLAGS.config, FLAGS.seed, about)
    train(trainer, run_, evaluate_every=FLAGS.evaluate_every, mesh=mesh)
    print(f"{folder}: config.json, curve.csv, curve.png, checkpoint/")


def _change(text: str) -> tuple[str, Any]:
    """A field's name and value from FIELD=VALUE."""
    name, equals, value = text.partition("=")
    try:
        if not equals:
            raise ValueError
        return name.strip(), json.loads(value)
    except ValueError as error:
        raise ValueError(f"--set is {text!r}; expected FIELD=VALUE, as in learning_rate=0.001") from error


if __name__ == "__main__":
    run(main)
