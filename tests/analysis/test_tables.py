"""Tables fit a narrow terminal and show the numbers of the summary."""

from __future__ import annotations

import dataclasses
import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from mnistpro_jax.analysis import tables
from mnistpro_jax.runs.summary import RunSettings, summarise
from tests.runs.played import SETTINGS, outcomes

PUBLISHED = dataclasses.replace(SETTINGS, budget=78, confidence=0.9, source="mnist")


def summary(settings: RunSettings = PUBLISHED, control: bool = True) -> dict[str, Any]:
    flags = np.ones(len(outcomes()), bool) if control else None
    return summarise(outcomes(), settings, control_correct=flags)


def printed(print_: Any, content: Any, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_(console, content)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [80, 100])
def test_summary_fits_and_is_complete(width: int) -> None:
    text = printed(tables.print_summary, summary(), width)
    assert max(map(len, text.splitlines())) <= width
    for expected in (
        "63.0 %",
        "41.00",
        "100.0 %",
        "published best",
        "Gemini-3.7-Flash",
        "control",
        "loops (0 6 8 9)",
    ):
        assert expected in text
    assert "…" not in text


def test_columns_and_rows_without_content_are_left_out() -> None:
    text = printed(tables.print_summary, summary(SETTINGS, control=False), 80)
    assert "published best" not in text
    assert "control" not in text
    no_digits = dataclasses.replace(SETTINGS, num_classes=26)
    assert "topology" not in printed(tables.print_summary, summary(no_digits), 80)


def test_source_is_shown_as_it_is() -> None:
    odd = dataclasses.replace(SETTINGS, source="idx:[bold]folder")
    assert "idx:[bold]folder" in printed(tables.print_summary, summary(odd), 100)


@pytest.mark.parametrize("width", [80, 100])
def test_sweep_has_a_row_each(width: int) -> None:
    settings = [dataclasses.replace(PUBLISHED, confidence=value) for value in (0.5, 0.75, 0.925)]
    text = printed(tables.print_sweep, [summary(each) for each in settings], width)
    assert max(map(len, text.splitlines())) <= width
    words = [line.split() for line in text.splitlines() if line.strip()]
    head = next(number for number, row in enumerate(words) if row[0] == "confidence")
    # Every run is one line: no cell is broken in two.
    assert [row[0] for row in words[head + 2 : head + 6]] == ["0.5", "0.75", "0.925", "published"]


def test_formats() -> None:
    assert tables.percent(0.12345) == "12.3 %"
    assert tables.percent(None) == tables.number(None) == tables.interval(None) == "-"
    assert tables.interval((0.0, 1.0)) == "  0.0 - 100.0"
    assert tables.number(15.666) == "15.67"
