"""The frontier: accuracy against steps over a sweep of confidences, beside the published agents, as a picture."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.worlds.published import PUBLISHED_FIGURES

CONFIDENCES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
"""Thresholds of a sweep unless others are given."""


def draw_frontier(path: Path, level: int, sweeps: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Write a PNG: a line an agent through the runs of its sweep, the published agents as points.

    sweeps: summaries (``analysis.summary.summarise``) by agent. Steps are on a logarithmic axis, from 1.
    Raises ModuleNotFoundError without matplotlib.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullFormatter

    figure, axis = pyplot.subplots(figsize=(8, 5))
    for agent, runs in sweeps.items():
        runs = sorted(runs, key=lambda run: float(run["average_steps"]))
        steps = [run["average_steps"] for run in runs]
        accuracy = [100 * run["accuracy"] for run in runs]
        (line,) = axis.plot(steps, accuracy, marker="o", markersize=3.5, linewidth=1.4, label=agent)
        low = [100 * run["accuracy_ci95"][0] for run in runs]
        high = [100 * run["accuracy_ci95"][1] for run in runs]
        axis.fill_between(steps, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    for number, figure_of in enumerate(PUBLISHED_FIGURES.get(level, ())):
        axis.plot(
            figure_of.mean_steps,
            figure_of.accuracy_percent,
            marker="x",
            color="0.35",
            linestyle="none",
            label="published agents" if number == 0 else None,
        )
        axis.annotate(
            f"{figure_of.model}, {figure_of.setting}",
            (figure_of.mean_steps, figure_of.accuracy_percent),
            textcoords="offset points",
            xytext=(-5, 5),
            ha="right",
            fontsize=6.5,
            color="0.35",
        )
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(FixedLocator([1, 2, 3, 5, 10, 20, 40, 80]))
    axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("steps an episode, the answer included")
    axis.set_ylabel("accuracy, %")
    axis.set_title(f"MNIST-PRO level {level}")
    axis.grid(visible=True, linewidth=0.4, alpha=0.5)
    axis.legend(loc="lower right", fontsize=8)
    figure.tight_layout()
    unfinished = path.with_name(path.name + ".part")
    figure.savefig(unfinished, format="png", dpi=130)
    pyplot.close(figure)
    os.replace(unfinished, path)
