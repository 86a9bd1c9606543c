"""What ``mnistpro matrix`` does: which cells of a study exist, are missing or confounded, and running the others."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnistpro_jax.analysis.sheet import Sheet
from mnistpro_jax.cli.options import LARGEST_LEVEL, whole
from mnistpro_jax.cli.servers import add_server, server_of
from mnistpro_jax.cli.terminal import INTERRUPTED, note, stdout
from mnistpro_jax.data.whole_file import whole_file
from mnistpro_jax.runs.load import run_folders, runs_at
from mnistpro_jax.runs.missing import Missing
from mnistpro_jax.runs.names import named_apart
from mnistpro_jax.runs.stored import StoredRun
from mnistpro_jax.study.cells import Matrix, MatrixTable, load_matrix
from mnistpro_jax.study.status import CellStatus, counts, status, status_sheet, uncrossed

if TYPE_CHECKING:
    from rich.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro matrix``."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="folder of runs, ours or the published reference's, or of logs of Inspect; it may be empty",
    )
    what = parser.add_argument_group("which cells")
    what.add_argument(
        "--matrix",
        type=Path,
        default=None,
        metavar="FILE",
        help="a matrix in TOML (default: the published tables)",
    )
    what.add_argument(
        "--table", nargs="+", default=None, metavar="NAME", help="these tables alone (default: all)"
    )
    what.add_argument(
        "--model",
        nargs="+",
        default=[],
        metavar="NAME",
        help="these models in the place of the declared ones, as `mnistpro run --model` takes them",
    )
    what.add_argument(
        "--level",
        type=whole(1, LARGEST_LEVEL),
        nargs="+",
        default=None,
        metavar="N",
        help="these levels (default: all)",
    )
    what.add_argument(
        "--as",
        dest="other_names",
        nargs="+",
        default=[],
        metavar="NAME=MODEL",
        help="how a declared model is run, such as GLM-4.6V=openrouter:z-ai/glm-4.6v",
    )
    doing = parser.add_argument_group("running what is missing")
    how = doing.add_mutually_exclusive_group()
    how.add_argument(
        "--run", action="store_true", dest="fill", help="run the cells that are not present into DIR"
    )
    how.add_argument("--dry-run", action="store_true", help="count the calls of that, and ask nobody")
    doing.add_argument(
        "--first", type=whole(1), default=None, metavar="N", help="only the first N of these cells"
    )
    doing.add_argument(
        "--assume-steps", type=whole(1), default=None, metavar="N", help="--dry-run: steps an episode takes"
    )
    add_server(doing)
    doing.add_argument(
        "--keep-going",
        action="store_true",
        help="play on where no reply says what to do, as in `mnistpro run`",
    )
    doing.add_argument(
        "--concurrency", type=whole(1), default=16, metavar="N", help="episodes at a time (default: 16)"
    )
    doing.add_argument(
        "--max-cost",
        type=float,
        default=None,
        metavar="X",
        help="of all cells together, those of earlier sessions included; needs prices",
    )
    doing.add_argument("--price-file", type=Path, default=None, metavar="FILE", help="as in `mnistpro run`")
    output = parser.add_argument_group("output")
    output.add_argument("--missing", action="store_true", help="list the cells that are not present alone")
    output.add_argument("--csv", type=Path, default=None, metavar="DIR", help="write a CSV file a table here")
    output.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Print the matrix; run what is missing where asked. Returns the exit code: 130 interrupted, 1 stopped early."""
    if arguments.max_cost is not None and not arguments.max_cost >= 0:  # NaN fails the comparison as well
        raise ValueError(f"--max-cost is {arguments.max_cost}; expected 0 or more")
    matrix = load_matrix(arguments.matrix, arguments.model)
    tables = [matrix.table(name) for name in arguments.table] if arguments.table else list(matrix.tables)
    other_names = _other_names(arguments.other_names, matrix)
    code = 0
    if arguments.fill or arguments.dry_run:
        found = _statuses(matrix, tables, arguments)
        code = _fill(arguments, matrix, found, other_names)
        if arguments.dry_run:
            return code
    _show(arguments, matrix, _statuses(matrix, tables, arguments))
    return code


