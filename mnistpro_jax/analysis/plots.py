"""The report's plots, as SVG text made here: nothing to install, crisp at any size, and they follow the page's colours.

Colours are the CSS variables --s0 to --s7 of the page (a series each), --ink, --faint and --rule.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Sequence

SERIES = 8
_MISSING = 6  # the colour of what is not there
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 14, 12, 44


def colour(number: int) -> str:
    """The colour of a series."""
    return f"var(--s{number % SERIES})"


@dataclasses.dataclass(frozen=True)
class Axis:
    """low, high: ends. ticks: (position, text). label: below or beside it. log: logarithmic."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    label: str
    log: bool = False

    def share(self, value: float) -> float:
        """Where a value lies, 0..1 within the axis."""
        low, high, at = (
            (self.low, self.high, value)
            if not self.log
            else tuple(map(math.log, (self.low, self.high, value)))
        )
        return (at - low) / (high - low)


def percent_axis(label: str, low: float = 0.0, high: float = 1.0) -> Axis:
    """0 to 100 %, or a part of it."""
    step = 0.2 if high - low > 0.5 else 0.1 if high - low > 0.2 else 0.05
    first = math.ceil(low / step - 1e-9)
    ticks = [round(step * k, 4) for k in range(first, int(high / step + 1e-9) + 1)]
    return Axis(low, high, tuple((tick, f"{100 * tick:g}") for tick in ticks), label)


def steps_axis(largest: float, label: str) -> Axis:
    """Steps on a logarithmic axis, from 1."""
    ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if tick <= 1.15 * largest]
    return Axis(0.9, max(2.2, 1.2 * largest), tuple((tick, str(tick)) for tick in ticks), label, log=True)


class Plot:
    """One plot: ``marks`` are added, ``svg`` is the whole. Sizes in pixels, which the page may scale."""

    def __init__(self, x: Axis, y: Axis, width: int = 520, height: int = 320) -> None:
        self._x, self._y, self._width, self._height = x, y, width, height
        self._marks: list[str] = []

    def _at(self, x: float, y: float) -> tuple[float, float]:
        across = self._width - _LEFT - _RIGHT
        down = self._height - _TOP - _BOTTOM
        return _LEFT + across * self._x.share(x), _TOP + down * (1 - self._y.share(y))

    def line(self, points: Sequence[tuple[float, float]], series: int, name: str) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (self._at(*point) for point in points))
        self._marks.append(
            f'<polyline points="{path}" fill="none" style="stroke:{colour(series)}" stroke-width="2" '
            f'stroke-linejoin="round"><title>{html.escape(name)}</title></polyline>'
        )

    def dot(
        self,
        x: float,
        y: float,
        series: int,
        name: str,
        radius: float = 5,
        opacity: float = 1.0,
        ring: bool = False,
    ) -> None:
        """A circle, filled unless it is a ring."""
        left, top = self._at(x, y)
        edge = f";stroke:{colour(series)};stroke-width:1.6" if ring else ""
        self._marks.append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="{radius:g}" style="fill:{colour(series)}{edge}" '
            f'fill-opacity="{opacity:g}"><title>{html.escape(name)}</title></circle>'
        )

    def cross(self, x: float, y: float, number: int, name: str) -> None:
        """A small grey cross, what others published, with its number beside it (``crosses``)."""
        left, top = self._at(x, y)
        arms = f"M{left - 4:.1f},{top - 4:.1f}l8,8m0,-8l-8,8"
        self._marks.append(
            f'<path d="{arms}" style="stroke:var(--faint)" stroke-width="1.5"><title>{html.escape(name)}</title></path>'
            f'<text class="number" x="{left + 7:.1f}" y="{top - 5:.1f}">{number}</text>'
        )

    def bar(self, x: float, low: float, high: float, series: int, dashed: str = "") -> None:
        """An error bar along y. dashed: what it is where it is none, but the range of what is not known yet."""
        left, bottom = self._at(x, low)
        top = self._at(x, high)[1]
        dashes = f' stroke-dasharray="2 4"><title>{html.escape(dashed)}</title></line>' if dashed else "/>"
        self._marks.append(
            f'<line x1="{left:.1f}" x2="{left:.1f}" y1="{bottom:.1f}" y2="{top:.1f}" '
            f'style="stroke:{colour(series)}" stroke-width="1.5" stroke-opacity="{1 if dashed else 0.6}"{dashes}'
        )

    def svg(self, name: str) -> str:
        """The plot. name: what it shows, for those who cannot see it."""
        right, bottom = self._width - _RIGHT, self._height - _BOTTOM
        parts = [
            f'<svg class="plot" viewBox="0 0 {self._width} {self._height}" role="img" aria-label="{html.escape(name)}">'
        ]
        for value, text in self._y.ticks:
            top = self._at(self._x.low, value)[1]
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{top:.1f}" y2="{top:.1f}"/>')
            parts.append(
                f'<text class="tick" x="{_LEFT - 8}" y="{top + 4:.1f}" text-anchor="end">{text}</text>'
            )
        for value, text in self._x.ticks:
            left = self._at(value, self._y.low)[0]
            parts.append(f'<line class="grid" x1="{left:.1f}" x2="{left:.1f}" y1="{_TOP}" y2="{bottom}"/>')
            parts.append(
                f'<text class="tick" x="{left:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>'
            )
        parts.append(
            f'<text class="axis" x="{(_LEFT + right) / 2:.0f}" y="{self._height - 6}" text-anchor="middle">'
            f"{html.escape(self._x.label)}</text>"
        )
        middle = (_TOP + bottom) / 2
        parts.append(
            f'<text class="axis" x="14" y="{middle:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 14 {middle:.0f})">{html.escape(self._y.label)}</text>'
        )
        return "".join([*parts, *self._marks, "</svg>"])


