"""What the scripts of this folder share: options, and the learning curve as lines and as a CSV file."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import time
from pathlib import Path


def options(about: str, steps: int, seconds: str) -> argparse.ArgumentParser:
    """A parser with the options that every script has. steps: the default. seconds: how long that takes."""
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--steps", type=int, default=steps, help=f"steps of the environment ({seconds} on two CPU cores)"
    )
    parser.add_argument("--evaluations", type=int, default=20, help="points of the curve")
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
    parser.add_argument("--out", type=Path, default=None, help="CSV file for the curve")
    return parser


@dataclasses.dataclass
class Curve:
    """A learning curve that says each point as it comes. name: of the trainer. out: a CSV file or None."""

    name: str
    out: Path | None = None
    points: list[tuple[int, float, float, float]] = dataclasses.field(default_factory=list)
    began: float = dataclasses.field(default_factory=time.monotonic)

    def add(self, steps: int, accuracy: float, average_steps: float) -> None:
        """A point: steps trained, share of test episodes answered right, their average length in steps."""
        seconds = time.monotonic() - self.began
        self.points.append((int(steps), float(accuracy), float(average_steps), seconds))
        right = f"{100 * float(accuracy):5.1f} % right in {float(average_steps):5.1f} steps"
        print(f"{self.name}  {int(steps):>10,} steps  {right}  {seconds:6.0f} s", flush=True)

    def finish(self) -> None:
        """Write the CSV, if a file was given."""
        if self.out is None:
            return
        self.out.parent.mkdir(parents=True, exist_ok=True)
        with self.out.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["steps", "accuracy", "average_steps", "seconds"])
            for steps, accuracy, average, seconds in self.points:
                writer.writerow([steps, f"{accuracy:.4f}", f"{average:.3f}", f"{seconds:.1f}"])
        print(f"{self.out}")
