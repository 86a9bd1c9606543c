"""Put a finished run's weights into the package: ``python -m baselines.export --run runs/reader-0``.

Writes ``mnistpro_jax/agents/learned/weights/NAME.npz`` with the run's configuration, seed and the commit.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from baselines.command import run
from baselines.configs import config
from baselines.prefixes import prefixes
from baselines.reader import ReaderConfig, calibration_error
from mnistpro_jax import data
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.agents.reader import native_counts

FLAGS = flags.FLAGS
WEIGHTS = Path(shipped.__file__).parent / "weights"
# A network that works at native resolution was trained with these; another window would show it other pictures.
WORLD = {"window": 64, "stride": 32, "native_factor": 8, "outline": True}


def main() -> None:
    """Export."""
    from baselines.loop import Checkpoints
    from baselines.trainers import trainer_of

    folder = Path(FLAGS.run)
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    chosen = dataclasses.replace(config(about["name"]), updates=about["updates"])
    trainer = trainer_of(chosen)
    done, state = Checkpoints(folder / "checkpoint").restore(trainer.init(jax.random.key(0)))
    if done < about["updates"]:
        raise ValueError(f"{folder} has done {done} of {about['updates']} updates; train it to its end first")
    facts: dict[str, Any] = {
        "name": about.pop("name"),
        "seed": about.pop("seed"),
        "config": about,
        "commit": _commit(),
        "world": dict(WORLD),
    }
    arrays: dict[str, np.ndarray] = {}
    params = getattr(state, "averaged", None)
    params = state.params if params is None else params
    name = facts["name"]
    if isinstance(chosen, ReaderConfig):
        facts.update(calibrate(chosen, params, trainer.held_out))
        arrays["information"] = information()
    elif name.startswith("glimpse"):
        facts["world"]["num_digits"] = chosen.level
        name = name.replace("_", "-")
    size = shipped.save(WEIGHTS / f"{name}.npz", params, facts, **arrays)
    print(
        f"{WEIGHTS / name}.npz: {size:,} bytes, {json.dumps({k: v for k, v in facts.items() if k != 'config'})}"
    )


def information() -> np.ndarray:
    """Share of the training images' variance in each native pixel, float32 (28, 28), summing to 1."""
    counts = native_counts(data.load("mnist", "train").images).astype(np.float32) / 64
    variance = counts.var(axis=0)
    return (variance / variance.sum()).astype(np.float32)


def calibrate(chosen: ReaderConfig, params: Any, held_out: Any) -> dict[str, float]:
    """The temperature of the least loss on partly revealed held-out images, and what it does."""
    draw = jax.jit(
        lambda key: (lambda pair: (chosen.network.apply(params, pair[0]), pair[1]))(
            prefixes(key, *held_out, batch=500, whole=0.0)
        )
    )
    parts = [draw(key) for key in jax.random.split(jax.random.key(1), 40)]
    logits, labels = (jnp.concatenate(part) for part in zip(*parts, strict=True))

    def loss(temperature: float) -> float:
        chances = jax.nn.log_softmax(logits / temperature)
        return -float(jnp.mean(jnp.take_along_axis(chances, labels[:, None], -1)))

    temperature = min(np.arange(0.7, 1.6, 0.02).round(2).tolist(), key=loss)
    chances = jax.nn.softmax(logits / temperature)
    right = (jnp.argmax(logits, -1) == labels).astype(jnp.float32)
    return {
        "temperature": temperature,
        "calibration_error": round(float(calibration_error(jnp.max(chances, -1), right)), 4),
    }


def _commit() -> str:
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent, check=False
    )
    return asked.stdout.strip() or "unknown"


if __name__ == "__main__":
    flags.DEFINE_string("run", None, "Folder of a finished run.", required=True)
    run(main)
