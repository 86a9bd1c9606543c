"""``mnistpro evaluate``: run an agent and say how well it did."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnistpro_jax.analysis import tables
from mnistpro_jax.analysis.pictures import write_episode_pictures, write_grid
from mnistpro_jax.cli.options import add_episodes, add_speed, request_of, whole
from mnistpro_jax.cli.terminal import INTERRUPTED, CliError, note, progress, stdout
from mnistpro_jax.runs.folder import (
    EPISODES,
    PARTS,
    PICTURES,
    RUN_PREFIX,
    SUMMARY,
    check_free,
    results_folder,
)
from mnistpro_jax.runs.json_files import write_json, write_jsonl

if TYPE_CHECKING:
    from mnistpro_jax.evaluation.evaluate import Evaluation
    from mnistpro_jax.evaluation.request import EvaluationRequest, Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro evaluate``."""
    add_episodes(parser)

    output = parser.add_argument_group("output")
    output.add_argument(
        "--out", type=Path, default=None, metavar="DIR", help="write summary.json and episodes.jsonl here"
    )
    output.add_argument("--overwrite", action="store_true", help="replace the results that are in DIR")
    output.add_argument(
        "--pictures",
        type=whole(1),
        default=None,
        metavar="K",
        help="draw the first K episodes into DIR/pictures: contact sheets, GIFs, and a grid of what was seen",
    )
    output.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    add_speed(output)
    _add_spread(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    for option, given in (
        ("--pictures", arguments.pictures),
        ("--overwrite", arguments.overwrite),
        ("--part-size", arguments.part_size),
        ("--distributed", _distributed(arguments)),
    ):
        if arguments.out is None and given:
            raise CliError(f"{option} needs a folder to write to: give --out DIR as well")
    confidences = tuple(arguments.confidence)
    if len(set(confidences)) < len(confidences):
        raise CliError(f"--confidence has a value twice: {' '.join(f'{value:g}' for value in confidences)}")

    # It loads JAX (see ``mnistpro_jax.cli``).
    from mnistpro_jax.evaluation.evaluate import evaluate

    request = request_of(arguments)
    if _distributed(arguments) or arguments.part_size or (arguments.out and (arguments.out / PARTS).exists()):
        return _evaluate_in_parts(arguments, request)
    with contextlib.ExitStack() as stack:
        folder = None
        if arguments.out is not None:
            folder = stack.enter_context(results_folder(arguments.out, arguments.overwrite))
        with progress() as report:
            summaries = _write_runs(arguments, folder, evaluate(request, report), report)
    return _print_summaries(arguments, summaries)


def _add_spread(parser: argparse.ArgumentParser) -> None:
    spread = parser.add_argument_group(
        "parts and hosts", "What these choose changes speed, not results. docs/devices.md says more."
    )
    spread.add_argument(
        "--part-size",
        type=whole(1),
        default=None,
        metavar="N",
        help="keep every N finished episodes in DIR/parts, so that the same command goes on where a run was "
        "killed (default: none kept; with several processes, a quarter of each one's share)",
    )
    spread.add_argument(
        "--distributed",
        action="store_true",
        help="be one of several processes that share the episodes, and DIR: those of the SLURM, Open MPI, "
        "GKE or TPU job that this runs in, or as the next three options say",
    )
    spread.add_argument(
        "--coordinator",
        default=None,
        metavar="HOST:PORT",
        help="where process 0 listens (default: $JAX_COORDINATOR_ADDRESS, else found by JAX)",
    )
    spread.add_argument(
        "--processes",
        type=whole(1),
        default=None,
        metavar="N",
        help="how many processes (default: $JAX_NUM_PROCESSES, else found by JAX)",
    )
    spread.add_argument(
        "--process",
        type=whole(0),
        default=None,
        metavar="I",
        help="which of them this is, from 0 (default: $JAX_PROCESS_ID, else found by JAX)",
    )
    spread.add_argument(
        "--join-timeout",
        type=whole(1),
        default=300,
        metavar="S",
        help="seconds until all processes have to be there (default: 300)",
    )
    spread.add_argument(
        "--heartbeat",
        type=whole(1),
        default=100,
        metavar="S",
        help="seconds of silence after which the others do a dead process's work (default: 100)",
    )


def _distributed(arguments: argparse.Namespace) -> bool:
    named = (arguments.coordinator, arguments.processes, arguments.process)
    return bool(arguments.distributed) or any(value is not None for value in named)


def _evaluate_in_parts(arguments: argparse.Namespace, request: EvaluationRequest) -> int:
    """As ``_evaluate``, going on from the parts that are there, alone or as one of several processes."""
    # These load JAX.
    import jax

    from mnistpro_jax.evaluation import hosts
    from mnistpro_jax.evaluation.parts import Parts, evaluate_parts

    check_free(arguments.out, arguments.overwrite)
    with contextlib.ExitStack() as stack:
        if _distributed(arguments):
            hosts.join(
                arguments.coordinator,
                arguments.processes,
                arguments.process,
                timeout=arguments.join_timeout,
                heartbeat=arguments.heartbeat,
            )
            stack.callback(hosts.leave)
        me, processes = jax.process_index(), jax.process_count()
        parts = Parts(arguments.out / PARTS, request, arguments.part_size, processes)
        if parts.folder.exists():
            there = len(parts) - len(parts.missing())
            note(f"{there} of {len(parts)} parts are there already")
        try:
            with progress() as report:
                runs = evaluate_parts(request, parts, report)
                if runs is None:
                    note(f"process {me} of {processes} is done; process 0 writes the results")
                    return 0
                with results_folder(arguments.out, arguments.overwrite) as folder:
                    summaries = _write_runs(arguments, folder, runs, report)
        except KeyboardInterrupt:
            note(f"interrupted; the same command goes on from the finished parts in {parts.folder}")
            return INTERRUPTED
        parts.remove()
    return _print_summaries(arguments, summaries)


def _write_runs(
    arguments: argparse.Namespace, folder: Path | None, runs: Iterable[Evaluation], report: Report
) -> list[dict[str, Any]]:
    """Write each run as it comes; returns their summaries."""
    several = len(arguments.confidence) > 1
    summaries = []
    for run in runs:
        summaries.append(run.summary)
        if folder is not None:
            report("writing", 0, 0)
            _write_run(folder / (_run_folder(run) if several else ""), run, arguments.pictures or 0)
    if folder is not None and several:
        write_json(folder / SUMMARY, {"runs": summaries})
    return summaries


def _run_folder(run: Evaluation) -> str:
    # repr: the shortest text that is this number, so that no two thresholds share a folder.
    return f"{RUN_PREFIX}{run.settings.confidence!r}"


def _write_run(folder: Path, run: Evaluation, pictures: int) -> None:
    folder.mkdir(exist_ok=True)
    records = run.records()
    write_jsonl(folder / EPISODES, records)
    if pictures:
        chosen = records[:pictures]
        canvases = [run.canvas(number) for number in range(len(chosen))]
        window = run.settings.window
        for record, canvas in zip(chosen, canvases, strict=True):
            write_episode_pictures(
                folder / PICTURES, record, canvas, window=window, outline=run.settings.outline
            )
        write_grid(folder / PICTURES / "grid.png", chosen, canvases, window)
    write_json(folder / SUMMARY, run.summary)


def _print_summaries(arguments: argparse.Namespace, summaries: list[dict[str, Any]]) -> int:
    several = len(arguments.confidence) > 1
    if arguments.split == "train":
        note("warning: these are training images; results do not compare with those of the test split")
    if arguments.json:
        print(json.dumps({"runs": summaries} if several else summaries[0], indent=2, allow_nan=False))
    else:
        tables.print_runs(stdout(), summaries)
    if arguments.out is not None:
        note(f"results are in {arguments.out}")
    return 0
