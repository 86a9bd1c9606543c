"""The figures of the report, each from stored episodes: accuracy against steps, what was seen, how episodes ended."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

import numpy as np

from mnistpro_jax.analysis import plots
from mnistpro_jax.analysis.coverage import BINS, in_bin, least_seen
from mnistpro_jax.analysis.estimates import proportion
from mnistpro_jax.analysis.failures import FAILURES, failures
from mnistpro_jax.analysis.stopping import budget_left
from mnistpro_jax.analysis.swap import Swap
from mnistpro_jax.env.types import Ending
from mnistpro_jax.render.seen import coverage_along
from mnistpro_jax.runs.canvases import canvases
from mnistpro_jax.runs.stored import StoredRun
from mnistpro_jax.worlds.published import PUBLISHED_FIGURES

_ALONG = 1000  # episodes that the curve of coverage is drawn from
_FEWEST = 5  # episodes below which a coverage group has no point


def level_figures(level: int, runs: Sequence[StoredRun], swaps: Mapping[str, Sequence[Swap]]) -> str:
    """HTML of all figures of one level. runs: those of the level, with counted episodes."""
    names = [run.name for run in runs]
    figures = [
        (
            "Accuracy against steps",
            "Numbered crosses: published agents." if level in PUBLISHED_FIGURES else "",
            accuracy_against_steps(level, runs) + _note(_about_rings(runs)),
        ),
        ("Stroke seen along the episode", "Ended episodes keep what they saw.", seen_along(runs)),
        (
            "Accuracy by what was seen",
            "Episodes by the digit that was seen least.",
            accuracy_by_coverage(runs) + _note(_left_out(runs)),
        ),
        ("When it was answered", "Each answer; hollow ones are wrong.", stopping(runs)),
    ]
    cards = "".join(
        f"<figure><figcaption><b>{title}</b> {note}</figcaption>{drawn}</figure>"
        for title, note, drawn in figures
    )
    readers = {run.key: [one for one in swaps.get(run.key, ()) if one.counted.all()] for run in runs}
    with_reasons = all(readers.values())
    rows = [(run.name, _parts(run, readers[run.key] if with_reasons else ())) for run in runs]
    parts = ("right", *FAILURES) if with_reasons else ("right", "answered wrong", "no answer")
    lacking = any(run.missing for run in runs)
    if lacking:
        parts = (*parts, "missing: not over, or not counted")
        rows = [
            (name, [*counts, run.missing.missing if run.missing else 0])
            for run, (name, counts) in zip(runs, rows, strict=True)
        ]
    bars = plots.stacked_bars(rows, parts, missing=lacking) + plots.legend(parts, "k", missing=lacking)
    cards += f"<figure class=full><figcaption><b>How episodes came out</b></figcaption>{bars}</figure>"
    return plots.legend(names) + f'<div class="figures">{cards}</div>'


def accuracy_against_steps(level: int, runs: Sequence[StoredRun]) -> str:
    """A dot a run with its interval, the published agents as numbered crosses with their names below.

    A run that lacks episodes is a ring, on a dashed line along all that its accuracy can still be.
    """
    published = PUBLISHED_FIGURES.get(level, ())
    steps = [float(run.outcomes.steps.mean()) for run in runs]
    largest = max([*steps, *(figure.mean_steps for figure in published)])
    plot = plots.Plot(
        plots.steps_axis(largest, "average steps, the answer included"),
        plots.percent_axis("accuracy, %"),
    )
    names = [
        f"{figure.model}, {figure.setting}: {figure.accuracy_percent:g}\u00a0%\u00a0@\u00a0{figure.mean_steps:g}"
        for figure in published
    ]
    for number, figure in enumerate(published, start=1):
        plot.cross(figure.mean_steps, figure.accuracy_percent / 100, number, names[number - 1])
    for number, (run, at) in enumerate(zip(runs, steps, strict=True)):
        accuracy = proportion(run.outcomes.correct)
        assert accuracy.value is not None and accuracy.low is not None and accuracy.high is not None
        plot.bar(at, accuracy.low, accuracy.high, number)
        name = f"{run.name}: {accuracy.value:.1%} @ {at:.2f} steps"
        if run.missing is None:
            plot.dot(at, accuracy.value, number, name, radius=5.5)
        else:
            plot.bar(at, *run.missing.bounds, number, dashed=f"{run.name}: {run.missing.sentence}")
            plot.dot(at, accuracy.value, number, name, radius=5.5, opacity=0.0, ring=True)
    return plot.svg("accuracy against average steps") + plots.crosses(names)


def _about_rings(runs: Sequence[StoredRun]) -> str:
    if not any(run.missing for run in runs):
        return ""
    return (
        "Rings: runs that lack episodes. The dashed line goes from the accuracy of all with the missing ones wrong to "
        "that with them right."
    )


def _note(text: str) -> str:
    """A paragraph below a figure, so that the figures of a row begin on one line."""
    return f'<p class="note">{html.escape(text)}</p>' if text else ""


def seen_along(runs: Sequence[StoredRun]) -> str:
    """Mean stroke coverage after each observation."""
    curves = [_coverage_curve(run) for run in runs]
    longest = max(len(curve) for curve in curves)
    low = max(0.0, min(curve[0] for curve in curves) - 0.05)
    plot = plots.Plot(
        plots.steps_axis(longest, "observations"), plots.percent_axis("stroke seen, %", low=round(low, 1))
    )
    for number, (run, curve) in enumerate(zip(runs, curves, strict=True)):
        points = [(step, share) for step, share in enumerate(curve, start=1)]
        plot.line(points if len(points) > 1 else [*points, (1.05, points[0][1])], number, run.name)
        plot.dot(*points[-1], number, f"{run.name}: {curve[-1]:.1%} at the end", radius=3.5)
    return plot.svg("mean stroke coverage after each observation")


def _coverage_curve(run: StoredRun) -> list[float]:
    chosen = run.records[:_ALONG]
    along = [
        coverage_along(canvas, record["windows"], run.setting.window) for record, canvas in canvases(chosen)
    ]
    longest = max(map(len, along))
    filled = np.asarray([shares + [shares[-1]] * (longest - len(shares)) for shares in along])
    curve: list[float] = filled.mean(axis=0).tolist()
    return curve


def _left_out(runs: Sequence[StoredRun]) -> str:
    """Which coverage groups have too few episodes to be drawn, in words; "" where there is none."""
    said = []
    for run in runs:
        least = least_seen(run.outcomes)
        counts = [int(in_bin(least, number).sum()) for number in range(len(BINS) - 1)]
        few = [f"{_group(number)} ({count})" for number, count in enumerate(counts) if 0 < count < _FEWEST]
        said += [f"{run.name}: {', '.join(few)}"] if few else []
    return f"Not drawn, with fewer than {_FEWEST} episodes: {'; '.join(said)}." if said else ""


def _group(number: int) -> str:
    return f"{100 * BINS[number]:g} to {100 * BINS[number + 1]:g}"


def accuracy_by_coverage(runs: Sequence[StoredRun]) -> str:
    """A line a run over the coverage groups; groups of few episodes have no point (``_left_out`` names them)."""
    groups = range(len(BINS) - 1)
    ticks = tuple((number + 0.5, _group(number)) for number in groups)
    plot = plots.Plot(
        plots.Axis(0, len(groups), ticks, "stroke of the least seen digit, %"),
        plots.percent_axis("accuracy, %"),
    )
    for series, run in enumerate(runs):
        outcomes = run.outcomes
        least = least_seen(outcomes)
        points = []
        for number in groups:
            chosen = in_bin(least, number)
            if chosen.sum() >= _FEWEST:
                accuracy = proportion(outcomes.correct[chosen])
                assert accuracy.value is not None and accuracy.low is not None and accuracy.high is not None
                # Side by side, so that intervals of several runs do not hide each other.
                at = number + 0.5 + 0.06 * (series - (len(runs) - 1) / 2)
                points.append((at, accuracy.value))
                plot.bar(at, accuracy.low, accuracy.high, series)
                plot.dot(
                    at,
                    accuracy.value,
                    series,
                    f"{run.name}: {accuracy.value:.1%} of {int(chosen.sum()):,}",
                    4,
                )
        if len(points) > 1:
            plot.line(points, series, run.name)
    return plot.svg("accuracy by coverage of the least seen digit")


def stopping(runs: Sequence[StoredRun]) -> str:
    """Every answer: budget left against coverage of the least seen digit."""
    plot = plots.Plot(
        plots.percent_axis("stroke of the least seen digit, %"),
        plots.percent_axis("budget left at the answer, %"),
    )
    for series, run in enumerate(runs):
        outcomes = run.outcomes
        left = budget_left(run, outcomes)
        least = least_seen(outcomes)
        for row in np.flatnonzero(outcomes.ending == Ending.ANSWERED)[:_ALONG]:
            right = bool(outcomes.correct[row])
            name = f"{run.name}, episode {run.records[row]['episode']}: {'right' if right else 'wrong'}"
            plot.dot(
                float(least[row]), float(left[row]), series, name, 3.2, 0.5 if right else 0.0, ring=not right
            )
    return plot.svg("budget left against what was seen when it was answered")


def _parts(run: StoredRun, swaps: Sequence[Swap]) -> list[int]:
    outcomes = run.outcomes
    right = int(outcomes.correct.sum())
    if swaps:
        return [right, *(int(flags.sum()) for flags in failures(run, swaps[0]).values())]
    answered = outcomes.ending == Ending.ANSWERED
    return [right, int((answered & ~outcomes.correct).sum()), int((~answered & ~outcomes.correct).sum())]
