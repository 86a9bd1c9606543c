"""Put a finished run's weights into the package: ``python -m baselines.export --run runs/reader-0``.

Writes ``mnistpro_jax/agents/learned/weights/NAME.npz`` with the run's configuration, seed and the commit.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from baselines.command import run
from baselines.prefixes import prefixes
from baselines.reader import ReaderConfig, calibration_error
from baselines.run_folder import RunFolder, read_run
from mnistpro_jax.agents.learned import shipped

FLAGS = flags.FLAGS
WEIGHTS = Path(shipped.__file__).parent / "weights"
WORLD = dict(zip(shipped.WORLD, (64, 32, 8, True), strict=True))


def main() -> None:
    """Export."""
    from baselines.loop import Checkpoints
    from baselines.trainers import trainer_of

    folder = Path(FLAGS.run)
    stored = exportable(folder)
    chosen = stored.config
    trainer = trainer_of(chosen)
    done, state = Checkpoints(folder / "checkpoint").restore(trainer.init(jax.random.key(0)))
    if done < chosen.updates:
        raise ValueError(f"{folder} has done {done} of {chosen.updates} updates; train it to its end first")
    facts: dict[str, Any] = {
        "name": stored.name,
        "seed": stored.seed,
        "config": dataclasses.asdict(chosen),
        "commit": _commit(),
        "world": dict(WORLD),
    }
    if stored.about:
        facts["run"] = stored.about
    arrays: dict[str, np.ndarray] = {}
    params = getattr(state, "averaged", None)
    params = state.params if params is None else params
    if isinstance(chosen, ReaderConfig):
        facts.update(calibrate(chosen, params, trainer.held_out))
        arrays["information"] = np.asarray(trainer.data[2])
    out = Path(FLAGS.out)
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{stored.name}.npz"
    size = shipped.save(file, params, facts, **arrays)
    print(f"{file}: {size:,} bytes, {json.dumps({k: v for k, v in facts.items() if k != 'config'})}")


def exportable(folder: Path) -> RunFolder:
    """What a run's folder says of itself. Raises OSError or ValueError as ``read_run``, and ValueError for a run that
    makes no agent of the package."""
    stored = read_run(folder)
    if stored.name not in shipped.NAMES:
        raise ValueError(
            f"{folder} holds a run of {stored.name!r}, which is no agent of MNIST-PRO; expected one of "
            f"{', '.join(shipped.NAMES)}"
        )
    source = stored.about.get("data", "mnist")
    if source != "mnist":
        raise ValueError(f"{folder} was trained on {source!r}; the package's agents are trained on 'mnist'")
    remembers = getattr(stored.config, "remembers", None)
    if remembers is not None and remembers is not (stored.name == "glimpse"):
        raise ValueError(
            f"{folder} holds a run of {stored.name!r} with remembers {remembers}, which is another agent; train "
            "'glimpse' with a memory, 'memoryless' without"
        )
    return stored


@functools.partial(jax.jit, static_argnames="chosen")
def _read(chosen: ReaderConfig, params: Any, key: jax.Array, held_out: Any) -> tuple[jax.Array, jax.Array]:
    """Logits and labels of partly revealed held-out images: float32 (500, C), int32 (500,)."""
    shares, labels = prefixes(key, *held_out, batch=500, longest=chosen.longest, whole=0.0)
    logits = chosen.network.apply(params, shares)
    assert isinstance(logits, jax.Array)
    return logits, labels


def calibrate(chosen: ReaderConfig, params: Any, held_out: Any) -> dict[str, float]:
    """The temperature of the least loss on partly revealed held-out images, and what it does."""
    parts = [_read(chosen, params, key, held_out) for key in jax.random.split(jax.random.key(1), 40)]
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
