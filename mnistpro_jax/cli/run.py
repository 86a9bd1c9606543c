"""``mnistpro run``: its arguments, its progress, and what it prints."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnistpro_jax.cli.options import add_scenes, add_world, whole
from mnistpro_jax.cli.servers import add_server
from mnistpro_jax.cli.terminal import INTERRUPTED, CliError, note, stdout
from mnistpro_jax.host.memory import MEMORIES, UNBOUNDED

if TYPE_CHECKING:
    from mnistpro_jax.host.dry_run import DryRun
    from mnistpro_jax.host.run import Report, RunOutcome, Standing
    from mnistpro_jax.host.run_glimpse import RunRequest
    from mnistpro_jax.host.tools.request import ToolRequest

_DRIVERS = ("free", "lockstep", "bridge")
_PROBLEMS = 5
_EVERY_S = 30.0  # between lines of progress where there is no terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``mnistpro run``."""
    memories = ", ".join(MEMORIES)
    what = parser.add_argument_group("what to run")
    what.add_argument(
        "--model",
        required=True,
        metavar="NAME",
        help="openai:MODEL, openrouter:MODEL, gemini:MODEL, anthropic:MODEL, ollama:MODEL, vllm:MODEL, "
        "openai-compatible[:MODEL] with --base-url; free of charge: agent:NAME (see `mnistpro agents`), "
        "scripted:NAME, replay:DIR. Keys are read from the environment (OPENAI_API_KEY and so on)",
    )
    what.add_argument(
        "--memory",
        default="image-only",
        metavar="NAME",
        help=f"what is carried from turn to turn: {memories} (default: image-only)",
    )
    what.add_argument(
        "--horizon",
        type=_horizon,
        default=None,
        metavar="H",
        help="pictures shown, the current one included, or 'all' (default: 4 for image-only, 1 for event-log, "
        "textual and grid-map)",
    )
    add_scenes(what)
    add_world(parser)

    what.add_argument(
        "--harness",
        choices=("turns", "tools"),
        default="turns",
        help="turns: a JSON object a turn; tools: the model looks, moves and answers by calling tools (default: turns)",
    )
    tools = parser.add_argument_group("--harness tools")
    tools.add_argument(
        "--arm",
        choices=("A0", "A1", "A2"),
        default="A0",
        help="what is carried from episode to episode: A0 nothing, A1 notes, A2 notes and after each answer whether it "
        "was right; with notes, one episode at a time (default: A0)",
    )
    tools.add_argument(
        "--notes-limit", type=whole(1), default=2**20, metavar="N", help="bytes of notes (default: 1048576)"
    )
    tools.add_argument(
        "--order-seed",
        type=whole(0),
        default=0,
        metavar="S",
        help="of the order of the episodes (default: 0)",
    )
    tools.add_argument(
        "--no-counter",
        dest="counter",
        action="store_false",
        help="do not say how many moves are left, as published",
    )
    tools.add_argument(
        "--pictures-in",
        choices=("user", "tool"),
        default="user",
        help="the messages that hold pictures: of the user, after those of the tools, or of the tools, for servers "
        "that take them there (default: user)",
    )
    words = parser.add_argument_group("protocol")
    words.add_argument(
        "--attempts", type=whole(1), default=3, metavar="K", help="replies a turn may take (default: 3)"
    )
    words.add_argument(
        "--retry",
        choices=("repeat", "explain"),
        default="repeat",
        help="a further attempt sees the same request, or also its failed reply and a word on it (default: repeat)",
    )
    words.add_argument(
        "--parser",
        choices=("plain", "published"),
        default="plain",
        help="how a reply is read: plain, strict where an answer would have to be guessed; or by the published rules, "
        "further attempts included (default: plain)",
    )
    words.add_argument(
        "--system",
        choices=("system", "user"),
        default="system",
        help="who says the rules: a system message, or the first user message, for servers without a system role "
        "(default: system)",
    )
    words.add_argument(
        "--no-warning", dest="warning", action="store_false", help="do not announce the last turn"
    )
    words.add_argument(
        "--prompts",
        default="plain",
        metavar="FILE",
        help="a prompt pack in TOML (default: the package's own)",
    )
    words.add_argument(
        "--enlarge", type=whole(1), default=1, metavar="F", help="pictures F times as large (default: 1)"
    )
    words.add_argument(
        "--detail", choices=("low", "high", "auto"), default=None, help="of pictures, as OpenAI's API has it"
    )

    asked = parser.add_argument_group("how the model is asked (sent only where given)")
    add_server(asked)
    asked.add_argument("--temperature", type=_number, default=None, metavar="T")
    asked.add_argument("--reasoning-effort", default=None, metavar="NAME", help="such as low, medium, high")
    asked.add_argument("--max-tokens", type=whole(1), default=None, metavar="N", help="of a reply")
    asked.add_argument(
        "--model-seed", type=whole(0), default=None, metavar="S", help="of the model's sampling"
    )
    asked.add_argument(
        "--extra-body", type=_object, default=None, metavar="JSON", help="further fields of every request"
    )
    asked.add_argument(
        "--retries",
        type=whole(0),
        default=5,
        metavar="N",
        help="of a call that failed for the moment: 408, 409, 429, 5xx, no connection, a torn reply or one that holds "
        "an error (default: 5)",
    )
    asked.add_argument(
        "--timeout",
        type=_number,
        default=600.0,
        metavar="S",
        help="seconds a whole call may take (default: 600)",
    )

    session = parser.add_argument_group("this session (may change when a run is resumed)")
    session.add_argument(
        "--concurrency", type=whole(1), default=16, metavar="N", help="episodes at a time (default: 16)"
    )
    session.add_argument(
        "--driver",
        choices=_DRIVERS,
        default="free",
        help="free: every episode at its own pace; lockstep: all take each turn together; bridge: inside a compiled "
        "rollout. The results are the same (default: free)",
    )
    session.add_argument(
        "--limit", type=whole(1), default=None, metavar="N", help="only the first N episodes of the list"
    )
    session.add_argument(
        "--repeats",
        type=whole(1),
        default=1,
        metavar="K",
        help="play the list K times, into DIR/repeat-1 and so on, and let the answers vote (default: 1)",
    )
    session.add_argument(
        "--again",
        type=_statuses,
        default=(),
        metavar="STATUS",
        help="play episodes again that ended so: refused, truncated or both, with a comma; --max-tokens and other "
        "ways of asking may then be others than before",
    )
    session.add_argument(
        "--keep-going",
        action="store_true",
        help="play on where none of the first 15 replies says what to do",
    )
    session.add_argument(
        "--max-cost",
        type=_number,
        default=None,
        metavar="X",
        help="stop before this is spent; needs prices. Give --max-tokens as well: else nobody knows what the first "
        "replies will cost",
    )
    session.add_argument(
        "--price-file",
        type=Path,
        default=None,
        metavar="FILE",
        help='TOML or JSON: {"MODEL": {"input": price per million tokens, "output": ...}}',
    )

    output = parser.add_argument_group("output")
    output.add_argument("--out", type=Path, default=None, metavar="DIR", help="folder of the run; resumes it")
    output.add_argument(
        "--dry-run", action="store_true", help="count calls, pictures, tokens, cost; ask nobody"
    )
    output.add_argument(
        "--assume-steps",
        type=whole(1),
        default=None,
        metavar="N",
        help="--dry-run: also for episodes so long",
    )
    output.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code: 0 all episodes are over, 1 some are not, 130 interrupted."""
    from mnistpro_jax.host import run_glimpse as running

    request = _request(arguments)
    if arguments.dry_run and arguments.repeats > 1:
        raise CliError("--dry-run counts one run, and --repeats plays so many of them; leave --repeats out")
    if arguments.dry_run:
        _print_dry_run(running.dry_run(request, arguments.assume_steps), arguments.json)
        return 0
    if request.out is None:
        raise CliError("a run needs a folder to write to: give --out DIR")
    if arguments.assume_steps is not None:
        raise CliError("--assume-steps is for --dry-run")
    if arguments.repeats > 1:
        return _run_repeats(request, arguments)
    try:
        with progress() as (report, say):
            outcome = running.run(request, report, say)
    except ImportError as error:
        raise CliError(str(error)) from None
    if arguments.json:
        print(json.dumps(outcome.summary, indent=2, allow_nan=False))
    else:
        _print_summary(outcome.summary)
    note(f"results are in {request.out}")
    return _exit_code(outcome, request)


def _run_repeats(request: RunRequest, arguments: argparse.Namespace) -> int:
    from mnistpro_jax.host.repeats import run_repeats

    try:
        with progress() as (report, say):
            outcomes, votes = run_repeats(request, arguments.repeats, say, report, say)
    except ImportError as error:
        raise CliError(str(error)) from None
    if arguments.json:
        runs = [outcome.summary for outcome in outcomes]
        print(json.dumps({"votes": votes, "runs": runs}, indent=2, allow_nan=False))
    else:
        _print_votes(votes)
    note(f"results are in {request.out}")
    return max(_exit_code(outcome, request) for outcome in outcomes)


def _exit_code(outcome: RunOutcome, request: RunRequest) -> int:
    """Says on standard error why a run is not complete."""
    if outcome.problem is not None:
        # A session that played all it was to play is no fault, whatever is left of the run.
        kind = "warning: " if outcome.interrupted else "error: " if outcome.stopped else ""
        note(f"{kind}{outcome.problem}")
    if outcome.interrupted:
        return INTERRUPTED
    return 1 if outcome.stopped else 0


def _request(arguments: argparse.Namespace) -> RunRequest:
    import dataclasses

    from mnistpro_jax.host.run_glimpse import RunRequest

    given = {**vars(arguments), "source": arguments.data, "tools": _tools(arguments), "repeat": 0}
    return RunRequest(**{field.name: given[field.name] for field in dataclasses.fields(RunRequest)})


def _tools(arguments: argparse.Namespace) -> ToolRequest | None:
    import dataclasses

    from mnistpro_jax.host.tools.request import ToolRequest

    wanted = ToolRequest(
        **{field.name: getattr(arguments, field.name) for field in dataclasses.fields(ToolRequest)}
    )
    if arguments.harness == "tools":
        return wanted
    if wanted != ToolRequest():
        raise CliError("--arm and what else is of players with tools: give --harness tools as well")
    return None


# ---- Arguments ----------------------------------------------------------------------------------------------


def _horizon(text: str) -> int:
    if text in ("all", "-1"):
        return UNBOUNDED
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of pictures, 1 or more, or 'all'")
    return int(text)


def _statuses(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, 0 or more")
    return value


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON object")
    return value


# ---- Progress -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def progress() -> Iterator[tuple[Report, Any]]:
    """Says on standard error how far the run is: a bar on a terminal, else a line now and then."""
    if not sys.stderr.isatty():
        said = time.monotonic()

        def line(standing: Standing) -> None:
            nonlocal said
            if time.monotonic() - said >= _EVERY_S:
                said = time.monotonic()
                print(
                    f"mnistpro: {standing.finished} of {standing.total} episodes, {_facts(standing)}",
                    file=sys.stderr,
                    flush=True,
                )

        yield line, lambda text: print(f"mnistpro: {text}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    console = Console(stderr=True, highlight=False)
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=20),
        # In several lines where one does not hold them.
        TextColumn(
            "{task.completed} of {task.total} episodes, {task.fields[facts]}", table_column=Column(ratio=1)
        ),
    )
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("run", total=None, facts="starting")

        def show(standing: Standing) -> None:
            bar.update(task, total=standing.total, completed=standing.finished, facts=_facts(standing))

        yield show, lambda text: console.print(f"mnistpro: {text}", markup=False)


def _facts(standing: Standing) -> str:
    accuracy = "-" if standing.accuracy is None else f"{100 * standing.accuracy:.1f} %"
    if standing.accuracy is not None and standing.missing is not None:
        accuracy += f" ({standing.missing.so_far})"
    about = "about " if standing.estimated else ""
    cost = "" if standing.cost is None else f", cost {about}{standing.cost:.4f}"
    return (
        f"accuracy {accuracy}, {standing.calls:,} calls, tokens {_short(standing.input_tokens)} in "
        f"{_short(standing.output_tokens)} out{cost}"
    )


def _short(count: int) -> str:
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= limit:
            return f"{count / (1000 if unit == 'k' else limit):.1f} {unit}"
    return str(count)


# ---- Printing -----------------------------------------------------------------------------------------------


def _print_votes(votes: dict[str, Any]) -> None:
    from mnistpro_jax.analysis import tables

    rows = [
        (f"repeat {number}", tables.percent(accuracy), "")
        for number, accuracy in enumerate(votes["single_accuracy"], start=1)
    ]
    rows.append(
        (
            f"vote, {votes['episodes']:,} episodes",
            tables.percent(votes["accuracy"]),
            tables.interval(votes["accuracy_ci95"]),
        )
    )
    console = stdout()
    columns = [("answers", "left"), ("accuracy", "right"), ("95 % interval", "right")]
    console.print(tables.plain_table(columns, rows))
    if votes["agreement"] is not None:
        console.print(f"\nOf an episode's runs {tables.percent(votes['agreement'])} gave the winning answer.")
    if not votes["complete"]:
        console.print("Unfinished: not all repeats have come to their end.")


def _print_summary(summary: dict[str, Any]) -> None:
    from mnistpro_jax.analysis import tables

    console = stdout()
    if summary["episodes"]:
        tables.print_summary(console, summary)
    else:
        console.print(f"\n{summary['agent']}: no episode counts yet\n", markup=False)
    if summary["missing"] is not None:
        console.print(f"warning: {summary['missing']['note']}.\n", markup=False)
    statuses = summary["statuses"]
    counted = {"ok", "unparseable"}
    rows = [
        (name.replace("_", " "), f"{count:,}", "yes" if name in counted else "no")
        for name, count in statuses.items()
        if count
    ]
    console.print(
        tables.plain_table(
            [("episodes by status", "left"), ("episodes", "right"), ("in accuracy", "left")], rows
        )
    )
    cost, about = summary["cost"], "about " if summary["estimated_calls"] else ""
    facts = [
        ("calls", f"{summary['calls']:,}"),
        ("replies that said nothing", f"{summary['failed_attempts']:,}"),
        ("tokens in", f"{about}{summary['input_tokens']:,}"),
        ("tokens out", f"{about}{summary['output_tokens']:,}"),
        ("cost", tables.NOTHING if cost is None else f"{about}{cost:.4f}"),
    ]
    if summary["estimated_calls"]:
        facts.append(("calls without a word on tokens", f"{summary['estimated_calls']:,}"))
    reasons = summary["finish_reasons"]
    if set(reasons) - {"stop"}:
        facts.append(
            ("replies ended for", ", ".join(f"{reason} ({count:,})" for reason, count in reasons.items()))
        )
    console.print()
    console.print(tables.plain_table([("used", "left"), ("", "right")], facts))
    _print_problems(console, summary["problems"])
    for one in summary.get("settings", ()):
        with_ = ", ".join(f"{name} = {json.dumps(value)}" for name, value in one["changed"].items())
        console.print(f"{one['episodes']:,} episodes with {with_ or 'the settings of the run'}", markup=False)


def _print_problems(console: Any, problems: dict[str, int]) -> None:
    """The commonest ways in which replies said nothing, with what may help."""
    from mnistpro_jax.host.problems import described

    for number, (problem, count) in enumerate(problems.items()):
        if number == 0:
            console.print("\nreplies that said nothing")
        if number == _PROBLEMS:
            console.print("  ...")
            break
        console.print(f"  {count:,}: {described(problem)}", markup=False)


def _print_dry_run(found: DryRun, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps(
                {
                    "config": found.config,
                    "episodes": found.episodes,
                    "at_most": found.at_most.as_dict(),
                    "assumed": None if found.assumed is None else found.assumed.as_dict(),
                },
                indent=2,
            )
        )
        return
    from mnistpro_jax.analysis import tables

    console = stdout()
    columns = [("episodes of", "left"), *((name, "right") for name in ("calls", "pictures", "tokens in"))]
    columns += [("tokens out", "right"), ("cost", "right")]
    rows = []
    for what, part in (("at most", found.at_most), ("assumed", found.assumed)):
        if part is not None:
            rows.append(
                (
                    f"{part.steps} steps ({what})",
                    f"{part.calls:,}",
                    f"{part.pictures:,}",
                    f"{part.input_tokens:,}",
                    f"{part.output_tokens:,}",
                    tables.NOTHING if part.cost is None else f"{part.cost:.2f}",
                )
            )
    config = found.config
    console.print(
        f"\n{config['model']}, level {config['level']}, memory {config['memory']}: {found.episodes:,} episodes to "
        "play\n",
        markup=False,
    )
    tables.print_tables(console, tables.plain_tables(columns, rows, console.width))
    console.print(
        "\n[dim]Calls and pictures are exact for replies that are understood at once; tokens and cost are estimates "
        "(4 letters a token, 258 tokens a picture unless the price file says otherwise, replies of 60 tokens).[/dim]"
    )
