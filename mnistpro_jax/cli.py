"""The ``mnistpro`` command: reads arguments, wires the rooms together, prints.

Results go to standard output, everything else to standard error. Exit codes: 0 success, 2 a request that
makes no sense (one line says why), 130 interrupted, 1 anything unexpected. JAX is imported only by what needs
it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import math
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import mnistpro_jax

if TYPE_CHECKING:
    from rich.console import Console

    from mnistpro_jax.evaluation import Evaluation, EvaluationRequest, Report

DEBUG = "MNISTPRO_DEBUG"
_LARGEST_SEED = 2**32 - 1
_DEFAULT_WINDOW, _DEFAULT_STRIDE = 64, 32
_LARGEST_LEVEL = 99
_COMMANDS = (
    "evaluate",
    "run",
    "frontier",
    "agents",
    "envs",
    "render",
    "export",
    "analyse",
    "matrix",
    "bench",
    "serve",
)


class CliError(Exception):
    """A request that makes no sense; the message is all that the user sees."""


INTERRUPTED = 130
"""The exit code after Ctrl-C."""


def entry() -> NoReturn:
    """The process: ``main``, and its exit code."""
    code = main()
    if code == INTERRUPTED:
        # Devices may still be computing what nobody waits for. Python's own way out takes their memory from under them,
        # and the process crashes.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with ``argv`` (default: the process's arguments); returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if not arguments:
            raise CliError(f"no command; expected one of {', '.join(_COMMANDS)} (see mnistpro --help)")
        parsed = _parser(arguments).parse_args(arguments)
        _quiet_jax()
        return int(parsed.run(parsed))
    except SystemExit as exit_:  # --help and --version
        return exit_.code if isinstance(exit_.code, int) else 0
    except KeyboardInterrupt:
        print("mnistpro: interrupted; nothing written", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (``| head``) has gone: nothing to complain of when Python flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except CliError as error:
        return _fail(str(error), 2)
    except (ValueError, OSError) as error:  # DataError is a ValueError
        return _fail(_text_of(error), 2)
    except ModuleNotFoundError as error:
        return _fail(f"the package {error.name!r} is needed for this and is not installed", 2)
    except ImportError as error:  # of an optional library: says which extra has it
        return _fail(str(error), 2)
    except Exception as error:
        text = f"{type(error).__name__}: {error}".strip()
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
            return _fail("out of memory; fewer episodes side by side need less (--batch)", 1)
        return _fail(f"unexpected {_shortened(text)} (set {DEBUG}=1 and run again for the traceback)", 1)


def _fail(message: str, code: int) -> int:
    if os.environ.get(DEBUG) == "1":
        traceback.print_exc()
    print(f"mnistpro: error: {' '.join(message.split())}", file=sys.stderr)
    return code


def _text_of(error: Exception) -> str:
    """The message of an error; for one of the system, the file and what was wrong with it."""
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror}"
    return str(error) or type(error).__name__


def _shortened(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."


def _quiet_jax() -> None:
    """No notes on accelerators that are not there."""
    logging.getLogger("jax._src.xla_bridge").setLevel(logging.ERROR)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


# ---- Arguments ---------------------------------------------------------------------------------------------


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        raise CliError(f"{message} (see {self.prog} --help)")


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mnistpro",
        description="MNIST-PRO, digits seen through a small moving window, as a vectorised JAX simulator.",
        epilog="example: mnistpro evaluate --level 1 --agent observer",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mnistpro {mnistpro_jax.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], int], summary: str, example: str) -> _Parser:
        added: _Parser = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        added.set_defaults(run=run)
        return added

    _add_evaluate(
        command(
            "evaluate",
            _evaluate,
            "run an agent and say how well it did",
            "mnistpro evaluate --level 2 --agent observer --episodes 500 --out runs/observer-2",
        )
    )
    added = command(
        "run",
        _run,
        "let a model behind an API play (or a script, an agent, a stored run), resumable",
        "mnistpro run --model openai:gpt-5 --memory textual --horizon 4 --out runs/gpt-5",
    )
    # Only where it is asked for: everything else starts without it.
    if arguments and arguments[0] == "run":
        _run_command().add_arguments(added)
    _add_frontier(
        command(
            "frontier",
            _frontier,
            "accuracy against steps of several agents, beside the published ones, as a table and a picture",
            "mnistpro frontier --level 1 --agents canvas planner observer --out frontier.png",
        )
    )
    agents = command("agents", _agents, "list the agents", "mnistpro agents")
    envs = command("envs", _envs, "list the environments", "mnistpro envs --json")
    for listing in (agents, envs):
        listing.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    _add_render(
        command(
            "render",
            _render,
            "draw a stored episode as contact sheet and GIF",
            "mnistpro render runs/observer-2 --episode 7 --remembered",
        )
    )
    _add_export(
        command(
            "export",
            _export,
            "play episodes and write them as a Minari data set",
            "mnistpro export mnistpro/observer-v0 --level 1 --agent observer --episodes 1000",
        )
    )
    bench = command("bench", _bench, "measure how fast the simulator runs here", "mnistpro bench")
    analyse = command(
        "analyse",
        _analyse,
        "tables, tests and a report from stored runs",
        "mnistpro analyse runs/observer-2 runs/planner-2 --html report.html --csv tables",
    )
    matrix = command(
        "matrix",
        _matrix,
        "which settings of the published tables have been run, and run the others",
        "mnistpro matrix runs --table memory --model openai:gpt-5 --dry-run",
    )
    serve = command(
        "serve",
        _serve,
        "a model server on the loopback address that plays from pictures, for tests and demonstrations",
        "mnistpro serve --port 8765 --latency-median 0.05 --latency-sigma 1 --fail-429 0.02",
    )
    # Only where it is asked for: everything else starts without it.
    if arguments and arguments[0] == "bench":
        _benchmark().add_arguments(bench)
    if arguments and arguments[0] == "analyse":
        _room("analysis.command").add_arguments(analyse)
    if arguments and arguments[0] == "matrix":
        _room("study.command").add_arguments(matrix)
    if arguments and arguments[0] == "serve":
        _room("demo_server.command").add_arguments(serve)
    return parser


def _add_evaluate(parser: argparse.ArgumentParser) -> None:
    _add_episodes(parser)

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
    _add_speed(output)
    _add_spread(parser)


def _add_export(parser: argparse.ArgumentParser) -> None:
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
    _add_episodes(parser)
    _add_speed(parser)


def _add_episodes(parser: argparse.ArgumentParser) -> None:
    """Which agent plays which episodes of which world."""
    what = parser.add_argument_group("what to play")
    what.add_argument(
        "--level",
        type=whole(1, _LARGEST_LEVEL),
        default=1,
        metavar="N",
        help="digits side by side (default: 1)",
    )
    what.add_argument(
        "--agent", default="observer", metavar="NAME", help="see `mnistpro agents` (default: observer)"
    )
    what.add_argument(
        "--episodes",
        type=episodes,
        default=None,
        metavar="N",
        help="'published', the 100 published episodes of level 1 or 2; or how many to draw: at level 1 every "
        "image once before any comes again, above it independent images (default: published)",
    )
    what.add_argument(
        "--data",
        default="mnist",
        metavar="SOURCE",
        help="'mnist', 'tfds:NAME' or 'idx:FOLDER'; agents read with the training split of the same source "
        "(default: mnist)",
    )
    what.add_argument(
        "--split", choices=("train", "test"), default="test", help="images that are shown (default: test)"
    )
    what.add_argument(
        "--seed",
        type=whole(0, _LARGEST_SEED),
        default=0,
        metavar="S",
        help="of images, starts and the agent's choices; the same seed gives the same results (default: 0)",
    )
    what.add_argument(
        "--confidence",
        type=_confidence,
        nargs="+",
        default=(),
        metavar="P",
        help="answer from this probability of being right on, 0 to 1, above 1 never before the last step; "
        "several make a row each (default, chosen on training images: 0.95 at level 1 and 0.9 above; planner and "
        "canvas 0.99 and 0.95, memoryless 0.6 and 0.02)",
    )

    _add_weights(what)

    world = parser.add_argument_group("world")
    world.add_argument(
        "--window",
        type=whole(1),
        default=_DEFAULT_WINDOW,
        metavar="PX",
        help="side of the window in pixels of the 224 x 224 N canvas (default: 64)",
    )
    world.add_argument(
        "--stride", type=whole(1), default=_DEFAULT_STRIDE, metavar="PX", help="pixels a move (default: 32)"
    )
    world.add_argument(
        "--budget",
        type=whole(1),
        default=None,
        metavar="STEPS",
        help="actions an episode, the answer included (default: the window positions on the stride's grid, "
        "36 at level 1 and 78 at level 2)",
    )
    world.add_argument(
        "--no-outline",
        dest="outline",
        action="store_false",
        help="show the agent whole windows; by default the published outline hides their rim, 2 pixels",
    )


def _add_speed(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--batch",
        type=whole(1),
        default=None,
        metavar="B",
        help="episodes side by side on each device; changes speed and memory, not results (default: on a CPU 64 for "
        "agents that read with a bank and 256 for those with a network, else 1024)",
    )
    parser.add_argument(
        "--devices",
        type=whole(1),
        default=None,
        metavar="N",
        help="split the episodes over the first N devices of this process; changes speed, not results (default: all)",
    )


def _add_spread(parser: argparse.ArgumentParser) -> None:
    spread = parser.add_argument_group(
        "parts and hosts", "What these choose changes speed, not results. BUILD.md says more."
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


def _add_weights(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--weights",
        type=Path,
        default=None,
        metavar="DIR",
        help="weights of a learned agent, as `python -m baselines.export --out DIR` writes them (default: those in "
        "the package)",
    )


def _add_frontier(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--level", type=whole(1, _LARGEST_LEVEL), default=1, metavar="N", help="digits (default: 1)"
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
        type=_confidence,
        nargs="+",
        default=None,
        metavar="P",
        help="thresholds of the sweep, 0 to 1 (default: 0.5 0.7 0.8 0.9 0.95 0.97 0.98 0.99 0.995 0.999)",
    )
    parser.add_argument(
        "--seed", type=whole(0, _LARGEST_SEED), default=0, metavar="S", help="see evaluate (default: 0)"
    )
    _add_weights(parser)
    parser.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="write the picture, a PNG, here"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def _add_render(parser: argparse.ArgumentParser) -> None:
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


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers in low..high."""
    expected = f"a whole number, {low} or more" if high is None else f"a whole number, {low} to {high}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
        return value

    return parse


