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
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from mnistpro_jax.data.whole_file import whole_file
from mnistpro_jax.rollouts.sharding import on_one, replicated, splitting

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
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """What else has to stay the same: the images' source ("data"), the reader's file ("reader")."""

    def check(self, config: Any) -> None:
        """Refuse to go on with another configuration than the folder's, naming the field that differs."""
        path = self.folder / "config.json"
        if not path.exists():
            return
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise TrainingError(f"{path} is damaged ({error}); give another --out") from error
        if not isinstance(before, dict):
            raise TrainingError(f"{path} holds no configuration; give another --out")
        now = self._described(config)
        # Runs of before there was an `about` go on.
        compared = {*before, *now} - {name for name in self.about if name not in before}
        for field in sorted(compared):
            if before.get(field) != now.get(field):
                raise TrainingError(
                    f"{self.folder} holds a run with {field} = {before.get(field)!r}, but {now.get(field)!r} is asked "
                    "for; give another --out, or the same configuration"
                )

    def write(self, config: Any) -> None:
        """Write config.json, unless it is there. Not before an update went well: a folder is not spoilt by a typing
        error."""
        path = self.folder / "config.json"
        if path.exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as unfinished:
            unfinished.write_text(json.dumps(self._described(config), indent=2) + "\n", encoding="utf-8")

    def _described(self, config: Any) -> dict[str, Any]:
        fields = {"name": self.name, "seed": self.seed, **self.about, **dataclasses.asdict(config)}
        described: dict[str, Any] = json.loads(json.dumps(fields))
        return described


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

    Returns the final state. Raises TrainingError where a metric or a parameter is not finite (the last good state is
    saved) and TrainingInterrupted on Ctrl-C.
    """
    run.check(trainer.config)
    root = jax.random.key(run.seed)
    init_key, update_key, evaluate_key = jax.random.split(root, 3)
    state = trainer.init(init_key)
    checkpoints = Checkpoints(run.folder / "checkpoint")
    done, state = checkpoints.restore(state)
    if done:
        run.write(trainer.config)
    state, data = replicated((state, trainer.data), mesh)
    total = int(trainer.config.updates)
    curve = Curve(run.folder / "curve.csv", done)
    run_updates = _program(trainer)
    chunk, saved, began = 1, time.monotonic(), time.monotonic()
    start = done

    def at_evaluation() -> bool:
        return done > 0 and (done % evaluate_every == 0 or done == total)

    def figures() -> dict[str, float]:
        return trainer.evaluate(on_one(state, mesh), jax.random.fold_in(evaluate_key, done))

    if at_evaluation() and done not in curve:
        # Killed between the checkpoint and its figures.
        curve.add(done, 0.0, figures())
    with _stop_on_interrupt() as stopping:
        while done < total:
            # Never over a point of evaluation.
            count = min(chunk, total - done, evaluate_every - done % evaluate_every)
            before = time.monotonic()
            with splitting(mesh):
                after, metrics, bad = run_updates(state, update_key, np.int32(done), np.int32(count), data)
            if int(bad) >= 0:
                if done > checkpoints.last:
                    checkpoints.save(done, state)
                kept = (
                    f"the checkpoint of update {done} in {checkpoints.folder} is kept"
                    if done
                    else "none was saved"
                )
                raise TrainingError(
                    f"a metric or a parameter is not finite at update {int(bad)}; {kept}. Try a smaller learning rate "
                    "or another seed."
                )
            run.write(trainer.config)
            state = after
            elapsed = time.monotonic() - before
            done += count
            # Before the figures, which may take minutes.
            if stopping or time.monotonic() - saved > SAVE_SECONDS or done == total:
                checkpoints.save(done, state)
                saved = time.monotonic()
            row = {name: float(value) for name, value in metrics.items()}
            if at_evaluation():
                row.update(figures())
            curve.add(done, time.monotonic() - began, row)
            if not quiet:
                _say(run.name, done, total, start, time.monotonic() - began, row)
            # The first call compiles, so that its time says nothing.
            if done > start + 1:
                chunk = max(1, min(8 * chunk, round(count * CHUNK_SECONDS / max(elapsed, 1e-3))))
            if stopping and done < total:
                if done > checkpoints.last:
                    checkpoints.save(done, state)
                raise TrainingInterrupted(f"stopped at update {done}; the same command goes on from there")
    curve.draw()
    return state


def _program(trainer: Trainer) -> Any:
    """(state, key, first, count, data) -> (state, mean metrics, the first update after which one of them, or a
    parameter, is not finite, or -1).

    The number of updates is an argument, so that one program serves any.
    """

    @jax.jit
    def run(state: Any, key: jax.Array, first: jax.Array, count: jax.Array, data: Any) -> Any:
        shapes = jax.eval_shape(trainer.step, state, key, data)[1]
        sums = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), shapes)

        def update(number: jax.Array, carry: Any) -> Any:
            state, sums, bad = carry
            state, metrics = trainer.step(state, jax.random.fold_in(key, number), data)
            numbers = [
                leaf for leaf in jax.tree.leaves((state, metrics)) if jnp.issubdtype(leaf.dtype, jnp.inexact)
            ]
            finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in numbers]))
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
        """(updates done, state): the newest checkpoint that can be read, or (0, ``like``) where there is none.

        Raises TrainingError where none can be read.
        """
        # Where it is put is said as well: it may have been saved from other devices.
        shapes = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding), like
        )
        problem: Exception | None = None
        damaged: list[int] = []
        for step in sorted(self._manager.all_steps(), reverse=True):
            try:
                state = self._manager.restore(step, args=self._ocp.args.StandardRestore(shapes))
            except (ValueError, KeyError, TypeError, OSError) as error:
                problem = problem or error
                damaged.append(step)
                continue
            for other in damaged:
                print(
                    f"the checkpoint of update {other} is damaged; going on from that of {step}",
                    file=sys.stderr,
                )
                self._manager.delete(other)
            return step, state
        if problem is not None:
            raise TrainingError(
                f"the checkpoint in {self.folder} is of another network, or damaged: {_first_line(problem)}"
            ) from problem
        return 0, like


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

    def __contains__(self, update: int) -> bool:
        return any(row["update"] == update for row in self.rows)

    def add(self, update: int, seconds: float, row: dict[str, float]) -> None:
        """Append a row; the file is whole at any time."""
        self.rows.append({"update": update, "seconds": round(self._offset + seconds, 2), **row})
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        with whole_file(self.path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(self.rows)

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
        with whole_file(self.path.with_suffix(".png")) as unfinished:
            figure.savefig(unfinished, format="png", dpi=110)
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
