"""What people see where the terminal is narrow, or knows few letters, and while a run is unfinished."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from rich.console import Console

from mnistpro_jax.analysis.measures import sheets
from mnistpro_jax.analysis.sheet import Sheet
from mnistpro_jax.analysis.tables import plain_tables, print_tables
from mnistpro_jax.cli import entry, main
from mnistpro_jax.cli.run import _facts
from mnistpro_jax.host.run import Standing
from mnistpro_jax.runs.load import load_runs
from mnistpro_jax.runs.missing import Missing
from tests.runs import stored


def shown(sheet: Sheet, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_tables(console, sheet.tables({}, width))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_letters_that_the_output_does_not_know_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONIOENCODING=ascii"""
    stored.host_folder(tmp_path / "a", model="openai:modèle…")
    stored.host_folder(tmp_path / "b", memory="grid-map")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setattr(sys, "argv", ["mnistpro", "analyse", str(tmp_path), "--readers"])
    with pytest.raises(SystemExit) as ended:
        entry()
    out.flush()
    text = out.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
    assert ended.value.code == 0
    assert "openai:mod?le?, textual" in text and "Calls" in text and "---+---" in text


def test_nothing_is_cut_in_a_narrow_terminal(tmp_path: Path) -> None:
    for name, memory in (("a", "textual"), ("b", "grid-map")):
        stored.host_folder(tmp_path / name, model="m", memory=memory)
    runs = load_runs([tmp_path])
    for sheet in sheets(runs):
        text = shown(sheet, 80)
        assert "…" not in text and max(map(len, text.splitlines())) <= 80
        # Each number and each word of a heading stands there whole.
        for row in sheet.cells():
            assert all(cell.split(" (")[0] in text for cell in row[2:])
        used = {column.key for column in sheet.columns if any(column.key in row for row in sheet.rows)}
        words = re.split(r"[\s]+", text)
        for column in sheet.columns:
            if column.key in used and all(row.get(column.key) is not None for row in sheet.rows):
                assert set(column.heading.split()) <= set(words), column.heading


def test_a_table_that_fits_is_one_table() -> None:
    columns = [("run", "left"), *((f"a heading of {k}", "right") for k in range(5))]
    rows = [["one", "1", "2", "3", "4", "5.00 %"], ["two", "1", "2", "3", "4", "-"]]
    wide = plain_tables(columns, rows, 100)
    assert len(wide) == 1 and [column.width for column in wide[0].columns] == [3, *[14] * 5]
    narrow = plain_tables(columns, rows, 60)
    assert len(narrow) == 1 and sum(column.width or 0 for column in narrow[0].columns) + 3 * 5 <= 60
    split = plain_tables(columns, rows, 30)
    assert [table.columns[0].header for table in split] == ["run"] * len(split)
    assert sum(len(table.columns) - 1 for table in split) == 5 and len(split) > 1


def test_progress_says_that_it_is_no_result() -> None:
    missing = Missing(planned=100, counted=15, right=14, not_over=85, short_first=True)
    standing = Standing(15, 100, 15, 14 / 15, missing, 54, 1000, 200, 0.5)
    assert _facts(standing).startswith(
        "accuracy 93.3 % (85 missing, biased to short episodes; all 100: 14.0 to 99.0 %), 54 calls"
    )
    assert _facts(Standing(100, 100, 100, 0.8, None, 880, 9, 9, None)).startswith(
        "accuracy 80.0 %, 880 calls"
    )


def test_an_unfinished_run_has_a_warning_and_a_star(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    stored.host_folder(tmp_path / "a")
    stored.host_folder(tmp_path / "b", failed=0, memory="grid-map")
    markdown = tmp_path / "r.md"
    assert main(["analyse", str(tmp_path), "--readers", "--markdown", str(markdown)]) == 0
    printed = capsys.readouterr().out
    warning = (
        "openai:gpt, textual, H=1 (unfinished, 5 of 7): 2 of 7 episodes are not over; accuracy of all 7 lies"
    )
    assert f"warning: {warning}" in printed and warning in markdown.read_text()
    assert re.search(r"^1 +#1\* +5 ", printed, re.M) and re.search(r"^1 +#2 +7 ", printed, re.M)
    # A complete run looks as it always did.
    assert main(["analyse", str(tmp_path / "b"), "--readers", "--markdown", str(markdown)]) == 0
    for text in (capsys.readouterr().out, markdown.read_text()):
        assert not re.search("unfinished|missing|warning|\\*", text)
