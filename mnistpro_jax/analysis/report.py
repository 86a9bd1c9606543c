"""The report: one HTML file with tables, plots and episodes to click through, and nothing outside it."""

from __future__ import annotations

import html
import importlib.resources
import json
from collections.abc import Mapping, Sequence

import mnistpro_jax
from mnistpro_jax.analysis.by_run import missing_notes
from mnistpro_jax.analysis.figures import level_figures
from mnistpro_jax.analysis.sheet import Sheet
from mnistpro_jax.analysis.swap import Swap
from mnistpro_jax.analysis.trajectories import viewer_data
from mnistpro_jax.runs.stored import StoredRun

_VIEWER = """
<dialog id="viewer"><header><h3 id="title"></h3><button id="close">close</button></header>
<canvas id="stage"></canvas>
<div class="controls"><button id="previous" title="the episode before">&laquo;</button>
<button id="back" title="one step back">&lsaquo;</button><button id="play">play</button>
<button id="forward" title="one step on">&rsaquo;</button><button id="next" title="the next episode">&raquo;</button>
<input type="range" id="step" min="0" value="0" aria-label="step">
<label><input type="checkbox" id="hidden"> what was hidden</label></div>
<div><b id="now"></b> <span class="note">(<span id="outcome"></span>)</span></div><div id="said"></div></dialog>
"""


def report(
    runs: Sequence[StoredRun],
    sheets: Sequence[Sheet],
    swaps: Mapping[str, Sequence[Swap]],
    *,
    title: str = "MNIST-PRO runs",
    trajectories: int = 100,
) -> str:
    """The whole page. swaps: by ``StoredRun.key``, may be empty. trajectories: episodes a run to click through.

    Raises DataError where the images of the episodes are not there.
    """
    counted = [run for run in runs if run.records]
    levels = sorted({run.setting.level for run in counted})
    sections = []
    links = []
    for level in levels:
        here = [run for run in counted if run.setting.level == level]
        links.append(f'<a href="#level-{level}">level {level}</a>')
        sections.append(
            f'<h2 id="level-{level}">Level {level}: {level} digit{"s" if level > 1 else ""}</h2>'
            + level_figures(level, here, swaps)
        )
    sections.append('<h2 id="tables">Tables</h2>')
    for sheet in sheets:
        links.append(f'<a href="#{sheet.name}">{html.escape(sheet.title.lower())}</a>')
        sections.append(
            f'<h3 id="{sheet.name}">{html.escape(sheet.title)}</h3><p class="about">{html.escape(sheet.about)}</p>'
            f'<div class="scroll">{sheet.html()}</div>'
        )
    if trajectories:
        links.append('<a href="#trajectories">trajectories</a>')
        sections.append(_trajectories(counted, trajectories))
    sections.append(_sources(runs))
    episodes = sum(len(run.records) for run in runs)
    style = _file("style.css")
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in missing_notes(runs))
    warning = f'<div class="warning">{notes}</div>' if notes else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{style}</style></head><body><main>"
        f"<h1>{html.escape(title)}</h1>"
        f'<p class="about">{len(runs)} run{"s" if len(runs) != 1 else ""}, {episodes:,} counted episodes. '
        f"Made by mnistpro_jax {mnistpro_jax.__version__} from stored episodes alone.</p>"
        f"{warning}<nav>{''.join(links)}</nav>{''.join(sections)}</main></body></html>\n"
    )


def _trajectories(runs: Sequence[StoredRun], limit: int) -> str:
    parts = [
        '<h2 id="trajectories">Trajectories</h2><p class="about">Click an episode to go through it step by step '
        "(arrow keys, space). Pale: never seen. Blue: where it began; orange: where it ended.</p>"
    ]
    for number, run in enumerate(runs):
        shown = min(limit, len(run.records))
        right = int(run.outcomes.correct.sum())
        of = f"{shown} of {len(run.records):,}" if shown < len(run.records) else f"{shown}"
        parts.append(
            f'<details data-run="{number}"{" open" if number == 0 else ""}><summary>{html.escape(run.name)}, level '
            f"{run.setting.level}<span>{of} episodes, {right:,} of {len(run.records):,} right</span></summary>"
            '<div class="filters"><button data-kind="all">all</button><button data-kind="right">right</button>'
            '<button data-kind="wrong">not right</button></div>'
            f'<div class="thumbs" style="--digits:{run.setting.level}"></div></details>'
        )
    # "</script" ends a script element, and "<!-- <script" keeps it from ending: no "<" may stand in it at all.
    stored = json.dumps(viewer_data(runs, limit), separators=(",", ":")).replace("<", "\\u003c")
    parts.append(f'{_VIEWER}<script type="application/json" id="episodes">{stored}</script>')
    parts.append(f"<script>{_file('viewer.js')}</script>")
    return "".join(parts)


def _sources(runs: Sequence[StoredRun]) -> str:
    """Where each run came from, with its whole setting."""
    rows = "".join(
        f"<tr><td>{html.escape(run.name)}</td><td class=n>{run.setting.level}</td><td>{html.escape(run.path.name)}</td>"
        f"<td>{html.escape(_world(run))}</td></tr>"
        for run in runs
    )
    return (
        '<h2 id="runs">Runs</h2><div class="scroll"><table><thead><tr><th>run</th><th class=n>level</th><th>folder</th>'
        f"<th>setting</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _world(run: StoredRun) -> str:
    setting = run.setting
    words = [
        f"window {setting.window} px, stride {setting.stride} px, budget {setting.budget}",
        "outline" if setting.outline else "no outline",
        f"{setting.episode_list} episodes of {setting.source} {setting.split}",
        f"seed {run.seed}",
        *(f"{name} {value}" for name, value in setting.others),
    ]
    return "; ".join(words)


def _file(name: str) -> str:
    return (importlib.resources.files("mnistpro_jax.analysis") / "page" / name).read_text(encoding="utf-8")
