"""The folder of a run: what it keeps to, and that one process at a time is at work in it."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.runs.log import LogError
from mnistpro_jax.runs.run_folder import RunFolder, digest_of

CONFIG = {"model": "scripted:clumsy", "level": 1, "horizon": 4, "temperature": None}


def answered(folder: Path, *events: dict[str, Any]) -> None:
    """A reply in the folder's first log."""
    lines = [json.dumps(event) for event in ({"event": "start"}, *events, {"event": "turn"})]
    (folder / "log" / "0000.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"horizon": 5}, "horizon = 4, but this one has horizon = 5"),
        ({"temperature": 0.5}, "temperature = null"),
        ({"model": "other"}, 'model = "scripted:clumsy"'),
        ({"new": 1}, "new = null"),
    ],
)
def test_a_changed_configuration_is_refused(tmp_path: Path, change: dict[str, Any], expected: str) -> None:
    with RunFolder(tmp_path, CONFIG, {"concurrency": 1}):
        answered(tmp_path)
    with RunFolder(tmp_path, CONFIG, {"concurrency": 2}):  # of the session, may change
        pass
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(LogError) as error, RunFolder(tmp_path, {**CONFIG, **change}, {}):
        pass
    assert expected in str(error.value)
    assert (tmp_path / "run.json").read_bytes() == before
    assert [session["concurrency"] for session in json.loads(before)["sessions"]] == [1, 2]


def test_a_configuration_that_nobody_has_answered_binds_nothing(tmp_path: Path) -> None:
    with RunFolder(tmp_path, CONFIG, {}):
        log = tmp_path / "log" / "0000.jsonl"
        log.write_text('{"event": "start"}\n{"event": "error"}\n')
    with RunFolder(tmp_path, CONFIG, {}):
        assert log.exists()  # the same one: what went wrong stays on record
    with RunFolder(tmp_path, {**CONFIG, "horizon": 5}, {}):
        assert not log.exists()
        answered(tmp_path)
    assert json.loads((tmp_path / "run.json").read_text())["config"]["horizon"] == 5
    with pytest.raises(LogError, match="horizon = 5"), RunFolder(tmp_path, CONFIG, {}):
        pass


def test_results_without_their_logs_bind_as_well(tmp_path: Path) -> None:
    with RunFolder(tmp_path, CONFIG, {}):
        pass
    (tmp_path / "episodes.jsonl").write_text("{}\n")
    with pytest.raises(LogError, match="horizon = 4"), RunFolder(tmp_path, {**CONFIG, "horizon": 5}, {}):
        pass


def test_fields_that_may_change_are_kept_on_record(tmp_path: Path) -> None:
    with RunFolder(tmp_path, CONFIG, {}):
        answered(tmp_path)
    for _ in range(2):
        with RunFolder(tmp_path, {**CONFIG, "temperature": 1.0}, {}, {"temperature"}) as folder:
            assert folder.changed == {"temperature": 1.0}
            assert folder.digests == {digest_of(CONFIG), digest_of({**CONFIG, "temperature": 1.0})}
    stored = json.loads((tmp_path / "run.json").read_text())
    assert stored["config"] == CONFIG and stored["again"] == [{"temperature": 1.0}]
    changed = {**CONFIG, "temperature": 1.0, "level": 2}
    with pytest.raises(LogError, match="level"), RunFolder(tmp_path, changed, {}, {"temperature"}):
        pass
    with RunFolder(tmp_path, CONFIG, {}) as folder:
        assert not folder.changed and len(folder.digests) == 2


def _hold(path: str, ready: Any, release: Any) -> None:
    with RunFolder(Path(path), CONFIG, {}):
        ready.set()
        release.wait(60)


def test_two_runs_in_one_folder(tmp_path: Path) -> None:
    with (
        RunFolder(tmp_path, CONFIG, {}),
        pytest.raises(LogError, match="in use by another run"),
        RunFolder(tmp_path, CONFIG, {}),
    ):
        pass
    with RunFolder(tmp_path, CONFIG, {}):  # free again
        pass


def test_a_lock_dies_with_its_process(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(tmp_path), ready, release))
    holder.start()
    try:
        assert ready.wait(120)
        with pytest.raises(LogError, match="in use"), RunFolder(tmp_path, CONFIG, {}):
            pass
    finally:
        holder.kill()
        holder.join()
    with RunFolder(tmp_path, CONFIG, {}):
        pass


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(LogError, match=r"other files \(thesis.tex\)"), RunFolder(tmp_path, CONFIG, {}):
        pass
    with pytest.raises(LogError, match="is a file"), RunFolder(tmp_path / "thesis.tex", CONFIG, {}):
        pass


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the super-user may write anywhere")
def test_a_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError), RunFolder(tmp_path, CONFIG, {}):
        pass
