"""What ``mnistpro analyse`` does: runs in folders to tables in the terminal, CSV, Markdown, JSON and an HTML report."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.analysis.by_run import missing_notes
from mnistpro_jax.analysis.failures import failures_sheet
from mnistpro_jax.analysis.measures import sheets
from mnistpro_jax.analysis.model_predictor import model_predictor
from mnistpro_jax.analysis.predictors import PREDICTORS, Predictor
from mnistpro_jax.analysis.report import report
from mnistpro_jax.analysis.sheet import Sheet, markdown_of
from mnistpro_jax.analysis.swap import Swap, swap, swap_sheet
from mnistpro_jax.analysis.tables import print_tables
from mnistpro_jax.cli.options import whole
from mnistpro_jax.cli.servers import add_server, server_of
from mnistpro_jax.cli.terminal import note, progress, stdout
from mnistpro_jax.data.whole_file import whole_file
from mnistpro_jax.runs.load import load_runs
from mnistpro_jax.runs.stored import StoredRun

Say = Callable[[str, int, int], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro analyse``."""
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="a run, or a folder of runs: of `evaluate --out`, `run --out`, of the published reference, or logs of "
        "Inspect",
    )
    parser.add_argument(
        "--html", type=Path, default=None, metavar="FILE", help="write the report, one file, here"
    )
    parser.add_argument("--csv", type=Path, default=None, metavar="DIR", help="write a CSV file a table here")
    parser.add_argument("--markdown", type=Path, default=None, metavar="FILE", help="write all tables here")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    parser.add_argument(
        "--readers",
        nargs="*",
        default=["shipped"],
        metavar="NAME",
        help="who reads each run's fused canvases again: shipped (trained), bank (compares with all training images), "
        "or a model as `mnistpro run --model` takes it, which needs --answers; none to leave it out (default: shipped)",
    )
    parser.add_argument(
        "--answers",
        type=Path,
        default=None,
        metavar="FILE",
        help="keeps what models answered: none is asked twice",
    )
    add_server(parser.add_argument_group("the server of models among the readers"))
    parser.add_argument(
        "--trajectories",
        type=whole(0),
        default=100,
        metavar="N",
        help="episodes a run that the report can show step by step (default: 100)",
    )
    parser.add_argument("--title", default="MNIST-PRO runs", metavar="TEXT", help="of report and Markdown")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    with progress() as report:
        measured = measure(arguments, report)
    return show(arguments, measured)


def measure(arguments: argparse.Namespace, say: Say) -> tuple[list[StoredRun], list[Sheet]]:
    """Load, measure and write; what to show. Raises ValueError and OSError with one clear message."""
    for path in (arguments.html, arguments.markdown):
        if path is not None and not path.absolute().parent.is_dir():
            raise ValueError(f"there is no folder {path.absolute().parent} to write {path.name} to")
        if path is not None and path.is_dir():
            raise ValueError(f"{path} is a folder; expected a file to write to")
    if arguments.csv is not None and arguments.csv.exists() and not arguments.csv.is_dir():
        raise ValueError(f"{arguments.csv} is a file; expected a folder to write tables to")
    say("reading episodes", 0, 0)
    readers = predictors(arguments)
    runs = load_runs(arguments.folders)
    swaps = swap_all(runs, readers, say)
    say("measuring", 0, 0)
    made = [*sheets(runs), *swap_sheets(runs, swaps)]
    if arguments.csv is not None:
        arguments.csv.mkdir(parents=True, exist_ok=True)
        for sheet in made:
            _write(arguments.csv / f"{sheet.name}.csv", sheet.csv())
    if arguments.markdown is not None:
        _write(arguments.markdown, markdown_of(made, arguments.title, missing_notes(runs)))
    if arguments.html is not None:
        say("drawing the report", 0, 0)
        page = report(runs, made, swaps, title=arguments.title, trajectories=arguments.trajectories)
        _write(arguments.html, page)
    return runs, made


def show(arguments: argparse.Namespace, measured: tuple[list[StoredRun], list[Sheet]]) -> int:
    """Print what ``measure`` returned: to standard output the tables, to standard error what was written."""
    runs, made = measured
    if arguments.json:
        print(json.dumps(as_json(runs, made), indent=2, allow_nan=False))
    else:
        console = stdout()
        names: dict[str, str] = {}
        for one in runs:
            # A star in every table, where the name would say that the run is unfinished.
            star = "*" if one.missing is not None and one.missing.not_over else ""
            names.setdefault(one.name, f"#{len(names) + 1}{star}")
        console.print("\n[bold]Runs[/bold]")
        for name, number in names.items():
            console.print(f"{number:>4}  {name}", markup=False)
        for sentence in missing_notes(runs):
            console.print(f"warning: {sentence}", markup=False)
        for sheet in made:
            console.print(f"\n[bold]{sheet.title}[/bold]")
            # Beyond the main results a terminal has no room for intervals; they are in the files.
            with_intervals = sheet.name in ("main", "paired")
            print_tables(console, sheet.tables(names, console.width, with_intervals))
    for path in (arguments.html, arguments.markdown, arguments.csv):
        if path is not None:
            note(f"written: {path}")
    return 0


def predictors(arguments: argparse.Namespace) -> dict[str, Callable[[], Predictor]]:
    """The readers of the command line, each made when it is needed. Raises ValueError for one that does not exist."""
    made: dict[str, Callable[[], Predictor]] = {}
    for name in arguments.readers:
        if name in PREDICTORS:
            made[name] = PREDICTORS[name]
        elif ":" not in name and name != "openai-compatible":
            known = ", ".join(PREDICTORS)
            raise ValueError(
                f"unknown reader {name!r}; expected {known}, or a model such as openai:NAME (folders come first)"
            )
        elif arguments.answers is None:
            raise ValueError(
                f"reader {name!r} is asked over the network: give --answers FILE to keep what it says"
            )
        else:
            made[name] = functools.partial(
                model_predictor,
                name,
                arguments.answers,
                **server_of(arguments),
            )
    return made


def swap_all(
    runs: Sequence[StoredRun], readers: Mapping[str, Callable[[], Predictor]], say: Say
) -> dict[str, list[Swap]]:
    """What each reader made of each run's canvases, by ``StoredRun.key``."""
    made: dict[str, list[Swap]] = {}
    for name, prepare in readers.items():
        say(f"reader {name}: preparing", 0, 0)
        predictor = prepare()
        for one in runs:
            if one.records and one.setting.source == "mnist":
                what = f"reader {name} on {one.name}"
                swapped = swap(one, predictor, lambda done, total, what=what: say(what, done, total))  # type: ignore[misc]
                made.setdefault(one.key, []).append(swapped)
    return made


def swap_sheets(runs: Sequence[StoredRun], swaps: Mapping[str, Sequence[Swap]]) -> list[Sheet]:
    """Tables of the predictor swap; none without any."""
    return [swap_sheet(runs, swaps), failures_sheet(runs, swaps)] if swaps else []


def as_json(runs: Sequence[StoredRun], made: Sequence[Sheet]) -> dict[str, Any]:
    """Everything that was measured."""
    listed = [
        {
            "name": one.name,
            "path": str(one.path),
            "level": one.setting.level,
            "writer": one.writer,
            "missing": None if one.missing is None else one.missing.as_dict(),
        }
        for one in runs
    ]
    return {"runs": listed, "tables": {sheet.name: sheet.json() for sheet in made}}


def _write(path: Path, text: str) -> None:
    with whole_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