Statuses = list[tuple[MatrixTable, list[CellStatus]]]


def _statuses(matrix: Matrix, tables: list[MatrixTable], arguments: argparse.Namespace) -> Statuses:
    runs = _runs(arguments.folder)
    levels = arguments.level
    return [
        (table, [one for one in status(matrix, table, runs) if levels is None or one.cell.level in levels])
        for table in tables
    ]


def _runs(folder: Path) -> list[StoredRun]:
    """All runs in a folder; one that has only begun, or cannot be read, is named and left out."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file; expected a folder of runs")
    loaded = []
    for path in run_folders(folder):
        try:
            loaded += runs_at(path)
        except ValueError as error:
            note(f"left out: {error}")
    return named_apart(loaded)


def _other_names(texts: list[str], matrix: Matrix) -> dict[str, str]:
    names = {}
    for text in texts:
        name, equals, model = text.partition("=")
        if not equals or name not in matrix.models:
            raise ValueError(f"--as {text!r}: expected NAME=MODEL with one of {', '.join(matrix.models)}")
        names[name] = model
    return names


def _show(arguments: argparse.Namespace, matrix: Matrix, found: Statuses) -> None:
    from mnistpro_jax.study.status import State

    shown = [
        (table, [one for one in statuses if not (arguments.missing and one.state is State.PRESENT)])
        for table, statuses in found
    ]
    sheets = [(table, status_sheet(matrix, table, statuses)) for table, statuses in shown]
    if arguments.csv is not None:
        arguments.csv.mkdir(parents=True, exist_ok=True)
        for _, sheet in sheets:
            with whole_file(arguments.csv / f"{sheet.name}.csv") as unfinished:
                unfinished.write_text(sheet.csv(), encoding="utf-8")
    if arguments.json:
        tables: list[dict[str, Any]] = [
            {
                "name": table.name,
                "counts": counts(statuses),
                "uncrossed": uncrossed(statuses),
                "missing": {folder: missing.as_dict() for folder, missing in _missing(listed)},
                **sheet.json(),
            }
            for (table, statuses), (_, listed), (_, sheet) in zip(found, shown, sheets, strict=True)
        ]
        print(json.dumps({"matrix": matrix.name, "tables": tables}, indent=2, allow_nan=False))
        return
    console = stdout()
    for (table, statuses), (_, listed), (_, sheet) in zip(found, shown, sheets, strict=True):
        said = ", ".join(f"{count} {state}" for state, count in counts(statuses).items() if count)
        console.print(f"\n[bold]{table.title}[/bold] ({table.name}): {said or 'no cells'}")
        if table.note:
            console.print(f"[dim]{table.note}[/dim]")
        if sheet.rows:
            _print_compact(console, sheet, listed)
        for one in listed:
            if one.differences and one.run is not None:
                console.print(f"confounded: {one.run.path.name}: {'; '.join(one.differences)}", markup=False)
        for folder, missing in _missing(listed):
            console.print(f"warning: {folder}: {missing.warning}", markup=False)
        for sentence in uncrossed(statuses):
            console.print(f"warning: {sentence}", markup=False)
    if matrix.source:
        console.print(
            f"\n[dim]Accuracy, per cent, @ average steps. Published figures: {matrix.source}.[/dim]"
        )


def _missing(statuses: Sequence[CellStatus]) -> list[tuple[str, Missing]]:
    """(folder, what it lacks) of the runs that lack episodes."""
    pairs = [(one.run.path.name, one.missing) for one in statuses if one.run is not None]
    return [(folder, missing) for folder, missing in pairs if missing is not None]


def _print_compact(console: Console, sheet: Sheet, statuses: Sequence[CellStatus]) -> None:
    """The table in a narrow terminal: results as "accuracy @ steps", and what the accuracy of all can still be."""
    from mnistpro_jax.analysis.tables import plain_tables, print_tables

    def result(accuracy: float | None, steps: float | None, of: str = "") -> str:
        parts = [] if accuracy is None else [f"{100 * accuracy:.1f}"]
        parts += [] if steps is None else [f"@ {steps:.2f}"]
        return " ".join([*parts, *([f"({of})"] if of and parts else [])])

    rows = []
    for one, row in zip(statuses, sheet.rows, strict=True):
        accuracy, steps = (row[name].value if name in row else None for name in ("accuracy", "steps"))
        published = result(row.get("published"), row.get("published_steps"), row.get("published_model", ""))
        episodes = f"{row['episodes']:,}" if "episodes" in row else ""
        bounds = ""
        if one.missing is not None:
            episodes += f" of {one.missing.planned:,}"
            bounds = one.missing.range
        cell = (row["model"], f"L{row['level']}", row["memory"], row["horizon"], str(row["window"]))
        rows.append((*cell, row["state"], episodes, result(accuracy, steps), bounds, published))
    columns = [("model", "left"), ("", "left"), ("memory", "left"), ("H", "right"), ("window", "right")]
    columns += [("state", "left"), ("episodes", "right"), ("result", "left"), ("of all", "left")]
    columns += [("published", "left")]
    used = [k for k in range(len(columns)) if any(row[k] for row in rows)]
    one_model = len({row[0] for row in rows}) == 1
    one_window = len({row[4] for row in rows}) == 1
    used = [k for k in used if not (k == 0 and one_model) and not (k == 4 and one_window)]
    keys = sum(k < 5 for k in used)
    print_tables(
        console,
        plain_tables(
            [columns[k] for k in used], [[row[k] for k in used] for row in rows], console.width, keys
        ),
    )


def _fill(arguments: argparse.Namespace, matrix: Matrix, found: Statuses, other_names: dict[str, str]) -> int:
    from mnistpro_jax.study import filling

    session = {
        **server_of(arguments),
        "keep_going": arguments.keep_going,
        "concurrency": arguments.concurrency,
        "max_cost": arguments.max_cost,
        "price_file": arguments.price_file,
    }
    # A cell may stand in several tables; it is run once.
    statuses = list({one.cell: one for _, statuses in found for one in statuses}.values())
    work = filling.work_for(statuses, matrix, arguments.folder, other_names=other_names, session=session)
    work = work[: arguments.first]
    if arguments.dry_run:
        _print_forecast(filling.forecast(work, arguments.assume_steps), arguments)
        return 0
    from mnistpro_jax.cli.run import progress

    with progress() as (report, say):
        outcomes, problem = filling.fill(work, say, report, say, statuses)
    if problem is not None:
        note(problem)
    if outcomes and outcomes[-1].interrupted:
        return INTERRUPTED
    return 0 if problem is None else 1


def _print_forecast(found: list[Any], arguments: argparse.Namespace) -> None:
    facts = [
        {"cell": work.cell.label, "out": str(work.request.out), **part.as_dict()} for work, part in found
    ]
    names = ("calls", "pictures", "input_tokens", "output_tokens", "cost")
    # What is not known of one cell is not known of all of them.
    known = {name: [fact[name] for fact in facts if fact[name] is not None] for name in names}
    sums = {name: sum(known[name]) if len(known[name]) == len(facts) else None for name in names}
    if arguments.json:
        print(json.dumps({"cells": facts, "all": sums}, indent=2, allow_nan=False))
        return
    from mnistpro_jax.analysis.tables import NOTHING, plain_tables, print_tables

    rows = [
        (str(fact["cell"]), *(NOTHING if fact[name] is None else f"{fact[name]:,}" for name in names))
        for fact in [*facts, {"cell": "all", **sums}]
    ]
    columns = [("cell", "left"), *((name.replace("_", " "), "right") for name in names)]
    console = stdout()
    print_tables(console, plain_tables(columns, rows, console.width))
    what = "at most" if arguments.assume_steps is None else f"for episodes of {arguments.assume_steps} steps"
    console.print(f"[dim]Counts are {what}; see `mnistpro run --dry-run` for how they are estimated.[/dim]")
