"""A file is whole, or as it was before."""

from __future__ import annotations

from pathlib import Path

import pytest

from mnistpro_jax.data.whole_file import whole_file


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
