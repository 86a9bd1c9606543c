"""What ``mnistpro run`` does: a model plays a list of episodes into a folder, and goes on where it stopped.

outcome = run(RunRequest(model="scripted:random", out=Path("runs/random"), episodes=20))
outcome.summary["accuracy"], outcome.complete
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mnistpro_jax
from mnistpro_jax import data
from mnistpro_jax.env.types import Ending
from mnistpro_jax.evaluation.request import EvaluationRequest, check
from mnistpro_jax.host import bridge, event_loop, lockstep, protocol, runner
from mnistpro_jax.host.contract import COUNTED, UNFINISHED, HostPolicy, Status, StopRun
from mnistpro_jax.host.episode import Played, finished_before
from mnistpro_jax.host.heap import settled_heap
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.log import (
    RUN,
    EpisodeLog,
    RunFolder,
    log_path,
    read_events,
    read_run,
    refuse_changes,
)
from mnistpro_jax.host.memory import horizon_of, memory_of
from mnistpro_jax.host.models import UNNAMED, ModelChoice, choose_model, make_policy
from mnistpro_jax.host.prices import Forecast, Price, forecast, load_price
from mnistpro_jax.host.prompts import DEFAULT, load_pack
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.world import HostWorld, host_world
from mnistpro_jax.runs import folder as names
from mnistpro_jax.runs.json_files import write_json, write_jsonl
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.summary import RunSettings, summarise

DRIVERS = ("free", "lockstep", "bridge")
_REFRESH_S = 10.0


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """What to run. The fields up to ``extra_body`` say what the run is; a folder keeps to them.

    model: see ``models``. level, episodes, source, split, seed, window, stride, budget, outline: as of
    ``evaluation.EvaluationRequest``. memory, horizon: see ``memory``; None: the configuration's own. attempts, retry,
    warning, detail: see ``protocol.Protocol``. prompts: name or file of a prompt pack. enlarge: whole factor of the
    pictures. temperature ... extra_body: see ``models.openai_chat.ChatSettings``.
    out: the folder. driver: one of ``DRIVERS``. concurrency: episodes at a time. max_cost: no call begins that might
    lead beyond it, needs price_file. limit: of episodes in this session: the first ones of the list.
    """

    model: str
    out: Path | None = None
    level: int = 1
    memory: str = "image-only"
    horizon: int | None = None
    episodes: int | None = None
    source: str = "mnist"
    split: str = "test"
    seed: int = 0
    window: int = 64
    stride: int = 32
    budget: int | None = None
    outline: bool = True
    attempts: int = 3
    retry: str = "repeat"
    warning: bool = True
    detail: str | None = None
    prompts: str = DEFAULT
    enlarge: int = 1
    temperature: float | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    model_seed: int | None = None
    extra_body: Mapping[str, Any] | None = None

    driver: str = "free"
    concurrency: int = 16
    max_cost: float | None = None
    price_file: Path | None = None
    limit: int | None = None
    base_url: str | None = None
    key_variable: str | None = None
    retries: int = 5
    timeout: float = 600.0


@dataclasses.dataclass(frozen=True)
class Standing:
    """How far a run is. accuracy: of the counted episodes so far, None without any. cost: None without a price."""

    finished: int
    total: int
    counted: int
    accuracy: float | None
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


Report = Callable[[Standing], None]
Note = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class RunOutcome:
    """What a session came to. complete: whether every episode of the list is over. problem: why not, for people.

    interrupted: whether the user stopped it. stopped: whether an episode that it was to play is not over.
    """

    summary: dict[str, Any]
    complete: bool
    interrupted: bool
    stopped: bool
    problem: str | None


def run(request: RunRequest, report: Report | None = None, note: Note | None = None) -> RunOutcome:
    """Play the episodes that are not over yet, and write the results of all.

    report: called as replies come. note: called with lines for the user (an interrupt was heard).
    Raises ValueError (LogError included) for a request that makes no sense, before anything is written; OSError where
    the folder cannot be written; ImportError where a package is missing.
    """
    if request.out is None:
        raise ValueError("a run needs a folder to write to: give --out DIR")
    prepared = _prepare(request)
    with RunFolder(request.out, prepared.config, _session(request)) as folder:
        return _play(
            request, prepared, folder, report or (lambda standing: None), note or (lambda line: None)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class _Prepared:
    choice: ModelChoice
    world: HostWorld
    protocol: Protocol
    policy: HostPolicy
    price: Price | None
    config: dict[str, Any]


def _prepare(request: RunRequest) -> _Prepared:
    _check(request)
    choice = _choice(request)
    price = _price(request, choice)
    world = _world(request, choice.name if choice.kind == "agent" else "random")
    talk = _protocol(request, world)
    policy = make_policy(choice, world, moves_allowed=not talk.memory.full_image)
    return _Prepared(
        choice, world.seen_by(policy), talk, policy, price, _config(request, choice, talk, len(world))
    )


def _check(request: RunRequest) -> None:
    for name in ("concurrency", "attempts", "enlarge", "level"):
        if getattr(request, name) < 1:
            raise ValueError(f"{name} is {getattr(request, name)}; expected 1 or more")
    if request.driver not in DRIVERS:
        raise ValueError(f"driver is {request.driver!r}; expected one of {', '.join(DRIVERS)}")
    if request.max_cost is not None and request.price_file is None:
        raise ValueError("a limit of cost needs prices: give --price-file as well")
    horizon_of(memory_of(request.memory), request.horizon)


def _choice(request: RunRequest, ask: bool = True) -> ModelChoice:
    defaults = {field.name: field.default for field in dataclasses.fields(RunRequest)}
    chat = {
        "base_url": request.base_url,
        "key_variable": request.key_variable,
        "temperature": request.temperature,
        "reasoning_effort": request.reasoning_effort,
        "max_tokens": request.max_tokens,
        "seed": request.model_seed,
        "extra_body": request.extra_body,
        "retries": request.retries if request.retries != defaults["retries"] else None,
        "timeout": request.timeout if request.timeout != defaults["timeout"] else None,
    }
    return choose_model(request.model, ask=ask, **chat)


def _price(request: RunRequest, choice: ModelChoice) -> Price | None:
    return None if request.price_file is None else load_price(request.price_file, choice.name)


def _world(request: RunRequest, agent: str) -> HostWorld:
    """agent: of ``mnistpro agents``, whose demands are checked; "random" has none."""
    budget = 1 if memory_of(request.memory).full_image else request.budget
    wanted = EvaluationRequest(
        level=request.level,
        agent=agent,
        episodes=request.episodes,
        source=request.source,
        split=request.split,
        seed=request.seed,
        window=request.window,
        stride=request.stride,
        budget=budget,
        outline=request.outline,
    )
    check(wanted)
    return host_world(wanted, data.load(request.source, request.split))


def _protocol(request: RunRequest, world: HostWorld) -> Protocol:
    memory = memory_of(request.memory)
    return Protocol(
        world=world.rules,
        memory=memory,
        horizon=horizon_of(memory, request.horizon),
        prompts=load_pack(request.prompts),
        attempts=request.attempts,
        warning=request.warning,
        retry=request.retry,
        detail=request.detail,
    )


def _config(request: RunRequest, choice: ModelChoice, talk: Protocol, episodes: int) -> dict[str, Any]:
    """What makes the run this run: what its folder keeps to."""
    server = None
    if choice.chat is not None:
        # A local server may come back on another port and is still the same.
        server = "local" if choice.chat.is_local else urlsplit(choice.chat.url).netloc
    return {
        "model": choice.full_name,
        "server": server,
        "level": request.level,
        "memory": request.memory,
        "horizon": talk.horizon,
        "attempts": talk.attempts,
        "retry": talk.retry,
        "last_turn_warning": talk.warning,
        "prompts": talk.prompts.name,
        "prompts_sha256": talk.prompts.digest,
        "protocol_version": protocol.VERSION,
        "episode_list": "published" if request.episodes is None else "random",
        "episodes": episodes,
        "source": request.source,
        "split": request.split,
        "seed": request.seed,
        "window": talk.world.window,
        "stride": talk.world.stride,
        "budget": talk.world.budget,
        "outline": talk.world.outline,
        "enlarge": request.enlarge,
        "detail": request.detail,
        "temperature": request.temperature,
        "reasoning_effort": request.reasoning_effort,
        "max_tokens": request.max_tokens,
        "model_seed": request.model_seed,
        "extra_body": None if request.extra_body is None else dict(request.extra_body),
    }


def _session(request: RunRequest) -> dict[str, Any]:
    return {
        "version": mnistpro_jax.__version__,
        "driver": request.driver,
        "concurrency": request.concurrency,
        "base_url": request.base_url,
        "max_cost": request.max_cost,
        "limit": request.limit,
    }


# ---- Playing ------------------------------------------------------------------------------------------------


def _play(
    request: RunRequest, prepared: _Prepared, folder: RunFolder, report: Report, note: Note
) -> RunOutcome:
    world = prepared.world
    ledger = Ledger(
        price=prepared.price,
        max_cost=request.max_cost,
        max_tokens=request.max_tokens,
        patience=max(8, request.concurrency),
        on_interrupt=lambda: note(
            "interrupted: waiting for the calls under way, which are paid for (once more to give them up)"
        ),
    )
    records: dict[int, dict[str, Any]] = {}
    over: set[int] = set()
    begun: set[int] = set()
    for number in range(len(world)):
        log = folder.episode(number)
        for reply in log.replies():
            ledger.count(reply)
            begun.add(number)
        played = finished_before(log, ledger)
        if played is not None:
            over.add(number)
            records[number] = played.record
    refreshed = time.monotonic()

    def standing() -> Standing:
        counted = [record["correct"] for record in records.values() if record["status"] in COUNTED]
        return Standing(
            finished=len(over),
            total=len(world),
            counted=len(counted),
            accuracy=sum(counted) / len(counted) if counted else None,
            calls=ledger.calls,
            input_tokens=ledger.usage.input_tokens,
            output_tokens=ledger.usage.output_tokens,
            cost=None if ledger.price is None else ledger.cost,
        )

    def done(played: Played) -> None:
        nonlocal refreshed
        if played.status not in UNFINISHED:
            over.add(played.episode)
        if played.record["calls"]:
            records[played.episode] = played.record
        if time.monotonic() - refreshed > _REFRESH_S:
            write_jsonl(folder.path / names.EPISODES, [records[number] for number in sorted(records)])
            refreshed = time.monotonic()
        report(standing())

    ledger.on_call = lambda: report(standing())
    report(standing())
    limit = len(world) if request.limit is None else min(request.limit, len(world))
    waiting = [number for number in range(limit) if number not in over]
    _drive(request, prepared, waiting, ledger, folder.episode, done)

    listed = [records[number] for number in sorted(records)]
    left_out = len(begun - records.keys())
    summary = summary_of(listed, _settings(request, prepared), prepared.config, ledger, len(world), left_out)
    # Where the run stopped because nothing can be written, that is the message, not this.
    with contextlib.suppress(OSError) if ledger.fault is not None else contextlib.nullcontext():
        write_jsonl(folder.path / names.EPISODES, listed)
        write_json(folder.path / names.SUMMARY, summary)
    complete = len(over) == len(world)
    stopped = any(number not in over for number in range(limit))
    return RunOutcome(
        summary, complete, ledger.interrupted, stopped, _problem(ledger, summary, complete, request)
    )


def _drive(
    request: RunRequest,
    prepared: _Prepared,
    waiting: Sequence[int],
    ledger: Ledger,
    logs: Callable[[int], EpisodeLog],
    done: Callable[[Played], None],
) -> None:
    world, talk, policy = prepared.world, prepared.protocol, prepared.policy
    if not waiting:
        return
    if request.driver == "bridge":
        bridge.play(
            world,
            talk,
            policy,
            waiting,
            ledger=ledger,
            logs=logs,
            concurrency=request.concurrency,
            enlarge=request.enlarge,
            done=done,
        )
        return
    driver = runner.play if request.driver == "free" else lockstep.play
    world.warm_up()

    async def session() -> None:
        with _interrupts(ledger):
            try:
                await driver(
                    world,
                    talk,
                    policy,
                    waiting,
                    ledger=ledger,
                    logs=logs,
                    concurrency=request.concurrency,
                    enlarge=request.enlarge,
                    done=done,
                )
            finally:
                await policy.close()

    try:
        with settled_heap():
            event_loop.run(session())
    except asyncio.CancelledError:
        ledger.interrupted = True  # the second interrupt: calls under way were given up


@contextlib.contextmanager
def _interrupts(ledger: Ledger) -> Iterator[None]:
    """The first interrupt lets the calls under way end, the second one gives them up."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def heard() -> None:
        if ledger.interrupted:
            task.cancel()
            return
        ledger.interrupt()

    installed = []
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not the main thread, or a system without them: then interrupts arrive as Python delivers them.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, heard)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


