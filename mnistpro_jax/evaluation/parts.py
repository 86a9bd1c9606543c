"""An evaluation in parts: finished parts stay in a folder, so that a run that died goes on, on one host or many.

The list of episodes is cut into parts of fixed size. Processes (``hosts``) share the parts that are missing, write
each as it is done, and look again: what a process that died has left undone, the others do. When nothing is missing,
the first process puts the parts together. Parts are what they are whoever made them, so that the number of processes
may change from one attempt to the next.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import mnistpro_jax
from mnistpro_jax.data.whole_file import named
from mnistpro_jax.env.types import EpisodeStatistics
from mnistpro_jax.evaluation import hosts
from mnistpro_jax.evaluation.evaluate import Evaluation, prepare
from mnistpro_jax.evaluation.request import EvaluationRequest, Report, check
from mnistpro_jax.rollouts.rollout import Trajectories
from mnistpro_jax.rollouts.sharding import num_devices
from mnistpro_jax.runs.json_files import write_json
from mnistpro_jax.runs.outcomes import Flags
from mnistpro_jax.worlds.published import published_episodes

_PLAN = "plan.json"
_SPEED_ONLY = ("batch", "devices")  # fields of a request that do not change results
_PARTS_A_PROCESS = 4  # what a process that dies loses is at most about a quarter of its share


class PartsError(ValueError):
    """Parts that cannot be used; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Part:
    """Episodes first .. first + count - 1: whether the reader reads their whole canvases right, and a run for each
    confidence."""

    control: Flags | None
    runs: tuple[Trajectories, ...]


