"""Curves of several trainers in one picture: ``python -m experiments.trainers.plot OUT.png NAME=CURVE.csv ...``."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path


def plot(out: Path, curves: dict[str, Path]) -> None:
    """Accuracy and steps of an episode against steps trained. curves: CSV files (``Curve``) by the name to show."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, path in curves.items():
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        trained = [int(row["steps"]) / 1e6 for row in rows]
        left.plot(trained, [100 * float(row["accuracy"]) for row in rows], marker=".", label=name)
        right.plot(trained, [float(row["average_steps"]) for row in rows], marker=".", label=name)
    left.axhline(10, color="grey", linestyle=":", label="guessing")
    left.set(xlabel="steps trained, millions", ylabel="right answers, %", ylim=(0, 100))
    right.set(xlabel="steps trained, millions", ylabel="steps of an episode", ylim=(0, None))
    for axes in (left, right):
        axes.grid(alpha=0.3)
    left.legend()
    figure.savefig(out, dpi=120)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("out", type=Path, help="PNG to write")
    parser.add_argument("curves", nargs="+", metavar="NAME=CSV", help="a name and the file of its curve")
    arguments = parser.parse_args()
    named = [text.partition("=")[::2] for text in arguments.curves]
    plot(arguments.out, {name: Path(path) for name, path in named})
    print(arguments.out)


if __name__ == "__main__":
    main()