# ---- Results ------------------------------------------------------------------------------------------------


def _settings(request: RunRequest, prepared: _Prepared) -> RunSettings:
    world = prepared.world
    return RunSettings(
        level=request.level,
        window=world.env.window,
        stride=world.env.stride,
        budget=world.budget,
        outline=world.env.outline,
        source=world.dataset.source,
        split=world.dataset.split,
        episode_list=prepared.config["episode_list"],
        num_classes=world.env.num_classes,
        agent=prepared.choice.full_name,
        confidence=None,
        seed=request.seed,
    )


def summary_of(
    records: Sequence[Mapping[str, Any]],
    settings: RunSettings,
    config: Mapping[str, Any],
    ledger: Ledger,
    planned: int,
    left_out: int = 0,
) -> dict[str, Any]:
    """``analysis.summary.summarise`` of the episodes that count, and what the run took.

    left_out: episodes without a record that an interrupted session began and this one's limit left alone; they are
    still "cancelled". Holds nothing that a resumed run would have otherwise (no clock). statuses: episodes by status;
    "not_started" ones are those without a call. calls, tokens and cost: of all replies, those of episodes that do
    not count included.
    """
    counted = [dict(record) for record in records if record["status"] in COUNTED]
    if counted:
        summary = summarise(Outcomes.of_records(counted), settings)
    else:
        summary = {
            "agent": settings.agent,
            "level": settings.level,
            "episodes": 0,
            "episode_list": settings.episode_list,
            "accuracy": None,
            "accuracy_ci95": None,
            "average_steps": None,
            "endings": {ending.name: 0 for ending in Ending if ending != Ending.RUNNING},
            "version": mnistpro_jax.__version__,
        }
    statuses = collections.Counter(record["status"] for record in records)
    statuses[Status.CANCELLED.value] += left_out
    return {
        **summary,
        "memory": config["memory"],
        "horizon": config["horizon"],
        "prompts": config["prompts"],
        "planned_episodes": planned,
        "statuses": {
            **{status.value: statuses[status.value] for status in Status},
            "not_started": planned - len(records) - left_out,
        },
        "calls": ledger.calls,
        "failed_attempts": sum(record["failed_attempts"] for record in records),
        "input_tokens": ledger.usage.input_tokens,
        "output_tokens": ledger.usage.output_tokens,
        "cached_tokens": ledger.usage.cached_tokens,
        "reasoning_tokens": ledger.usage.reasoning_tokens,
        # Of the totals: a sum of floats would depend on the order in which replies came.
        "cost": ledger.cost_of(ledger.usage),
    }


