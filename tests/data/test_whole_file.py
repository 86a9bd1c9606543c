"""A file is whole, or as it was before."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from mnistpro_jax.data.whole_file import whole_file
from mnistpro_jax.runs.log import EventLog
from mnistpro_jax.runs.picture_store import PictureStore, name_of


def test_a_writer_that_stops_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "kept.txt"
    with whole_file(path) as unfinished:
        unfinished.write_text("first")
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt), whole_file(path) as unfinished:  # noqa: PT012 - it is the point
        unfinished.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit of a file's size")
def test_a_limit_of_size_names_the_file(tmp_path: Path) -> None:
    """``ulimit -f``: the system names no file where a write fails."""
    import resource

    log, store, picture = EventLog(tmp_path / "0000.jsonl"), PictureStore(tmp_path), bytes(2000)

    def whole() -> None:
        with whole_file(tmp_path / "a.json") as unfinished:
            unfinished.write_text("x" * 2000)

    writers = {
        "a.json": whole,
        "0000.jsonl": lambda: log.append({"event": "turn", "text": "x" * 2000}),
        f"{name_of(picture)}.png": lambda: store.keep([picture]),
    }
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for name, write in writers.items():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        try:
            with pytest.raises(OSError) as raised:  # noqa: PT011 - what it says is checked below
                write()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, str(tmp_path / name))
    log.append({"event": "turn"})
    assert len((tmp_path / "0000.jsonl").read_text().splitlines()) == 1
