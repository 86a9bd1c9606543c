"""JSON files appear whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnistpro_jax.runs.json_files import write_json, write_jsonl


def test_writing_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_json(tmp_path / "summary.json", {"a": 1})

    def interrupted(*args: object, **kwargs: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_jsonl(path, [{}])
    with pytest.raises(KeyboardInterrupt):
        write_json(path, {})
    monkeypatch.undo()
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["summary.json"]