def _problem(ledger: Ledger, summary: Mapping[str, Any], complete: bool, request: RunRequest) -> str | None:
    if complete:
        return None
    again = "run the same command to go on"
    left = summary["planned_episodes"] - sum(
        count for status, count in summary["statuses"].items() if status not in (*UNFINISHED, "not_started")
    )
    many = f"{left} of {summary['planned_episodes']} episodes are not over"
    if ledger.fault is not None:
        return f"{ledger.fault}; {many}; once that is mended, {again}"
    if ledger.interrupted:
        return f"interrupted; {many}; {again}"
    if summary["statuses"][Status.BUDGET_SPENT]:
        spent = f"the limit of cost, {request.max_cost:g}, is reached ({ledger.cost:.4f} spent)"
        return f"{spent}; {many}; raise --max-cost to go on"
    if ledger.failures:
        common, count = ledger.failures.most_common(1)[0]
        return f"calls failed ({count} times: {common}); {many}; {again}"
    if request.limit is not None:
        return f"{many}; without --limit, the same command plays them"
    return f"{many}; {again}"


# ---- Dry run ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a run would take. episodes: those that are not over yet. at_most: every episode uses its whole budget.

    assumed: episodes of an assumed length, None without one.
    """

    config: dict[str, Any]
    episodes: int
    at_most: Forecast
    assumed: Forecast | None


def dry_run(request: RunRequest, steps: int | None = None, reply_tokens: int = 60) -> DryRun:
    """Count what a run would take, without any call. steps: an assumed length of an episode.

    Raises as ``run`` does.
    """
    _check(request)
    choice = _choice(request, ask=False)
    if choice.name == UNNAMED and request.price_file is not None:
        raise ValueError(
            "prices are of a model, and nobody is asked which one it is: openai-compatible:MODEL"
        )
    price = _price(request, choice)
    world = _world(request, "random")
    talk = _protocol(request, world)
    if choice.chat is None:
        make_policy(choice, world, moves_allowed=not talk.memory.full_image)
    config = _config(request, choice, talk, len(world))
    episodes = len(world) if request.limit is None else min(request.limit, len(world))
    if request.out is not None and (request.out / RUN).is_file():
        before = read_run(request.out)["config"]
        if choice.name == UNNAMED:
            config["model"] = before.get("model")
        refuse_changes(before, config, request.out / RUN)
        # Read alone: another process may be at work in the folder.
        logs = [read_events(log_path(request.out, number)) for number in range(episodes)]
        episodes = sum(not events or events[-1]["event"] != "end" for events in logs)
    return DryRun(
        config,
        episodes,
        forecast(talk, episodes, talk.world.budget, price, reply_tokens),
        None if steps is None else forecast(talk, episodes, steps, price, reply_tokens),
    )


__all__ = ["DRIVERS", "DryRun", "RunOutcome", "RunRequest", "Standing", "StopRun", "dry_run", "run"]
