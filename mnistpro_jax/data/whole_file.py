"""A file that appears whole or not at all, whatever stops its writer."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def named(path: Path) -> Iterator[None]:
    """Has an OSError that names no file name this one: a disk is full, or a limit of size reached, while one writes."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A hidden path beside ``path`` to write to; it takes the name at the end, or is removed where that is not reached.

    Its name holds the process's number: two writers do not write into one another's file. An OSError of writing,
    which names no file, leaves with ``path`` in it.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with named(path):
            yield unfinished
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
