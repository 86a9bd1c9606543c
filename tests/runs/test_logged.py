"""The logs of a run hold what its process had no time to list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.runs.load import load_run, load_runs
from mnistpro_jax.runs.log import LogError, last_event
from tests.runs import stored

OVER = len(stored.SCRIPTS) - 2


def relist(folder: Path, keep: int, **changes: object) -> None:
    """``episodes.jsonl`` as it was after ``keep`` episodes."""
    path = folder / "episodes.jsonl"
    lines = [json.loads(line) | changes for line in path.read_text().splitlines()[:keep]]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_logs_are_ahead_of_the_list(tmp_path: Path) -> None:
    folder = stored.host_folder(tmp_path / "a")
    whole = load_run(folder)
    relist(folder, 2, cost=0.5)
    killed = load_run(folder)
    assert [record["episode"] for record in killed.records] == list(range(OVER))
    assert [record["cost"] for record in killed.records] == [0.5, 0.5, None, None, None]
    assert [{**one, "cost": None} for one in killed.records] == list(whole.records)
    assert killed.uncounted == {"unfinished": 2}
    (folder / "episodes.jsonl").unlink()
    assert load_runs([tmp_path])[0].records == whole.records


def test_a_run_that_was_killed_early_is_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored.host_folder(tmp_path / "a", model="scripted:answer", memory="image-only")
    (folder / "episodes.jsonl").unlink()
    assert main(["analyse", str(tmp_path), "--readers", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["tables"]["main"]["rows"]
    assert (row["episodes"], row["missing"], row["if_wrong"], row["if_right"]) == (OVER, 2, 3 / 7, 5 / 7)
    assert main(["matrix", str(tmp_path), "--model", "scripted:answer", "--level", "1", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    (partial,) = (row for table in tables for row in table["rows"] if row["state"] == "partial")
    assert partial["episodes"] == OVER


def test_a_folder_without_logs_is_what_is_listed(tmp_path: Path) -> None:
    folder = stored.host_folder(tmp_path / "a")
    whole = load_run(folder)
    for path in (folder / "log").iterdir():
        path.unlink()
    assert (load_run(folder).records, load_run(folder).uncounted) == (whole.records, whole.uncounted)
    (folder / "episodes.jsonl").unlink()
    with pytest.raises(ValueError, match="holds no run"):
        load_runs([folder])


def test_a_torn_line_is_no_end(tmp_path: Path) -> None:
    folder = stored.host_folder(tmp_path / "a")
    (folder / "episodes.jsonl").unlink()
    log = folder / "log" / "0000.jsonl"
    log.write_text(log.read_text()[:-10])
    run = load_run(folder)
    assert [record["episode"] for record in run.records] == list(range(1, OVER))
    assert run.uncounted == {"unfinished": 3}


def test_a_log_that_ends_with_nonsense_is_named(tmp_path: Path) -> None:
    folder = stored.host_folder(tmp_path / "a")
    log = folder / "log" / "0003.jsonl"
    log.write_text(log.read_text() + "[]\n")
    with pytest.raises(LogError, match=r"0003\.jsonl: its last line is no event"):
        load_run(folder)
    log.write_text((folder / "log" / "0001.jsonl").read_text())
    with pytest.raises(LogError, match=r"0003\.jsonl: its last line ends another episode than 3"):
        load_run(folder)


@pytest.mark.parametrize("size", [10, 2**14 - 27, 2**14, 300_000])
def test_the_last_event_is_found_however_long_lines_are(tmp_path: Path, size: int) -> None:
    path = tmp_path / "log.jsonl"
    lines = [json.dumps({"event": name, "text": name * size}) + "\n" for name in "abc"]
    for count in range(4):
        for torn in ("", '{"event": "d"', "x" * size):
            path.write_text("".join(lines[:count]) + torn)
            found = last_event(path)
            assert (found and found["event"]) == (None, "a", "b", "c")[count]
