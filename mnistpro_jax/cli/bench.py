"""``mnistpro bench``: its options, and its tables."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from mnistpro_jax.benchmark import BATCHES, OBSERVATIONS, measure, short_rate
from mnistpro_jax.cli.terminal import stdout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of ``mnistpro bench``."""
    parser.add_argument("--level", type=int, default=1, help="number of digits (default: 1)")
    parser.add_argument(
        "--observations",
        nargs="+",
        choices=OBSERVATIONS,
        default=list(OBSERVATIONS),
        metavar="MODE",
        help=f"observation modes to measure, of {', '.join(OBSERVATIONS)} (default: all)",
    )
    parser.add_argument(
        "--batches",
        nargs="+",
        type=int,
        default=list(BATCHES),
        metavar="N",
        help="environments side by side (default: " + " ".join(map(str, BATCHES)) + ")",
    )
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="length of one timed run, seconds (default: 1.0)"
    )
    parser.add_argument(
        "--repeats", type=int, default=5, help="timed runs, of which the median counts (default: 5)"
    )
    parser.add_argument(
        "--split", choices=("train", "test"), default="test", help="MNIST split (default: test)"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, nothing else"
    )


def run(args: argparse.Namespace) -> int:
    """Measure, print, and return the exit code."""
    for name, values in (
        ("--batches", args.batches),
        ("--repeats", [args.repeats]),
        ("--level", [args.level]),
    ):
        if min(values) < 1:
            raise ValueError(f"{name} is {min(values)}; expected 1 or more")
    if args.seconds <= 0:
        raise ValueError(f"--seconds is {args.seconds}; expected more than 0")
    report = measure(
        args.level,
        tuple(args.observations),
        tuple(args.batches),
        args.seconds,
        args.repeats,
        args.split,
        _say,
    )
    if args.json:
        print(json.dumps(report))
    else:
        _print_tables(report)
    return 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print_tables(report: dict[str, Any]) -> None:
    from rich.table import Table

    console = stdout()
    device = report["device"]
    where = device["cpu"] if device["platform"] == "cpu" else device["kind"]
    console.print(
        f"Level {report['level']} on {where} ({device['cores']} cores), jax {report['versions']['jax']}.\n"
        f"The loop, one episode at a time drawn with Pillow: {report['reference_steps_per_s']:,} steps/s."
    )
    for mode, result in report["modes"].items():
        sizes = result["bytes"]
        console.print(f"{mode}: {sizes['observation']:,} bytes an observation, {sizes['state']:,} a state")
    # "+ final": info["final_observation"] is stored on every step too. "short": so, with uniformly random actions.
    table = Table(title="Steps a second, everything tracked, auto-reset on")
    table.add_column("mode")
    for name in ("batch", "steps/s", "x loop", "+ final", "x loop", "short", "compile"):
        table.add_column(name, justify="right")
    for mode, result in report["modes"].items():
        for number, (batch, row) in enumerate(result["batches"].items()):
            head = mode if number == 0 else ""
            if "skipped" in row:
                table.add_row(head, f"{int(batch):,}", "-", "-", "-", "-", "-", "-")
                continue
            table.add_row(
                head,
                f"{int(batch):,}",
                short_rate(row["steps_per_s"]),
                f"{row['vs_reference']:,.0f}",
                short_rate(row["with_final_observation"]),
                f"{row['with_final_vs_reference']:,.0f}",
                short_rate(row["short_episodes"]),
                f"{row['compile_s']:.1f} s",
            )
        table.add_section()
    console.print(table)
