"""Pictures named by their content: each is stored once, however often it is shown."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from mnistpro_jax.data.whole_file import named


class PictureStore:
    """A folder of PNG files; without a folder, names alone."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._kept: set[str] = set()

    def keep(self, pictures: Sequence[bytes]) -> list[str]:
        """Store the files that are not there yet; returns the names of all. Raises OSError."""
        names = [name_of(picture) for picture in pictures]
        if self._folder is not None:
            for name, picture in zip(names, pictures, strict=True):
                if name not in self._kept:
                    _write(self._folder / f"{name}.png", picture)
                    self._kept.add(name)
        return names


def name_of(picture: bytes) -> str:
    """The name of a picture in a store: SHA-256 of the file, 64 hexadecimal digits."""
    return hashlib.sha256(picture).hexdigest()


def _write(target: Path, picture: bytes) -> None:
    """The whole file, or none."""
    if target.exists():
        return
    unfinished = target.with_name(f".{target.stem}.part")
    try:
        with named(target):
            unfinished.write_bytes(picture)
            unfinished.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