def episodes(text: str) -> int | None:
    if text == "published":
        return None
    try:
        return whole(1)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not 'published' or a whole number, 1 or more"
        ) from None


def _confidence(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability, 0 or more")
    return value


# ---- evaluate ----------------------------------------------------------------------------------------------


def _evaluate(arguments: argparse.Namespace) -> int:
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

    from mnistpro_jax.analysis.folder import PARTS, results_folder
    from mnistpro_jax.evaluation import evaluate

    request = _request(arguments)
    if _distributed(arguments) or arguments.part_size or (arguments.out and (arguments.out / PARTS).exists()):
        return _evaluate_in_parts(arguments, request)
    with contextlib.ExitStack() as stack:
        folder = None
        if arguments.out is not None:
            folder = stack.enter_context(results_folder(arguments.out, arguments.overwrite))
        with _progress() as report:
            summaries = _write_runs(arguments, folder, evaluate(request, report), report)
    return _print_summaries(arguments, summaries)


def _distributed(arguments: argparse.Namespace) -> bool:
    named = (arguments.coordinator, arguments.processes, arguments.process)
    return bool(arguments.distributed) or any(value is not None for value in named)


def _evaluate_in_parts(arguments: argparse.Namespace, request: EvaluationRequest) -> int:
    """As ``_evaluate``, going on from the parts that are there, alone or as one of several processes."""
    from mnistpro_jax import hosts
    from mnistpro_jax.analysis.folder import PARTS, check_free, results_folder
    from mnistpro_jax.parts import Parts, evaluate_parts

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
        import jax

        me, processes = jax.process_index(), jax.process_count()
        parts = Parts(arguments.out / PARTS, request, arguments.part_size, processes)
        if parts.folder.exists():
            there = len(parts) - len(parts.missing())
            note(f"{there} of {len(parts)} parts are there already")
        try:
            with _progress() as report:
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
        from mnistpro_jax.analysis.records import write_json

        write_json(folder / "summary.json", {"runs": summaries})
    return summaries


def _print_summaries(arguments: argparse.Namespace, summaries: list[dict[str, Any]]) -> int:
    several = len(arguments.confidence) > 1
    if arguments.split == "train":
        note("warning: these are training images; results do not compare with those of the test split")
    if arguments.json:
        print(json.dumps({"runs": summaries} if several else summaries[0], indent=2, allow_nan=False))
    else:
        from mnistpro_jax.analysis import tables

        if several:
            tables.print_sweep(_stdout(), summaries)
        else:
            tables.print_summary(_stdout(), summaries[0])
    if arguments.out is not None:
        note(f"results are in {arguments.out}")
    return 0


def _request(arguments: argparse.Namespace) -> EvaluationRequest:
    """What the options of ``_add_episodes`` ask for."""
    from mnistpro_jax.evaluation import EvaluationRequest

    return EvaluationRequest(
        level=arguments.level,
        agent=arguments.agent,
        episodes=arguments.episodes,
        source=arguments.data,
        split=arguments.split,
        seed=arguments.seed,
        confidences=tuple(arguments.confidence),
        window=arguments.window,
        stride=arguments.stride,
        budget=arguments.budget,
        outline=arguments.outline,
        batch=arguments.batch,
        devices=arguments.devices,
        weights=arguments.weights,
    )


def _export(arguments: argparse.Namespace) -> int:
    if len(arguments.confidence) > 1:
        raise CliError("--confidence takes one value here: a data set is of one agent")

    from mnistpro_jax.export import export_evaluation

    with _progress() as report:
        dataset = export_evaluation(
            arguments.dataset_id,
            _request(arguments),
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


def _run_folder(run: Evaluation) -> str:
    from mnistpro_jax.analysis.folder import RUN_PREFIX

    # repr: the shortest text that is this number, so that no two thresholds share a folder.
    return f"{RUN_PREFIX}{run.settings.confidence!r}"


def _write_run(folder: Path, run: Evaluation, pictures: int) -> None:
    from mnistpro_jax.analysis import folder as names
    from mnistpro_jax.analysis.pictures import write_episode_pictures, write_grid
    from mnistpro_jax.analysis.records import write_json, write_jsonl

    folder.mkdir(exist_ok=True)
    records = run.records()
    write_jsonl(folder / names.EPISODES, records)
    if pictures:
        chosen = records[:pictures]
        canvases = [run.canvas(number) for number in range(len(chosen))]
        window = run.settings.window
        for record, canvas in zip(chosen, canvases, strict=True):
            write_episode_pictures(
                folder / names.PICTURES, record, canvas, window=window, outline=run.settings.outline
            )
        write_grid(folder / names.PICTURES / "grid.png", chosen, canvases, window)
    write_json(folder / names.SUMMARY, run.summary)


# ---- run ---------------------------------------------------------------------------------------------------


def _run(arguments: argparse.Namespace) -> int:
    return int(_run_command().run(arguments))


def _run_command() -> Any:
    import importlib

    return importlib.import_module("mnistpro_jax.agents.host.command")


# ---- frontier ----------------------------------------------------------------------------------------------


def _frontier(arguments: argparse.Namespace) -> int:
    import importlib.util

    from mnistpro_jax.agents.registry import has_confidence, is_learned
    from mnistpro_jax.analysis.frontier import CONFIDENCES, draw_frontier
    from mnistpro_jax.evaluation import EvaluationRequest, evaluate

    confidences = tuple(dict.fromkeys(arguments.confidence or CONFIDENCES))
    for agent in arguments.agents:
        if not has_confidence(agent):
            raise CliError(f"agent {agent!r} has no confidence to sweep; leave it out")
    if arguments.out is not None:
        if not arguments.out.absolute().parent.is_dir():
            raise CliError(f"--out: there is no folder {arguments.out.absolute().parent}")
        if importlib.util.find_spec("matplotlib") is None:
            raise CliError("the picture needs matplotlib: pip install matplotlib (or leave --out away)")
    sweeps: dict[str, list[dict[str, Any]]] = {}
    with _progress() as report:
        for agent in dict.fromkeys(arguments.agents):
            request = EvaluationRequest(
                level=arguments.level,
                agent=agent,
                episodes=arguments.episodes,
                seed=arguments.seed,
                confidences=confidences,
                # Agents without weights of their own keep their place beside the others.
                weights=arguments.weights if is_learned(agent) else None,
            )
            sweeps[agent] = [run.summary for run in evaluate(request, report)]
    if arguments.out is not None:
        draw_frontier(arguments.out, arguments.level, sweeps)
    if arguments.json:
        print(json.dumps({"level": arguments.level, "agents": sweeps}, indent=2, allow_nan=False))
    else:
        from mnistpro_jax.analysis import tables

        for runs in sweeps.values():
            if len(runs) > 1:
                tables.print_sweep(_stdout(), runs)
            else:
                tables.print_summary(_stdout(), runs[0])
    if arguments.out is not None:
        note(f"the picture is {arguments.out}")
    return 0


# ---- agents, envs ------------------------------------------------------------------------------------------


def _agents(arguments: argparse.Namespace) -> int:
    from mnistpro_jax.agents import agent_names, describe
    from mnistpro_jax.agents.registry import reads_with

    agents: list[dict[str, Any]] = [
        {"name": name, "description": describe(name), "reads_with": reads_with(name)}
        for name in agent_names()
    ]
    if arguments.json:
        print(json.dumps({"agents": agents}, indent=2))
        return 0
    from mnistpro_jax.analysis.tables import plain_table

    rows = [(agent["name"], agent["reads_with"] or "nothing", agent["description"]) for agent in agents]
    columns = [("agent", "left"), ("reads with", "left"), ("what it does", "left")]
    console = _stdout()
    console.print()
    console.print(plain_table(columns, rows))
    console.print(
        "[dim]bank: compares what it saw with every training image. network: a trained reader on all that was seen. "
        "memory: its own recurrent network.[/dim]"
    )
    return 0


def _envs(arguments: argparse.Namespace) -> int:
    from mnistpro_jax.env import OBSERVATIONS
    from mnistpro_jax.registration import registered

    environments = [_environment_facts(name) for name in registered()]
    if arguments.json:
        print(json.dumps({"environments": environments}, indent=2))
        return 0
    from mnistpro_jax.analysis.tables import plain_table

    console = _stdout()
    worlds = [
        (
            facts["id"],
            " x ".join(map(str, facts["canvas"])),
            str(facts["window"]),
            str(facts["stride"]),
            str(facts["budget"]),
            str(facts["actions"]),
        )
        for facts in environments
    ]
    headings = [("environment", "left"), ("canvas, px", "left")]
    headings += [(name, "right") for name in ("window, px", "stride, px", "budget", "actions")]
    console.print()
    console.print(plain_table(headings, worlds))
    console.print(
        "[dim]MnistPro-L<n>-v0 exists for every number n of digits; actions: 4 moves and all answers.[/dim]"
    )
    for facts in environments:
        rows = []
        for mode, view in facts["observations"].items():
            arrays = [f"{array['dtype']} {_shape(array['shape'])}" for array in view["arrays"].values()]
            names = list(view["arrays"])
            text = arrays[0] if len(arrays) == 1 else f"{' and '.join(names)}: {arrays[0]} each"
            rows.append((mode, text, f"{view['bytes']:,}"))
        console.print()
        console.print(
            plain_table([(f"view of {facts['id']}", "left"), ("arrays", "left"), ("bytes", "right")], rows)
        )
    console.print()
    console.print(plain_table([("view", "left"), ("what it is", "left")], list(OBSERVATIONS.items())))
    return 0


def _environment_facts(env_id: str) -> dict[str, Any]:
    """What an id's environment looks like, without its bank. canvas: height, width."""
    from mnistpro_jax.env import OBSERVATIONS, Environment, default_budget
    from mnistpro_jax.registration import level_of
    from mnistpro_jax.worlds.digits import PUBLISHED_SIZE
    from mnistpro_jax.worlds.pipeline import NATIVE

    level = level_of(env_id)
    height, width = PUBLISHED_SIZE, PUBLISHED_SIZE * level
    observations = {}
    for mode in OBSERVATIONS:
        env = Environment(
            height,
            width,
            level,
            10,
            PUBLISHED_SIZE // NATIVE,
            _DEFAULT_WINDOW,
            _DEFAULT_STRIDE,
            observation=mode,
        )
        view = env.observation_space()["view"]
        boxes = dict(view.fields) if hasattr(view, "fields") else {"view": view}
        arrays = {
            name: {"shape": list(box.shape), "dtype": str(_dtype(box.dtype))} for name, box in boxes.items()
        }
        size = sum(math.prod(box.shape) * _dtype(box.dtype).itemsize for box in boxes.values())
        observations[mode] = {"arrays": arrays, "bytes": size, "description": OBSERVATIONS[mode]}
    return {
        "id": env_id,
        "level": level,
        "canvas": [height, width],
        "window": env.window,
        "stride": env.stride,
        "budget": default_budget(height, width, env.window, env.stride),
        "actions": 4 + env.num_classes**level,
        "observations": observations,
    }


def _dtype(dtype: Any) -> Any:
    import numpy as np

    return np.dtype(dtype)


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


# ---- render, bench -----------------------------------------------------------------------------------------


def _render(arguments: argparse.Namespace) -> int:
    from mnistpro_jax import data
    from mnistpro_jax.analysis import folder as names
    from mnistpro_jax.analysis.pictures import canvas_of_record, write_episode_pictures
    from mnistpro_jax.analysis.records import read_episodes

    runs = [path for path in names.results_in(arguments.source) if path.name.startswith(names.RUN_PREFIX)]
    if runs and not (arguments.source / names.EPISODES).exists():
        raise CliError(f"{arguments.source} holds several runs; name one: {', '.join(map(str, runs))}")
    episodes = read_episodes(arguments.source)
    home = arguments.source if arguments.source.is_dir() else arguments.source.parent
    settings = _run_settings(home / names.SUMMARY)
    chosen = [record for record in episodes if record["episode"] == arguments.episode]
    if not chosen:
        numbers = [record["episode"] for record in episodes]
        held = f"it holds episodes {min(numbers)} to {max(numbers)}" if numbers else "it holds none"
        raise CliError(f"--episode {arguments.episode} is not in {arguments.source}; {held}")
    record = chosen[0]
    canvas = canvas_of_record(record, data.load(record["source"], record["split"]))
    written = write_episode_pictures(
        arguments.out or home / names.PICTURES,
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
    """The summary beside stored episodes, with what drawing needs checked."""
    if not path.is_file():
        raise CliError(
            f"no {path.name} beside the episodes (expected {path}): the size of the window is in it"
        )
    try:
        summary = json.loads(path.read_bytes())
    except ValueError as error:
        raise CliError(f"{path} is not a complete JSON object ({error})") from None
    if (
        not isinstance(summary, dict)
        or type(summary.get("window")) is not int
        or type(summary.get("outline")) is not bool
    ):
        raise CliError(f"{path} does not say 'window' (pixels) and 'outline' (true or false) of the run")
    return summary


def _bench(arguments: argparse.Namespace) -> int:
    return int(_benchmark().run(arguments))


def _benchmark() -> Any:
    return _room("benchmark")


def _analyse(arguments: argparse.Namespace) -> int:
    room = _room("analysis.command")
    with _progress() as report:
        written = room.measure(arguments, report)
    return int(room.show(arguments, written))


def _matrix(arguments: argparse.Namespace) -> int:
    return int(_room("study.command").run(arguments))


def _serve(arguments: argparse.Namespace) -> int:
    return int(_room("demo_server.command").run(arguments))


def _room(name: str) -> Any:
    """A module that declares and runs a command of its own."""
    import importlib

    return importlib.import_module(f"mnistpro_jax.{name}")


# ---- Output ------------------------------------------------------------------------------------------------


def _stdout() -> Console:
    from rich.console import Console

    return Console(file=sys.stdout, highlight=False)


def note(text: str) -> None:
    print(f"mnistpro: {text}", file=sys.stderr)


@contextlib.contextmanager
def _progress() -> Iterator[Report]:
    """Says on standard error what is being done, on a terminal alone; what it drew is gone afterwards."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[count]}"),
    )
    console = Console(stderr=True, highlight=False)
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None, count="")

        def report(what: str, done: int, total: int) -> None:
            # A task of its own for each thing that is done, so that the clock shows how long this one takes.
            nonlocal task
            if bar.tasks[-1].description != what:
                bar.remove_task(task)
                task = bar.add_task(what, total=total or None, count="")
            bar.update(task, completed=done, count=f"{done:,} of {total:,}" if total else "")

        yield report
