"""The training loop that all baselines share: progress, curves, checkpoints, resuming, stopping on NaN.

Update number i draws its randomness from ``fold_in(key, i)``, so that a run that was killed and resumed ends in the
same parameters as one that was not.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mnistpro_jax.sharding import on_one, replicated, splitting

SAVE_SECONDS = 30.0  # a kill loses less than a minute
CHUNK_SECONDS = 5.0  # updates run on the device for about so long between two looks at the host


class Trainer(Protocol):
    """What is trained. ``config`` is a frozen dataclass with a field ``updates``."""

    config: Any
    data: Any
    """Arrays that ``step`` reads, a pytree: an argument of the compiled program, not a constant in it."""

    def init(self, key: jax.Array) -> Any:
        """The state before the first update, a pytree."""

    def step(self, state: Any, key: jax.Array, data: Any) -> tuple[Any, dict[str, jax.Array]]:
        """One update, a pure function: (state, metrics, float32 () each)."""

    def evaluate(self, state: Any, key: jax.Array) -> dict[str, float]:
        """Figures on held-out training images."""


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what is kept."""


class TrainingInterrupted(Exception):  # noqa: N818 - not an error
    """The first Ctrl-C: the checkpoint is written."""


@dataclasses.dataclass
class Run:
    """A folder with config.json, curve.csv and checkpoint/."""

    folder: Path
    name: str
    seed: int

    def check(self, config: Any) -> None:
        """Write the configuration, or refuse to go on with another one, naming the field that differs."""
        path = self.folder / "config.json"
        now = json.loads(json.dumps({"name": self.name, "seed": self.seed, **dataclasses.asdict(config)}))
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(now, indent=2) + "\n", encoding="utf-8")
            return
        before = json.loads(path.read_text(encoding="utf-8"))
        for field in sorted({*before, *now}):
            if before.get(field) != now.get(field):
                raise TrainingError(
                    f"{self.folder} holds a run with {field} = {before.get(field)!r}, but {now.get(field)!r} is asked "
                    "for; give another --out, or the same configuration"
                )


def train(
    trainer: Trainer,
    run: Run,
    *,
    evaluate_every: int = 1000,
    quiet: bool = False,
    mesh: Mesh | None = None,
) -> Any:
    """Train until ``trainer.config.updates``, going on from the checkpoint in ``run.folder`` if there is one.

    mesh: see ``sharding.episode_mesh``. Batches are split over its devices, parameters and data are on each, and the
    random draws are those of one device; gradients are summed in another order, so that results are those of one
    device up to rounding. The figures of ``trainer.evaluate`` are made on one device.

    Returns the final state. Raises TrainingError where a metric is not finite (the last good checkpoint stays) and
    TrainingInterrupted on Ctrl-C.
    """
    run.check(trainer.config)
    root = jax.random.key(run.seed)
    init_key, update_key, evaluate_key = jax.random.split(root, 3)
    state = trainer.init(init_key)
    checkpoints = Checkpoints(run.folder / "checkpoint")
    done, state = checkpoints.restore(state)
    state, data = replicated((state, trainer.data), mesh)
    total = int(trainer.config.updates)
    curve = Curve(run.folder / "curve.csv", done)
    run_updates = _program(trainer)
    chunk, saved, began = 1, time.monotonic(), time.monotonic()
    start = done
    with _stop_on_interrupt() as stopping:
        while done < total:
            # Never over a point of evaluation.
            count = min(chunk, total - done, evaluate_every - done % evaluate_every)
            before = time.monotonic()
            with splitting(mesh):
                after, metrics, bad = run_updates(state, update_key, np.int32(done), np.int32(count), data)
            if int(bad) >= 0:
                raise TrainingError(
                    f"a metric is not finite at update {int(bad)}; the checkpoint of update {checkpoints.last} in "
                    f"{checkpoints.folder} is kept. Try a smaller learning rate or another seed."
                )
            state = after
            elapsed = time.monotonic() - before
            done += count
            row = {name: float(value) for name, value in metrics.items()}
            if done % evaluate_every == 0 or done == total:
                row.update(trainer.evaluate(on_one(state, mesh), jax.random.fold_in(evaluate_key, done)))
            curve.add(done, time.monotonic() - began, row)
            if not quiet:
                _say(run.name, done, total, start, time.monotonic() - began, row)
            # The first call compiles, so that its time says nothing.
            if done > start + 1:
                chunk = max(1, min(2 * chunk, round(count * CHUNK_SECONDS / max(elapsed, 1e-3))))
            else:
                chunk = 4
            if stopping or time.monotonic() - saved > SAVE_SECONDS or done == total:
                checkpoints.save(done, state)
                saved = time.monotonic()
            if stopping and done < total:
                raise TrainingInterrupted(f"stopped at update {done}; the same command goes on from there")
    curve.draw()
    return state


