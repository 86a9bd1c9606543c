"""A sheet says the same as CSV, Markdown, HTML and JSON."""

from __future__ import annotations

import csv
import io

import pytest

from mnistpro_jax.analysis.sheet import Column, Estimate, Sheet, markdown_of


def test_sheets_as_files() -> None:
    sheet = Sheet(
        "small",
        "A | title",
        "What it is.",
        (
            Column("run", "run"),
            Column("share", "share | x", "share"),
            Column("count", "n", "count"),
            Column("p", "p", "p"),
        ),
        (
            {"run": 'a, "b"|<i>', "share": Estimate(0.5, 0.25, 0.75), "count": 1234, "p": 1e-9},
            {"run": "c", "share": Estimate(None, None, None), "p": 0.25},
        ),
    )
    rows = list(csv.reader(io.StringIO(sheet.csv())))
    assert rows[0] == ["run", "share", "share_low", "share_high", "count", "p"]
    assert rows[1] == ['a, "b"|<i>', "0.5", "0.25", "0.75", "1234", "1e-09"]
    assert rows[2] == ["c", "", "", "", "", "0.25"]
    lines = markdown_of([sheet], "All").splitlines()
    assert lines[0] == "# All"
    assert r'| a, "b"\|<i> | 50.0 % (25.0 to 75.0) | 1,234 | < 0.0001 |' in lines
    assert "| c | - | - | 0.2500 |" in lines
    assert "&lt;i&gt;" in sheet.html() and "<i>" not in sheet.html()
    assert sheet.json()["rows"][1]["share"] == [None, None, None]
    with pytest.raises(ValueError, match="no column nonsense"):
        Sheet("x", "x", "x", (Column("run", "run"),), ({"nonsense": 1},))
