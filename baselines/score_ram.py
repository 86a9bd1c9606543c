"""Test error of a finished RAM run beside the paper's: ``python -m baselines.score_ram --run runs/ram_mnist-0``."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
from absl import flags

from baselines.command import run
from baselines.configs import config
from baselines.ram import RamConfig, error_percent
from mnistpro_jax import data

FLAGS = flags.FLAGS
# Error in per cent with the configurations' glimpses: the NIPS text, and the arXiv version (1406.6247).
PUBLISHED = {"ram_mnist": (1.12, 1.29), "ram_translated": (1.22, 1.86), "ram_cluttered": (4.04, None)}


def main() -> None:
    """Score."""
    from baselines.loop import Checkpoints
    from baselines.trainers import trainer_of

    folder = Path(FLAGS.run)
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = about.pop("name")
    del about["seed"]
    chosen = config(name, about)
    if not isinstance(chosen, RamConfig):
        raise ValueError(f"{folder} holds a run of {name!r}; expected one of {', '.join(PUBLISHED)}")
    done, state = Checkpoints(folder / "checkpoint").restore(trainer_of(chosen).init(jax.random.key(0)))
    test = data.load("mnist", "test")
    images, labels = jax.device_put(test.images), jax.device_put(test.labels.astype(np.int32))
    errors = [
        error_percent(chosen, state.averaged, jax.random.key(seed), images, labels) for seed in range(5)
    ]
    published = ", ".join(f"{value:.2f}" for value in PUBLISHED.get(name, ()) if value is not None)
    print(
        f"{name}, {done:,} updates: {np.mean(errors):.2f} % error on the test split, single rollouts "
        f"(5 sets of starts: {min(errors):.2f} to {max(errors):.2f}); published {published} %"
    )


if __name__ == "__main__":
    flags.DEFINE_string("run", None, "Folder of a finished run.", required=True)
    run(main)