def _program(trainer: Trainer) -> Any:
    """(state, key, first, count, data) -> (state, mean metrics, the first update with one that is not finite or -1).

    The number of updates is an argument, so that one program serves any.
    """

    @jax.jit
    def run(state: Any, key: jax.Array, first: jax.Array, count: jax.Array, data: Any) -> Any:
        shapes = jax.eval_shape(trainer.step, state, key, data)[1]
        sums = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), shapes)

        def update(number: jax.Array, carry: Any) -> Any:
            state, sums, bad = carry
            state, metrics = trainer.step(state, jax.random.fold_in(key, number), data)
            finite = jnp.all(jnp.stack([jnp.isfinite(value) for value in metrics.values()]))
            bad = jnp.where((bad < 0) & ~finite, number, bad)
            return state, jax.tree.map(jnp.add, sums, metrics), bad

        carry = (state, sums, jnp.asarray(-1, jnp.int32))
        state, sums, bad = jax.lax.fori_loop(first, first + count, update, carry)
        return state, jax.tree.map(lambda value: value / count, sums), bad

    return run


class Checkpoints:
    """The newest two states of a run, through orbax."""

    def __init__(self, folder: Path) -> None:
        import orbax.checkpoint as ocp

        self.folder = folder.absolute()
        self._ocp = ocp
        self._manager = ocp.CheckpointManager(
            self.folder, options=ocp.CheckpointManagerOptions(max_to_keep=2, create=True)
        )

    @property
    def last(self) -> int:
        """The newest update that is stored, 0 if none."""
        return self._manager.latest_step() or 0

    def save(self, done: int, state: Any) -> None:
        """Store the state after ``done`` updates; on return it is on disk."""
        self._manager.save(done, args=self._ocp.args.StandardSave(state))
        self._manager.wait_until_finished()

    def restore(self, like: Any) -> tuple[int, Any]:
        """(updates done, state): the newest checkpoint, or (0, ``like``)."""
        if self._manager.latest_step() is None:
            return 0, like
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), like)
        try:
            state = self._manager.restore(self.last, args=self._ocp.args.StandardRestore(shapes))
        except (ValueError, KeyError, TypeError) as error:
            raise TrainingError(
                f"the checkpoint in {self.folder} is of another network: {_first_line(error)}"
            ) from error
        return self.last, state


class Curve:
    """A CSV of metrics, one row a chunk of updates, cut back to the checkpoint when a run goes on."""

    def __init__(self, path: Path, done: int) -> None:
        self.path = path
        self.rows: list[dict[str, float]] = []
        if path.exists():
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    kept = {name: float(value) for name, value in row.items() if value}
                    if kept["update"] <= done:
                        self.rows.append(kept)
        self._offset = self.rows[-1]["seconds"] if self.rows else 0.0

    def add(self, update: int, seconds: float, row: dict[str, float]) -> None:
        """Append a row; the file is whole at any time."""
        self.rows.append({"update": update, "seconds": round(self._offset + seconds, 2), **row})
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        unfinished = self.path.with_suffix(".part")
        with unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(self.rows)
        unfinished.replace(self.path)

    def draw(self) -> None:
        """curve.png: every metric against the updates."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        names = [name for row in self.rows for name in row if name not in ("update", "seconds")]
        names = list(dict.fromkeys(names))
        figure, axes = pyplot.subplots(
            -(-len(names) // 3), 3, figsize=(12, 2.6 * -(-len(names) // 3)), squeeze=False
        )
        for axis, name in zip(axes.flat, names, strict=False):
            points = [(row["update"], row[name]) for row in self.rows if name in row]
            axis.plot(*zip(*points, strict=True), linewidth=1)
            axis.set_title(name.replace("_", " "), fontsize=9)
            axis.tick_params(labelsize=7)
        for axis in axes.flat[len(names) :]:
            axis.set_axis_off()
        figure.supxlabel("updates", fontsize=9)
        figure.tight_layout()
        figure.savefig(self.path.with_suffix(".png"), dpi=110)
        pyplot.close(figure)


class _stop_on_interrupt:  # noqa: N801 - used like a function
    """Turns the first Ctrl-C or SIGTERM into a flag, so that the state is saved; a second one interrupts."""

    def __init__(self) -> None:
        self._asked: list[int] = []

    def __enter__(self) -> list[int]:
        def ask(number: int, frame: FrameType | None) -> None:
            if self._asked:
                raise KeyboardInterrupt
            self._asked.append(number)

        self._before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self._asked

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _say(name: str, done: int, total: int, start: int, seconds: float, row: dict[str, float]) -> None:
    left = seconds / max(1, done - start) * (total - done)
    figures = "  ".join(f"{key} {value:.4g}" for key, value in row.items())
    print(f"{name} {done:,}/{total:,}  {_clock(left)} left  {figures}", file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}" if math.isfinite(seconds) else "?"


def _first_line(error: Exception) -> str:
    return next(iter(_lines(error)), type(error).__name__)


def _lines(error: Exception) -> Iterator[str]:
    return (line for line in str(error).splitlines() if line.strip())
