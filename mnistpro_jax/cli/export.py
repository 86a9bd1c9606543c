"""``mnistpro export``: play episodes and write them as a Minari data set."""

from __future__ import annotations

import argparse
import json

from mnistpro_jax.cli.options import add_episodes, add_speed, request_of
from mnistpro_jax.cli.terminal import CliError, progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro export``."""
    parser.add_argument(
        "dataset_id", metavar="ID", help="Minari's id of the new data set, such as mnistpro/observer-v0"
    )
    parser.add_argument(
        "--observation",
        choices=("packed", "glimpse", "canvas", "canvas_full", "published"),
        default="packed",
        metavar="MODE",
        help="what the data set shows, as `mnistpro envs` describes it (default: packed)",
    )
    parser.add_argument(
        "--flatten", action="store_true", help="store one float32 vector an observation, values in 0 to 1"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a sentence")
    add_episodes(parser)
    add_speed(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    if len(arguments.confidence) > 1:
        raise CliError("--confidence takes one value here: a data set is of one agent")

    # It loads JAX (see ``mnistpro_jax.cli``).
    from mnistpro_jax.adapters.minari import export_evaluation

    with progress() as report:
        dataset = export_evaluation(
            arguments.dataset_id,
            request_of(arguments),
            observation=arguments.observation,
            flatten=arguments.flatten,
            report=report,
        )
    facts = {
        "id": arguments.dataset_id,
        "episodes": int(dataset.total_episodes),
        "steps": int(dataset.total_steps),
        "folder": str(dataset.storage.data_path.parent),
    }
    if arguments.json:
        print(json.dumps(facts))
    else:
        print(f"{facts['episodes']:,} episodes of {facts['steps']:,} steps are in {facts['folder']}")
    return 0
