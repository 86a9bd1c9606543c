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

from baselines.command import each_once, exact, numbers, run, whole_numbers
from mnistpro_jax.agents import agent_names, make_agent
from mnistpro_jax.agents.learned import shipped
from mnistpro_jax.agents.registry import is_learned, reads_with
from mnistpro_jax.cli.options import LARGEST_LEVEL
from mnistpro_jax.cli.terminal import progress
from mnistpro_jax.evaluation.evaluate import Evaluation, evaluate
from mnistpro_jax.evaluation.request import EvaluationRequest, Report
from mnistpro_jax.rollouts.metrics import path_entropy

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
    accuracy = float(np.mean(np.asarray(played.control_correct)))
    size = parameters("planner", weights)
    return Score(OBSERVED, played.settings.level, float("nan"), accuracy, parameters=size)


def parameters(agent: str, weights: Path | None = None) -> int:
    """How many numbers the agent's networks have learned, its reader's included."""
    trees = [shipped.load(name, weights)[0] for name in networks(agent)]
    return sum(leaf.size for tree in trees for leaf in jax.tree.leaves(tree))


def networks(agent: str) -> list[str]:
    """The files of weights that a learned agent plays with, its own last."""
    return (["reader"] if reads_with(agent) == "network" else []) + ([] if agent == "planner" else [agent])


def check(agents: Sequence[str], folders: Sequence[Path | None]) -> None:
    """ValueError, before anything plays, for agents that did not learn, for weights that are not there or do not fit,
    and for two folders that are one training run."""
    if not agents:
        raise ValueError(f"there is no agent to score; expected some of {', '.join(LEARNED)}")
    for agent in agents:
        if agent not in LEARNED:
            raise ValueError(f"{agent!r} is no learned agent; expected some of {', '.join(LEARNED)}")
    each_once("--agents", agents)
    for agent in agents:
        runs: dict[str, Path] = {}
        for folder in folders:
            make_agent(agent, weights=folder)
            if folder is None:
                continue
            same = runs.setdefault(_digest(networks(agent)[-1], folder), folder)
            if same is not folder:
                raise ValueError(
                    f"--weights: {agent!r} has the same weights in {same} and in {folder}; name each training run once"
                )


def _digest(network: str, folder: Path | None) -> str:
    return shipped.fingerprint(shipped.load(network, folder)[0])


def table(rows: Iterable[Score]) -> str:
    """Scores as a Markdown table; those that differ in nothing but the weights become one row."""
    groups: dict[tuple[str, int, float | None], list[Score]] = {}
    for row in rows:
        key = (row.agent, row.level, None if np.isnan(row.confidence) else row.confidence)
        groups.setdefault(key, []).append(row)
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    for (agent, level, confidence), group in groups.items():
        shown = "" if confidence is None else exact(confidence)
        cells = [f"`{agent}`" if agent in LEARNED else agent, str(level), shown]
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
    folders: list[Path | None] = [Path(name) for name in FLAGS.weights] or [None]
    confidences = numbers(FLAGS.confidences)
    levels = whole_numbers(FLAGS.levels, 1, LARGEST_LEVEL)
    if not levels:
        raise ValueError("--levels is empty; expected numbers of digits, as in 1,2")
    check(FLAGS.agents, folders)
    rows, seen = [], set()
    for level in levels:
        for agent in FLAGS.agents:
            for folder in folders:
                print(f"{agent}, level {level}, {folder or 'the weights in the package'}", flush=True)
                with progress() as report:
                    played = list(scores(agent, level, FLAGS.episodes, confidences, folder, report))
                for score in played:
                    if score.agent == OBSERVED:
                        # Several agents, and several runs of one, may share a reader: its row is of readers.
                        once = (level, _digest("reader", folder))
                        if once in seen:
                            continue
                        seen.add(once)
                    rows.append(score)
    print(table(rows))


if __name__ == "__main__":
    flags.DEFINE_list("agents", list(LEARNED), f"Some of {', '.join(LEARNED)}.")
    flags.DEFINE_list("levels", ["1", "2"], f"Numbers of digits, 1 to {LARGEST_LEVEL}.")
    flags.DEFINE_list("confidences", [], "From which to answer, 0 or more; default: each agent's own.")
    flags.DEFINE_integer(
        "episodes", 10_000, "Episodes of the test split for each agent and confidence.", lower_bound=1
    )
    flags.DEFINE_list("weights", [], "Folders of weights, one a training seed; default: the package's.")
    run(main)
