"""Put a finished run's weights into the package: ``python -m baselines.export --run runs/reader-0``.

Writes ``mnistpro_jax/agents/learned/weights/NAME.npz`` with the run's configuration, seed and the commit.
"""

from __future__ import annotations

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
from mnistpro_jax.agents.learned import shipped

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
    name, seed = about.pop("name"), about.pop("seed")
    chosen = config(name, about)
    trainer = trainer_of(chosen)
    done, state = Checkpoints(folder / "checkpoint").restore(trainer.init(jax.random.key(0)))
    if done < about["updates"]:
        raise ValueError(f"{folder} has done {done} of {about['updates']} updates; train it to its end first")
    facts: dict[str, Any] = {
        "name": name,
        "seed": seed,
        "config": about,
        "commit": _commit(),
        "world": dict(WORLD),
    }
    arrays: dict[str, np.ndarray] = {}
    params = getattr(state, "averaged", None)
    params = state.params if params is None else params
    if isinstance(chosen, ReaderConfig):
        facts.update(calibrate(chosen, params, trainer.held_out))
        arrays["information"] = np.asarray(trainer.data[2])
    out = Path(FLAGS.out)
    out.mkdir(parents=True, exist_ok=True)
    size = shipped.save(out / f"{name}.npz", params, facts, **arrays)
    print(
        f"{out / name}.npz: {size:,} bytes, {json.dumps({k: v for k, v in facts.items() if k != 'config'})}"
    )


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
    flags.DEFINE_string("out", str(WEIGHTS), "Folder for the weights; by default they go into the package.")
    run(main)
