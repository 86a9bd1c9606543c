"""``mnistpro render``: draw a stored episode."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mnistpro_jax import data
from mnistpro_jax.analysis.pictures import write_episode_pictures
from mnistpro_jax.cli.options import whole
from mnistpro_jax.cli.terminal import CliError
from mnistpro_jax.runs.canvases import canvas_of_record
from mnistpro_jax.runs.fields import Fields
from mnistpro_jax.runs.folder import EPISODES, PICTURES, RUN_PREFIX, SUMMARY, results_in
from mnistpro_jax.runs.json_files import read_object
from mnistpro_jax.runs.records import read_episodes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro render``."""
    parser.add_argument(
        "source", type=Path, metavar="EPISODES", help="folder of a run, or its episodes.jsonl"
    )
    parser.add_argument("--episode", type=whole(0), required=True, metavar="K", help="number of the episode")
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="DIR",
        help="folder of the pictures (default: pictures/ in the run's)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--gif", dest="which", action="store_const", const="gif", help="an animation alone")
    which.add_argument(
        "--sheet", dest="which", action="store_const", const="sheet", help="a contact sheet alone"
    )
    which.add_argument("--both", dest="which", action="store_const", const="both", help="both (default)")
    parser.set_defaults(which="both")
    parser.add_argument(
        "--remembered", action="store_true", help="also show, dimly, what earlier windows had revealed"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    runs = [path for path in results_in(arguments.source) if path.name.startswith(RUN_PREFIX)]
    if runs and not (arguments.source / EPISODES).exists():
        raise CliError(f"{arguments.source} holds several runs; name one: {', '.join(map(str, runs))}")
    episodes = read_episodes(arguments.source)
    home = arguments.source if arguments.source.is_dir() else arguments.source.parent
    settings = _run_settings(home / SUMMARY)
    chosen = [record for record in episodes if record["episode"] == arguments.episode]
    if not chosen:
        numbers = [record["episode"] for record in episodes]
        held = f"it holds episodes {min(numbers)} to {max(numbers)}" if numbers else "it holds none"
        raise CliError(f"--episode {arguments.episode} is not in {arguments.source}; {held}")
    record = chosen[0]
    canvas = canvas_of_record(record, data.load(record["source"], record["split"]))
    written = write_episode_pictures(
        arguments.out or home / PICTURES,
        record,
        canvas,
        window=settings["window"],
        outline=settings["outline"],
        remembered=arguments.remembered,
        sheet=arguments.which != "gif",
        gif=arguments.which != "sheet",
    )
    for path in written:
        print(path)
    return 0


def _run_settings(path: Path) -> dict[str, Any]:
    """What drawing needs of the summary beside stored episodes."""
    if not path.is_file():
        raise CliError(
            f"no {path.name} beside the episodes (expected {path}): the size of the window is in it"
        )
    get = Fields(read_object(path), path)
    return {"window": get.whole("window"), "outline": get.flag("outline")}
