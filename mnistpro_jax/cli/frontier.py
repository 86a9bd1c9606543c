"""``mnistpro frontier``: accuracy against steps, beside the published agents."""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from pathlib import Path
from typing import Any

from mnistpro_jax.analysis import tables
from mnistpro_jax.analysis.frontier import CONFIDENCES, draw_frontier
from mnistpro_jax.cli.options import LARGEST_LEVEL, LARGEST_SEED, add_weights, confidence, episodes, whole
from mnistpro_jax.cli.terminal import CliError, note, progress, stdout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro frontier``."""
    parser.add_argument(
        "--level", type=whole(1, LARGEST_LEVEL), default=1, metavar="N", help="digits (default: 1)"
    )
    parser.add_argument(
        "--agents",
        nargs="+",
        default=["canvas", "planner", "glimpse", "observer"],
        metavar="NAME",
        help="see `mnistpro agents` (default: canvas planner glimpse observer)",
    )
    parser.add_argument(
        "--episodes",
        type=episodes,
        default=1000,
        metavar="N",
        help="how many of the test split to draw, or 'published' (default: 1000)",
    )
    parser.add_argument(
        "--confidence",
        type=confidence,
        nargs="+",
        default=None,
        metavar="P",
        help="thresholds of the sweep, 0 to 1 (default: 0.5 0.7 0.8 0.9 0.95 0.97 0.98 0.99 0.995 0.999)",
    )
    parser.add_argument(
        "--seed", type=whole(0, LARGEST_SEED), default=0, metavar="S", help="see evaluate (default: 0)"
    )
    add_weights(parser)
    parser.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="write the picture, a PNG, here"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    # These load JAX (see ``mnistpro_jax.cli``).
    from mnistpro_jax.agents.registry import has_confidence, is_learned, make_agent
    from mnistpro_jax.evaluation.evaluate import evaluate
    from mnistpro_jax.evaluation.request import EvaluationRequest, check

    agents = tuple(dict.fromkeys(arguments.agents))
    for agent in agents:
        if not has_confidence(agent):
            raise CliError(f"agent {agent!r} has no confidence to sweep; leave it out")
    if arguments.weights is not None and not any(is_learned(agent) for agent in agents):
        raise CliError(f"none of {', '.join(agents)} has trained weights; leave the folder of weights out")
    requests = {
        agent: EvaluationRequest(
            level=arguments.level,
            agent=agent,
            episodes=arguments.episodes,
            seed=arguments.seed,
            confidences=tuple(dict.fromkeys(arguments.confidence or CONFIDENCES)),
            # Agents without weights of their own keep their place beside the others.
            weights=arguments.weights if is_learned(agent) else None,
        )
        for agent in agents
    }
    # All that can be refused is refused before the first agent plays, which may take hours.
    for agent, request in requests.items():
        check(request)
        if is_learned(agent):
            make_agent(agent, weights=request.weights)
    if arguments.out is not None:
        _check_out(arguments.out)
    sweeps: dict[str, list[dict[str, Any]]] = {}
    with progress() as report:
        for agent, request in requests.items():
            sweeps[agent] = [run.summary for run in evaluate(request, report)]
    if arguments.out is not None:
        draw_frontier(arguments.out, arguments.level, sweeps)
    if arguments.json:
        print(json.dumps({"level": arguments.level, "agents": sweeps}, indent=2, allow_nan=False))
    else:
        for runs in sweeps.values():
            tables.print_runs(stdout(), runs)
    if arguments.out is not None:
        note(f"the picture is {arguments.out}")
    return 0


def _check_out(path: Path) -> None:
    """CliError for a picture that could not be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise CliError(f"--out: there is no folder {folder}")
    if path.is_dir():
        raise CliError(f"--out: {path} is a folder; expected the name of a PNG file")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise CliError(f"--out: cannot write to the folder {folder}: {error.strerror}") from None
    if importlib.util.find_spec("matplotlib") is None:
        raise CliError("the picture needs matplotlib: pip install matplotlib (or leave --out away)")
