"""What the commands share in talking to people: errors, notes, tables, progress."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from mnistpro_jax.evaluation.request import Report

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


class CliError(Exception):
    """A request that makes no sense; the message is all that the user sees."""


def print_what_can_be() -> None:
    """From here on the process prints "?" where its output cannot hold a letter, instead of ending with an error.

    That is so under PYTHONIOENCODING=ascii and in old locales; tables have ASCII lines there by themselves.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def stdout() -> Console:
    """A console for results."""
    # Not for help, versions and errors, which are there at once.
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def note(text: str) -> None:
    """A line for people, on standard error."""
    print(f"mnistpro: {text}", file=sys.stderr)


@contextlib.contextmanager
def progress() -> Iterator[Report]:
    """Says on standard error what is being done, on a terminal alone; what it drew is gone afterwards."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    # As above.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
    )
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None, count="")

        def report(what: str, done: int, total: int) -> None:
            # A task of its own for each thing that is done, so that the clock shows how long this one takes.
            nonlocal task
            if bar.tasks[-1].description != what:
                bar.remove_task(task)
                task = bar.add_task(what, total=total or None, count="")
            bar.update(task, completed=done, count=f"{done:,} of {total:,}" if total else "")

        yield report