def crosses(names: Sequence[str]) -> str:
    """What the numbered crosses of a plot are, from 1."""
    items = "".join(
        f"<li><b>{number}</b>{html.escape(name)}</li>" for number, name in enumerate(names, start=1)
    )
    return f'<ul class="crosses">{items}</ul>' if items else ""


def _shortened(text: str, limit: int = 44) -> str:
    """A text of at most ``limit`` characters, cut in its middle: names differ at their ends."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[: limit - half - 1]}\u2026{text[-half:]}"


def stacked_bars(
    rows: Sequence[tuple[str, Sequence[int]]], names: Sequence[str], width: int = 1090, missing: bool = False
) -> str:
    """One bar a row, cut into shares of the row's sum.

    rows: (text, counts by ``names``). missing: whether the last part is what is not there.
    """
    label, height, gap = 310, 20, 8
    parts = [f'<svg class="plot wide" viewBox="0 0 {width} {len(rows) * (height + gap)}" role="img">']
    for number, (text, counts) in enumerate(rows):
        top, left = number * (height + gap), float(label)
        parts.append(
            f'<text class="tick" x="{label - 10}" y="{top + 15}" text-anchor="end">{html.escape(_shortened(text))}'
            f"<title>{html.escape(text)}</title></text>"
        )
        total = max(1, sum(counts))
        for part, count in enumerate(counts):
            across = (width - label) * count / total
            if not count:
                continue
            lacks = missing and part == len(names) - 1
            kind = _MISSING if lacks else part
            title = f"{names[part]}: {count:,} of {total:,} ({count / total:.1%})"
            parts.append(
                f'<rect x="{left:.2f}" y="{top}" width="{across:.2f}" height="{height}" class="k{kind}">'
                f"<title>{html.escape(title)}</title></rect>"
            )
            if across > 34:
                middle = left + across / 2
                parts.append(
                    f'<text class="{"out" if lacks else "in"}" x="{middle:.1f}" y="{top + 14.5}" '
                    f'text-anchor="middle">{count:,}</text>'
                )
            left += across
    return "".join([*parts, "</svg>"])


def legend(names: Sequence[str], kind: str = "s", missing: bool = False) -> str:
    """Names with their colours. kind: "s" series, "k" parts of a bar. missing: as of ``stacked_bars``."""
    numbers = list(range(len(names)))
    if missing:
        numbers[-1] = _MISSING
    rims = [" class=rim" if missing and number == _MISSING else "" for number in numbers]
    dots = [
        f'<i{rim} style="background:var(--{kind}{number % SERIES})"></i>'
        for number, rim in zip(numbers, rims, strict=True)
    ]
    items = "".join(f"<li>{dot}{html.escape(name)}</li>" for dot, name in zip(dots, names, strict=True))
    return f'<ul class="legend">{items}</ul>'
