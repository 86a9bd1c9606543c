"""Stored runs: found in folders, read into one shape whatever wrote them.

Four writers are known: ``mnistpro evaluate --out`` and ``mnistpro run --out`` (``runs.ours``), the published reference
(``runs.reference``), and Inspect with our task (``runs.inspect_logs``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mnistpro_jax.runs import inspect_logs, ours, reference
from mnistpro_jax.runs.folder import EPISODES, SUMMARY
from mnistpro_jax.runs.names import named_apart
from mnistpro_jax.runs.run_folder import RUN
from mnistpro_jax.runs.stored import StoredRun

_DEPTH = 4  # folders of folders that are searched


def load_runs(folders: Sequence[str | Path]) -> list[StoredRun]:
    """All runs in these folders and their subfolders, named apart; a log of Inspect may be given as a file.

    Raises FileNotFoundError for a folder that does not exist, and ValueError, naming file and field, for one without
    any run or with a run that cannot be read.
    """
    found: dict[Path, StoredRun] = {}
    for folder in map(Path, folders):
        if not folder.is_dir() and not inspect_logs.is_log(folder):
            raise FileNotFoundError(
                f"there is no folder {folder}; expected what `evaluate --out` or `run --out` wrote"
            )
        runs = [run for path in run_folders(folder) for run in runs_at(path)]
        if not runs:
            raise ValueError(
                f"{folder} holds no run: expected {EPISODES} with {SUMMARY} or {RUN}, {RUN} with logs, a run of the "
                f"published reference ({reference.SUMMARY}), or a log of Inspect with the task mnist_pro, there or in "
                "its subfolders"
            )
        found.update({run.path.resolve(): run for run in runs})
    return named_apart(list(found.values()))


def run_folders(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Folders that hold a run each, and logs of Inspect, in the order of their names."""
    if ours.is_run(folder) or reference.is_run(folder) or inspect_logs.is_log(folder):
        yield folder
    elif depth and folder.is_dir():
        entries = sorted(folder.iterdir())
        yield from inspect_logs.current([entry for entry in entries if inspect_logs.is_log(entry)])
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from run_folders(entry, depth - 1)


def runs_at(path: Path) -> list[StoredRun]:
    """The runs of one of ``run_folders``: one of a folder, one for each epoch of a log. Raises as ``load_run``."""
    return inspect_logs.load(path) if inspect_logs.is_log(path) else [load_run(path)]


def load_run(folder: Path) -> StoredRun:
    """The run in one folder. Raises ValueError, naming file and field, where it cannot be read."""
    return ours.load(folder) if ours.is_run(folder) else reference.load(folder)
