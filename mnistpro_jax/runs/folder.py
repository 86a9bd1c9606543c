"""A folder of results that is either complete or not there."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

SUMMARY = "summary.json"
EPISODES = "episodes.jsonl"
PICTURES = "pictures"
PARTS = "parts"
"""What an unfinished run in parts has done so far; not a result (``mnistpro_jax.evaluation.parts``)."""
RUN_PREFIX = "confidence-"
"""Folders of single runs within the folder of a threshold sweep."""


def results_in(folder: Path) -> list[Path]:
    """What a run left in ``folder``, ``summary.json`` first; files of other origin are not listed."""
    named = [folder / name for name in (SUMMARY, EPISODES, PICTURES)]
    runs = sorted(path for path in folder.glob(f"{RUN_PREFIX}*") if (path / SUMMARY).is_file())
    return [path for path in named if path.exists()] + runs


def check_free(folder: Path, overwrite: bool = False) -> list[Path]:
    """The results in ``folder``, which there may be only for overwriting.

    Raises FileExistsError where there are some otherwise, NotADirectoryError where it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; expected a folder to write results to")
    existing = results_in(folder)
    if existing and not overwrite:
        names = ", ".join(entry.name for entry in existing[:3])
        raise FileExistsError(
            f"{folder} already holds results ({names}); choose another folder, or overwrite them"
        )
    return existing


@contextlib.contextmanager
def results_folder(path: str | Path, overwrite: bool = False) -> Iterator[Path]:
    """A temporary folder to write to, whose content moves to ``path`` at the end: ``with results_folder(...)
    as f``.

    Whatever ends the block early, Ctrl-C included, leaves ``path`` as it was. ``summary.json`` moves last, so
    that where it is, everything is. overwrite: replace the results of an earlier run (and nothing else).

    Raises FileExistsError where there are results already, and OSError where the folder cannot be written;
    both before anything is done.
    """
    folder = Path(path)
    existing = check_free(folder, overwrite)
    made = [parent for parent in (folder, *folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=folder))
        try:
            yield unfinished
            for entry in existing:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            for entry in sorted(unfinished.iterdir(), key=lambda entry: entry.name == SUMMARY):
                entry.replace(folder / entry.name)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except BaseException:
        for parent in made:
            with contextlib.suppress(OSError):  # not empty: somebody else has written there
                parent.rmdir()
        raise