class Parts:
    """The folder: plan.json says what is evaluated and how large parts are, part-NNNNN.npz are those done.

    part_size: episodes of a part, None for that of the parts that are there, else for a few parts a process. Raises
    ValueError for a request that makes no sense, and PartsError where the folder holds parts of another request,
    naming the field that differs.
    """

    def __init__(
        self, folder: Path, request: EvaluationRequest, part_size: int | None, processes: int
    ) -> None:
        check(request)
        self.folder = folder
        self.episodes = request.episodes or len(published_episodes(request.level).labels)
        plan = _facts(request)
        stored = self._stored()
        if part_size is not None and part_size < 1:
            raise ValueError(f"part_size is {part_size}; expected 1 or more")
        if part_size is None:
            default = -(-self.episodes // (_PARTS_A_PROCESS * processes))
            part_size = default if stored is None else int(stored["part_size"])
        self.part_size = part_size = min(part_size, self.episodes)
        self._plan = json.loads(json.dumps({**plan, "part_size": part_size}))
        if stored is not None:
            self._compare(stored)

    def _stored(self) -> dict[str, Any] | None:
        path = self.folder / _PLAN
        if not path.exists():
            return None
        try:
            stored = json.loads(path.read_bytes())
        except ValueError as error:
            raise PartsError(f"{path} is not a JSON object ({error}); remove {self.folder}") from None
        if (
            not isinstance(stored, dict)
            or type(stored.get("part_size")) is not int
            or stored["part_size"] < 1
        ):
            raise PartsError(f"{path} does not say part_size; remove {self.folder}")
        return stored

    def _compare(self, stored: dict[str, Any]) -> None:
        for field in sorted({*stored, *self._plan}):
            before, now = stored.get(field), self._plan.get(field)
            if before != now:
                raise PartsError(
                    f"{self.folder} holds parts of a run with {field} = {json.dumps(before)}, but {json.dumps(now)} is "
                    "asked for; give the same request, another folder, or remove these parts"
                )

    def create(self) -> None:
        """Write the plan, if it is not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / _PLAN).exists():
            write_json(self.folder / _PLAN, self._plan)

    def check(self) -> None:
        """That process 0's plan is here, and this request's."""
        stored = self._stored()
        if stored is None:
            raise PartsError(
                f"process 0 has written {_PLAN}, but {self.folder} on this host does not show it; the folder has to be "
                "on a file system that all hosts share"
            )
        self._compare(stored)

    def __len__(self) -> int:
        return -(-self.episodes // self.part_size)

    def span(self, number: int) -> tuple[int, int]:
        """(first episode, how many) of a part."""
        first = number * self.part_size
        return first, min(self.part_size, self.episodes - first)

    def missing(self) -> list[int]:
        """Numbers of the parts that are not done."""
        # A listing, and not a question for each file: what a network file system remembers of absent files is old.
        there = {path.name for path in self.folder.iterdir()}
        return [number for number in range(len(self)) if self._path(number).name not in there]

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:05d}.npz"

    def save(self, number: int, part: Part) -> None:
        """Store a part: it is there whole, and on disk, or not at all."""
        arrays = {"control": part.control} if part.control is not None else {}
        for run, trajectories in enumerate(part.runs):
            arrays.update({f"{run}.{name}": array for name, array in _arrays(trajectories).items()})
        path = self._path(number)
        unfinished = path.with_name(f".{path.name}.{jax.process_index()}.{os.getpid()}")
        try:
            with named(path), unfinished.open("wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)

    def load(self, number: int) -> Part:
        """A stored part. Raises PartsError for one that is not whole."""
        path = self._path(number)
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = dict(stored)
            runs = sorted({int(name.split(".")[0]) for name in arrays if name != "control"})
            part = Part(arrays.get("control"), tuple(_trajectories(arrays, run) for run in runs))
            sizes = {len(run) for run in part.runs}
        except Exception as error:  # a damaged archive makes its readers raise almost anything
            raise PartsError(f"{path} is not a whole part ({error}); remove it, and run again") from None
        if sizes != {self.span(number)[1]}:
            raise PartsError(
                f"{path} does not hold {self.span(number)[1]} episodes; remove it, and run again"
            )
        return part

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder)


def evaluate_parts(
    request: EvaluationRequest, parts: Parts, report: Report | None = None
) -> list[Evaluation] | None:
    """Do this process's share of the parts that are missing until none is, then put them together.

    Returns the runs, as ``evaluate`` yields them, in process 0; None in the others. What was done already is not done
    again. Raises as ``evaluate``, and PartsError.
    """
    me = jax.process_index()
    if me == 0:
        parts.create()
    hosts.meet()
    parts.check()
    prepared = prepare(request, report)
    # All parts have the same shapes, the last and shorter one too; a large part is played in several chunks.
    chunk = min(parts.part_size, 16 * prepared.batch * num_devices(prepared.mesh))
    # Before hours of work, and not after them; in every process, so that none waits for one that has found a fault.
    for number in sorted(set(range(len(parts))) - set(parts.missing())):
        parts.load(number)
    while True:
        living = hosts.meet()  # whatever they wrote is written
        missing = parts.missing()
        hosts.meet()  # all have looked, and only now somebody writes
        if not missing:
            break
        for number in missing[living.index(me) :: len(living)]:
            left = len(parts) - len(parts.missing())
            prepared.say(f"parts: {left} of {len(parts)} are done", 0, 0)
            first, count = parts.span(number)
            runs = [prepared.play(value, first, count, chunk) for value in prepared.confidences]
            parts.save(number, Part(prepared.control(first, count), tuple(runs)))
    if me != 0:
        return None
    done = [parts.load(number) for number in range(len(parts))]
    controls = [part.control for part in done if part.control is not None]
    control = np.concatenate(controls) if controls else None
    return [
        prepared.evaluation(value, _joined([part.runs[run] for part in done]), control)
        for run, value in enumerate(prepared.confidences)
    ]


def _joined(parts: Sequence[Trajectories]) -> Trajectories:
    columns = [_arrays(part) for part in parts]
    return _trajectories({f"0.{name}": np.concatenate([c[name] for c in columns]) for name in columns[0]}, 0)


def _arrays(trajectories: Trajectories) -> dict[str, np.ndarray]:
    names = [field.name for field in dataclasses.fields(EpisodeStatistics)]
    statistics = {name: np.asarray(getattr(trajectories.statistics, name)) for name in names}
    return {
        "indices": trajectories.indices,
        "windows": trajectories.windows,
        "kinds": trajectories.kinds,
        **statistics,
    }


def _trajectories(arrays: dict[str, Any], run: int) -> Trajectories:
    names = [field.name for field in dataclasses.fields(EpisodeStatistics)]
    statistics = EpisodeStatistics(**{name: arrays[f"{run}.{name}"] for name in names})
    return Trajectories(
        arrays[f"{run}.indices"], arrays[f"{run}.windows"], arrays[f"{run}.kinds"], statistics
    )


def _facts(request: EvaluationRequest) -> dict[str, Any]:
    """All that decides what a part holds."""
    facts = {name: value for name, value in dataclasses.asdict(request).items() if name not in _SPEED_ONLY}
    facts["episodes"] = request.episodes or "published"
    if request.weights is not None:
        digest = hashlib.sha256()
        for path in sorted(request.weights.glob("*.npz")):
            digest.update(path.name.encode() + path.read_bytes())
        facts["weights"] = f"{request.weights} ({digest.hexdigest()[:16]})"
    return {"version": mnistpro_jax.__version__, **facts}
