"""The frontier: accuracy against steps over a sweep of confidences, beside the published agents, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.data.whole_file import whole_file
from mnistpro_jax.worlds.published import PUBLISHED_FIGURES

CONFIDENCES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
"""Thresholds of a sweep unless others are given."""


def draw_frontier(path: Path, level: int, sweeps: Mapping[str, Sequence[dict[str, Any]]]) -> None:
    """Write a PNG: a line an agent through the runs of its sweep, the published agents as points.

    sweeps: summaries (``runs.summary.summarise``) by agent. Steps are on a logarithmic axis, from 1.
    Raises ModuleNotFoundError without matplotlib.
    """
    # An extra.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import FixedLocator, FormatStrFormatter, NullFormatter

    figure, (axis, close) = pyplot.subplots(1, 2, figsize=(11, 4.6), width_ratios=(3, 2))
    top: list[tuple[float, float]] = []
    for agent, runs in sweeps.items():
        runs = sorted(runs, key=lambda run: float(run["average_steps"]))
        steps = [run["average_steps"] for run in runs]
        accuracy = [100 * run["accuracy"] for run in runs]
        low = [100 * run["accuracy_ci95"][0] for run in runs]
        high = [100 * run["accuracy_ci95"][1] for run in runs]
        for panel in (axis, close):
            (line,) = panel.plot(steps, accuracy, marker="o", markersize=3.5, linewidth=1.4, label=agent)
            panel.fill_between(steps, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        best = max(accuracy)
        top += [(step, value) for step, value in zip(steps, accuracy, strict=True) if value >= best - 8]
    points = sorted(PUBLISHED_FIGURES.get(level, ()), key=lambda point: point.mean_steps)
    middle = sum(point.mean_steps for point in points) / max(1, len(points))
    for number, published in enumerate(points):
        axis.plot(
            published.mean_steps,
            published.accuracy_percent,
            marker="x",
            color="0.35",
            linestyle="none",
            label="published agents" if number == 0 else None,
        )
        # Names of neighbours at one height would run into each other: one line up for each on the way.
        level_with = [
            other for other in points[:number] if abs(other.accuracy_percent - published.accuracy_percent) < 3
        ]
        on_the_right = published.mean_steps > middle
        axis.annotate(
            f"{published.model}, {published.setting}",
            (published.mean_steps, published.accuracy_percent),
            textcoords="offset points",
            xytext=(-5 if on_the_right else 5, 5 + 9 * len(level_with)),
            ha="right" if on_the_right else "left",
            fontsize=6.5,
            color="0.35",
        )
    for panel in (axis, close):
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(FixedLocator([1, 2, 3, 5, 10, 20, 40, 80]))
        panel.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.set_xlabel("steps an episode, the answer included")
        panel.grid(visible=True, linewidth=0.4, alpha=0.5)
    axis.set_ylabel("accuracy, %")
    axis.set_title(f"MNIST-PRO level {level}")
    # The upper end again, where the agents differ.
    close.set_title("the same, the upper end")
    close.set_xlim(0.9 * min(step for step, _ in top), 1.1 * max(step for step, _ in top))
    close.set_ylim(min(value for _, value in top) - 0.5, min(100.3, max(value for _, value in top) + 1))
    handles, labels = axis.get_legend_handles_labels()
    close.legend(handles, labels, loc="lower right", fontsize=8)
    figure.tight_layout()
    with whole_file(path) as unfinished:
        figure.savefig(unfinished, format="png", dpi=130)
    pyplot.close(figure)
