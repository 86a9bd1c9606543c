"""The ``mnistpro`` command: finds the command's module, reads its arguments, and turns errors into one line.

A module of this package is one command: ``add_arguments(parser)``, if it has any, and ``run(arguments)``, which returns
the exit code. Results go to standard output, everything else to standard error. Exit codes: 0 success, 2 a request that
makes no sense (one line says why), 130 interrupted, 1 anything unexpected.

JAX takes a second to load. Commands import what loads it inside their functions, so that help, and refusals of what the
arguments alone show to be wrong, come at once.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

import mnistpro_jax
from mnistpro_jax.cli.interrupts import never_lost
from mnistpro_jax.cli.terminal import INTERRUPTED, CliError, print_what_can_be

DEBUG = "MNISTPRO_DEBUG"

_COMMANDS = {
    "evaluate": (
        "run an agent and say how well it did",
        "mnistpro evaluate --level 2 --agent observer --episodes 500 --out runs/observer-2",
    ),
    "run": (
        "let a model behind an API play (or a script, an agent, a stored run), resumable",
        "mnistpro run --model openai:gpt-5 --memory textual --horizon 4 --out runs/gpt-5",
    ),
    "frontier": (
        "accuracy against steps of several agents, beside the published ones, as a table and a picture",
        "mnistpro frontier --level 1 --agents canvas planner observer --out frontier.png",
    ),
    "agents": ("list the agents", "mnistpro agents"),
    "envs": ("list the environments", "mnistpro envs --json"),
    "render": (
        "draw a stored episode as contact sheet and GIF",
        "mnistpro render runs/observer-2 --episode 7 --remembered",
    ),
    "export": (
        "play episodes and write them as a Minari data set",
        "mnistpro export mnistpro/observer-v0 --level 1 --agent observer --episodes 1000",
    ),
    "analyse": (
        "tables, tests and a report from stored runs",
        "mnistpro analyse runs/observer-2 runs/planner-2 --html report.html --csv tables",
    ),
    "matrix": (
        "which settings of the published tables have been run, and run the others",
        "mnistpro matrix runs --table memory --model openai:gpt-5 --dry-run",
    ),
    "bench": ("measure how fast the simulator runs here", "mnistpro bench"),
    "serve": (
        "a model server on the loopback address that plays from pictures, for tests and demonstrations",
        "mnistpro serve --port 8765 --latency-median 0.05 --latency-sigma 1 --faults 429=0.02 drop=0.01",
    ),
}
"""What each does, and an example of it."""


def entry() -> NoReturn:
    """The process: ``main``, and its exit code."""
    print_what_can_be()
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
        with never_lost():
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
    for name, (summary, example) in _COMMANDS.items():
        added = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            epilog=f"example: {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        # Only the one that is asked for: the others' imports would take their time.
        if name == arguments[0]:
            command = importlib.import_module(f"mnistpro_jax.cli.{name}")
            command.add_arguments(added)
            added.set_defaults(run=command.run)
    return parser
