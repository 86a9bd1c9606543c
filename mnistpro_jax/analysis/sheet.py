"""A table as data: the same rows become CSV, Markdown, HTML, JSON, and a table in the terminal."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table

from mnistpro_jax.analysis.tables import NOTHING, plain_tables

Row = dict[str, Any]


class Estimate(NamedTuple):
    """A value with its 95 % interval; None where there is nothing to estimate from."""

    value: float | None
    low: float | None
    high: float | None


@dataclasses.dataclass(frozen=True)
class Column:
    """key: of the rows. heading: for people. kind: "text", "count" (whole numbers), "share" (fractions, printed as
    percentages), "points" (differences of fractions, with a sign), "number" (two decimals) or "p" (a p-value).
    ``Estimate`` values print with their interval. about: what it means, shown on hovering in the report."""

    key: str
    heading: str
    kind: str = "text"
    about: str = ""


@dataclasses.dataclass(frozen=True)
class Sheet:
    """name: of the CSV file. title, about: for people. columns, rows: see ``Column``; what a row lacks is empty."""

    name: str
    title: str
    about: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        unknown = {key for row in self.rows for key in row} - {column.key for column in self.columns}
        if unknown:
            raise ValueError(f"sheet {self.name!r} has no column {', '.join(sorted(unknown))}")

    def csv(self) -> str:
        """Fractions and plain numbers, full precision; an estimate becomes three columns, ``_low`` and ``_high``."""
        wide = {
            column.key
            for column in self.columns
            if any(isinstance(row.get(column.key), Estimate) for row in self.rows)
        }
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(
            [
                name
                for column in self.columns
                for name in (
                    [column.key, f"{column.key}_low", f"{column.key}_high"]
                    if column.key in wide
                    else [column.key]
                )
            ]
        )
        for row in self.rows:
            cells: list[Any] = []
            for column in self.columns:
                value = row.get(column.key)
                if column.key in wide:
                    cells += value if isinstance(value, Estimate) else (value, None, None)
                else:
                    cells.append(value)
            writer.writerow(["" if _is_nothing(cell) else cell for cell in cells])
        return buffer.getvalue()

    def markdown(self) -> str:
        """A heading, what the table says, and the table in GitHub's dialect."""
        lines = [f"## {self.title}", "", self.about, ""]
        lines.append("| " + " | ".join(column.heading for column in self.columns) + " |")
        lines.append(
            "|" + "|".join("---" if column.kind == "text" else "---:" for column in self.columns) + "|"
        )
        for row in self.cells():
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |")
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """A ``<table>``; numbers are right-aligned by the class "n"."""
        head = "".join(
            f"<th{_hover(column.about)}{'' if column.kind == 'text' else ' class=n'}>{html.escape(column.heading)}</th>"
            for column in self.columns
        )
        body = "".join(
            "<tr>"
            + "".join(
                f"<td{'' if column.kind == 'text' else ' class=n'}>{_html_cell(row.get(column.key), column)}</td>"
                for column in self.columns
            )
            + "</tr>"
            for row in self.rows
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def tables(self, names: Mapping[str, str], width: int, intervals: bool = True) -> list[Table]:
        """For a terminal of ``width`` characters: empty columns are left out, and what finds no room beside the others
        comes in a further table.

        names: shorter texts for cells, such as numbers of runs. intervals: whether estimates have theirs below them.
        """
        used = [
            column for column in self.columns if any(not _is_empty(row.get(column.key)) for row in self.rows)
        ]

        def text(value: Any, column: Column) -> str:
            if isinstance(value, Estimate):
                return _cell(value, column, "\n") if intervals else _cell(value.value, column)
            return names.get(value, _cell(value, column)) if isinstance(value, str) else _cell(value, column)

        headings = [(column.heading, "left" if column.kind == "text" else "right") for column in used]
        keys = next((k for k, column in enumerate(used) if column.kind != "text"), 1)
        rows = [[text(row.get(column.key), column) for column in used] for row in self.rows]
        return plain_tables(headings, rows, width, max(1, keys))

    def json(self) -> dict[str, Any]:
        """Plain objects; an estimate is [value, low, high]."""
        rows = [
            {key: list(value) if isinstance(value, Estimate) else _plain(value) for key, value in row.items()}
            for row in self.rows
        ]
        return {"title": self.title, "about": self.about, "rows": rows}

    def cells(self) -> list[list[str]]:
        """All cells as text."""
        return [[_cell(row.get(column.key), column) for column in self.columns] for row in self.rows]


def _is_empty(value: Any) -> bool:
    return _is_nothing(value.value if isinstance(value, Estimate) else value)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _plain(value: Any) -> Any:
    return None if _is_nothing(value) else value


def _cell(value: Any, column: Column, between: str = " ") -> str:
    if isinstance(value, Estimate):
        if _is_nothing(value.value):
            return NOTHING
        bounds = f"({_number(value.low, column.kind, False)} to {_number(value.high, column.kind, False)})"
        return f"{_number(value.value, column.kind)}{between}{bounds}"
    return NOTHING if _is_nothing(value) else _number(value, column.kind)


def _html_cell(value: Any, column: Column) -> str:
    if isinstance(value, Estimate) and not _is_nothing(value.value):
        bounds = f"{_number(value.low, column.kind, False)} to {_number(value.high, column.kind, False)}"
        return f"{html.escape(_number(value.value, column.kind))} <small>{html.escape(bounds)}</small>"
    return html.escape(_cell(value, column))


def _number(value: Any, kind: str, unit: bool = True) -> str:
    if kind == "share":
        return f"{100 * value:.1f}{' %' if unit else ''}"
    if kind == "points":
        return f"{100 * value:+.1f}"
    if kind == "number":
        return f"{value:.2f}"
    if kind == "count":
        return f"{value:,}"
    if kind == "p":
        return "< 0.0001" if value < 1e-4 else f"{value:.4f}"
    return str(value)


def _hover(text: str) -> str:
    return f' title="{html.escape(text, quote=True)}"' if text else ""


def markdown_of(sheets: Sequence[Sheet], title: str, notes: Sequence[str] = ()) -> str:
    """One document of several sheets. notes: sentences before them."""
    listed = [f"- {note}" for note in notes] + [""] if notes else []
    return "\n".join([f"# {title}", "", *listed, *(sheet.markdown() for sheet in sheets)])
