"""Summaries as tables for people, 80 columns and up. Percentages here, fractions in the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

Summary = dict[str, Any]

NOTHING = "-"
_GAP = 3  # characters between two columns


def print_runs(console: Console, summaries: Sequence[Summary]) -> None:
    """The runs of one agent: one in full, several as a sweep."""
    if len(summaries) > 1:
        print_sweep(console, summaries)
    else:
        print_summary(console, summaries[0])


def print_summary(console: Console, summary: Summary) -> None:
    """The main table with the published best beside it, then endings and topology."""
    console.print(_headline(summary))
    for table in (main_table(summary), endings_table(summary), topology_table(summary)):
        if table is not None:
            console.print(table)
            console.print()
    _print_footnote(console, summary)


def print_sweep(console: Console, summaries: Sequence[Summary]) -> None:
    """One row a confidence threshold; the best published agent as the last row."""
    console.print(_headline(summaries[0], with_confidence=False))
    console.print(sweep_table(summaries))
    console.print()
    _print_footnote(console, summaries[0])


def main_table(summary: Summary) -> Table:
    """Measure, value with its 95 % interval, and the published best where there is one."""
    table = _table()
    best = summary["published_best"]
    table.add_column("")
    table.add_column(summary["agent"], justify="right")
    table.add_column("95 % interval", justify="right")
    if best:
        table.add_column("published best", justify="right")

    def row(name: str, value: str, interval: str = "", published: str = "", end: bool = False) -> None:
        table.add_row(name, value, interval, *([published] if best else []), end_section=end)

    row(
        "[bold]accuracy[/bold]",
        f"[bold]{percent(summary['accuracy'])}[/bold]",
        interval(summary["accuracy_ci95"]),
        percent(best["accuracy"]) if best else "",
    )
    if missing := summary.get("missing"):
        low, high = missing["accuracy_if_wrong"], missing["accuracy_if_right"]
        bounds = f"{100 * low:.1f} to {100 * high:.1f} %"
        row(f"all {missing['planned']:,}, {missing['missing']:,} missing", bounds)
    if summary["level"] > 1:
        row("single digits right", percent(summary["positional_accuracy"]))
    if summary["control_accuracy"] is not None:
        row(
            "control: whole canvas",
            percent(summary["control_accuracy"]),
            interval(summary["control_accuracy_ci95"]),
        )
    row(
        f"average steps, of {summary['budget']}",
        number(summary["average_steps"]),
        published=number(best["average_steps"]) if best else "",
    )
    row("average return", number(summary["average_return"]), end=True)
    row("stroke seen", percent(summary["stroke_coverage"]))
    row("stroke seen, readable", percent(summary["stroke_coverage_readable"]))
    row("area seen", percent(summary["area_coverage"]))
    row("area seen, readable", percent(summary["area_coverage_readable"]))
    row("windows shown again", percent(summary["revisit_rate"]), end=True)
    when_seen = summary["accuracy_when_seen"]
    every = "every digit" if summary["level"] > 1 else "digit"
    row(f"{every} over {100 * when_seen['threshold']:g} % seen", percent(summary["all_digits_seen"]))
    row(
        f"accuracy on those ({when_seen['episodes']:,})",
        percent(when_seen["accuracy"]),
        interval(when_seen["ci95"]),
    )
    return table


def endings_table(summary: Summary) -> Table:
    """Why episodes ended, and how much was left and seen when they were answered."""
    table = _table()
    for name in ("ending", "episodes", "share", "steps left", "stroke seen"):
        table.add_column(name, justify="left" if name == "ending" else "right")
    total = summary["episodes"]
    for name, part in summary["at_answer"].items():
        table.add_row(
            f"answered {name}",
            f"{part['episodes']:,}",
            percent(part["episodes"] / total),
            number(part["budget_left"], 1),
            percent(part["stroke_coverage"]),
        )
    for name, count in summary["endings"].items():
        if name != "ANSWERED":
            table.add_row(name.lower().replace("_", " "), f"{count:,}", percent(count / total), "", "")
    return table


def topology_table(summary: Summary) -> Table | None:
    """Accuracy of single digits by the topology of the digit shown; None where labels are no digits."""
    if summary["accuracy_by_topology"] is None:
        return None
    table = _table()
    for name in ("digits by topology", "shown", "right", "accuracy", "95 % interval"):
        table.add_column(name, justify="left" if name.startswith("digits") else "right")
    for name, group in summary["accuracy_by_topology"].items():
        digits = " ".join(map(str, group["digits"]))
        table.add_row(
            f"{name} ({digits})",
            f"{group['count']:,}",
            f"{group['correct']:,}",
            percent(group["accuracy"]),
            interval(group["ci95"]),
        )
    return table


def sweep_table(summaries: Sequence[Summary]) -> Table:
    """A row for each run, by its confidence threshold."""
    table = _table()
    for name in ("confidence", "accuracy", "95 % interval", "steps", "return", "stroke seen"):
        table.add_column(name, justify="right")
    for position, summary in enumerate(summaries, start=1):
        table.add_row(
            f"{summary['confidence']:g}",
            f"[bold]{percent(summary['accuracy'])}[/bold]",
            interval(summary["accuracy_ci95"]),
            number(summary["average_steps"]),
            number(summary["average_return"]),
            percent(summary["stroke_coverage"]),
            end_section=position == len(summaries),
        )
    best = summaries[0]["published_best"]
    if best:
        table.add_row("published", percent(best["accuracy"]), "", number(best["average_steps"]), "", "")
    return table


def percent(share: float | None) -> str:
    """A fraction as a percentage, one decimal."""
    return NOTHING if share is None else f"{100 * share:.1f} %"


def interval(bounds: Sequence[float] | None) -> str:
    """Two fractions as percentages, of one width so that columns align."""
    return NOTHING if bounds is None else f"{100 * bounds[0]:5.1f} - {100 * bounds[1]:5.1f}"


def number(value: float | None, decimals: int = 2) -> str:
    """A plain number."""
    return NOTHING if value is None else f"{value:.{decimals}f}"


def plain_table(columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> Table:
    """A table of text in the house style. columns: (heading, "left" or "right") each."""
    return _of_columns(columns, rows, [None] * len(columns))


def plain_tables(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], width: int, keys: int = 1
) -> list[Table]:
    """The same for ``width`` characters: as few tables as that takes, in which no word and no number is cut.

    Headings, and cells of columns on the left, are broken between words; a column that finds no room goes to the next
    table, behind the first ``keys`` columns, which name the row.
    """
    least = [_least(column, [row[k] for row in rows]) for k, column in enumerate(columns)]
    whole = [_longest([column[0], *(row[k] for row in rows)]) for k, column in enumerate(columns)]
    named = list(range(keys))
    blocks = [list(named)]
    for k in range(keys, len(columns)):
        if blocks[-1] != named and _across([least[one] for one in [*blocks[-1], k]]) > width:
            blocks.append(list(named))
        blocks[-1].append(k)
    return [
        _of_columns(
            [columns[k] for k in block],
            [[row[k] for k in block] for row in rows],
            _widths([least[k] for k in block], [whole[k] for k in block], width),
        )
        for block in blocks
    ]


def print_tables(console: Console, made: Sequence[Table]) -> None:
    """Tables below one another, a line apart."""
    for number, table in enumerate(made):
        if number:
            console.print()
        console.print(table)


def _least(column: tuple[str, str], cells: Sequence[str]) -> int:
    """Characters that a column needs at least."""
    heading, justify = column
    return _longest([*heading.split(), *(cells if justify == "right" else " ".join(cells).split())])


def _longest(texts: Sequence[str]) -> int:
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _widths(least: Sequence[int], whole: Sequence[int], width: int) -> list[int | None]:
    """The room of each column: what it needs, and of the rest as much as it can use, a character at a time."""
    given = list(least)
    for _ in range(width - _across(given)):
        wanting = [k for k in range(len(given)) if given[k] < whole[k]]
        if not wanting:
            break
        given[max(wanting, key=lambda k: whole[k] / given[k])] += 1
    return list(given)


def _of_columns(
    columns: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], widths: Sequence[int | None]
) -> Table:
    table = _table()
    for (heading, justify), width in zip(columns, widths, strict=True):
        table.add_column(heading, justify="right" if justify == "right" else "left", width=width)
    for row in rows:
        table.add_row(*row)
    return table


def _table() -> Table:
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, _GAP - 1, 0, 0),
        header_style="dim",
    )


def _headline(summary: Summary, *, with_confidence: bool = True) -> str:
    confidence = summary["confidence"] if with_confidence else None
    where = escape(f"{summary['source']} {summary['split']}")
    return (
        f"\n[bold]MNIST-PRO level {summary['level']}[/bold]: agent {summary['agent']}, "
        f"{summary['episodes']:,} {summary['episode_list']} episodes of {where}\n"
        f"window {summary['window']} px, stride {summary['stride']} px, budget {summary['budget']} steps, "
        f"{'outline' if summary['outline'] else 'no outline'}, seed {summary['seed']}"
        + ("" if confidence is None else f", confidence {confidence:g}")
        + "\n"
    )


def _print_footnote(console: Console, summary: Summary) -> None:
    best = summary["published_best"]
    if best:
        note = f"Published best: {best['who']} ({best['source']}), 100 published episodes."
        console.print(f"[dim]{note}[/dim]")
