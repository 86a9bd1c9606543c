"""The table of learned agents, over training seeds: ``python -m baselines.score --weights runs/w-0,runs/w-1``.

Every agent plays the same episodes with each folder of weights (``baselines.export --out FOLDER``); a row holds the
mean over the folders and, with more than one, the standard deviation between them. The row `full observability` is
what the reader reads of the whole canvases: from no memory to all of it in one table. Prints Markdown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path

import jax
import numpy as np
from absl import flags

from baselines.command import numbers, run
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.agents.registry import agent_names, is_learned, reads_with
from mnistpro_jax.cli.terminal import progress
from mnistpro_jax.evaluation import Evaluation, EvaluationRequest, Report, evaluate
from mnistpro_jax.metrics import path_entropy

FLAGS = flags.FLAGS
LEARNED = tuple(name for name in agent_names() if is_learned(name))
OBSERVED = "full observability"
HEAD = ("agent", "level", "confidence", "accuracy", "steps", "stroke seen", "path bits", "parameters")


@dataclasses.dataclass(frozen=True)
class Score:
    """One agent with one folder of weights. accuracy, steps, stroke_seen, path_bits: of its episodes; NaN where they
    do not exist. parameters: of its networks."""

    agent: str
    level: int
    confidence: float
    accuracy: float
    steps: float = float("nan")
    stroke_seen: float = float("nan")
    path_bits: float = float("nan")
    parameters: int = 0


def scores(
    agent: str,
    level: int,
    episodes: int,
    confidences: Sequence[float],
    weights: Path | None,
    report: Report | None = None,
) -> Iterable[Score]:
    """An agent's scores, one for each confidence; and, for one that reads canvases, its reader's on whole ones."""
    request = EvaluationRequest(
        level=level, agent=agent, episodes=episodes, confidences=tuple(confidences), weights=weights
    )
    for number, played in enumerate(evaluate(request, report)):
        summary = played.summary
        yield Score(
            agent,
            level,
            summary["confidence"],
            summary["accuracy"],
            summary["average_steps"],
            summary["stroke_coverage"],
            path_entropy(played.trajectories.kinds),
            parameters(agent, weights),
        )
        if number == 0 and played.control_correct is not None:
            yield _observed(played, weights)


def _observed(played: Evaluation, weights: Path | None) -> Score:
    accuracy = float(np.mean(played.control_correct))
    size = parameters("planner", weights)
    return Score(OBSERVED, played.settings.level, float("nan"), accuracy, parameters=size)


def parameters(agent: str, weights: Path | None = None) -> int:
    """How many numbers the agent's networks have learned, its reader's included."""
    reads_canvases = reads_with(agent) == "network"
    files = (["reader"] if reads_canvases else []) + ([] if agent == "planner" else [agent])
    trees = [shipped.load(name, weights)[0] for name in files]
    return sum(leaf.size for tree in trees for leaf in jax.tree.leaves(tree))


def table(rows: Iterable[Score]) -> str:
    """Scores as a Markdown table; those that differ in nothing but the weights become one row."""
    groups: dict[tuple[str, int, str], list[Score]] = {}
    for row in rows:
        key = (row.agent, row.level, "" if np.isnan(row.confidence) else f"{row.confidence:g}")
        groups.setdefault(key, []).append(row)
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for (agent, level, confidence), group in groups.items():
        cells = [f"`{agent}`" if agent in LEARNED else agent, str(level), confidence]
        cells += [
            spread([100 * row.accuracy for row in group], 2, " %"),
            spread([row.steps for row in group], 2),
            spread([100 * row.stroke_seen for row in group], 1, " %"),
            spread([row.path_bits for row in group], 2),
            f"{group[0].parameters:,}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def spread(values: list[float], digits: int, unit: str = "") -> str:
    """Mean and, of several values, the standard deviation between them (of a sample)."""
    if np.isnan(values).any():
        return ""
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean}{unit}" if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}{unit}"


def main() -> None:
    """Score."""
    folders = [Path(name) for name in FLAGS.weights] or [None]
    confidences = numbers(FLAGS.confidences)
    rows, seen = [], set()
    for level in numbers(FLAGS.levels):
        for agent in FLAGS.agents:
            for folder in folders:
                print(f"{agent}, level {level:g}, {folder or 'the weights in the package'}", flush=True)
                with progress() as report:
                    played = list(scores(agent, int(level), FLAGS.episodes, confidences, folder, report))
                for score in played:
                    # Several agents share a reader: its row comes once for each folder.
                    once = (score.agent, score.level, folder)
                    if score.agent != OBSERVED or once not in seen:
                        rows.append(score)
                    seen.add(once)
    print(table(rows))


if __name__ == "__main__":
    flags.DEFINE_list("agents", list(LEARNED), f"Some of {', '.join(LEARNED)}.")
    flags.DEFINE_list("levels", ["1", "2"], "Numbers of digits.")
    flags.DEFINE_list("confidences", [], "From which to answer; default: each agent's own.")
    flags.DEFINE_integer(
        "episodes", 10_000, "Episodes of the test split for each agent and confidence.", lower_bound=1
    )
    flags.DEFINE_list("weights", [], "Folders of weights, one a training seed; default: the package's.")
    run(main)
