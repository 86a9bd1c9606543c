"""What ``mnistpro run`` does: a model plays a list of glimpse episodes into a folder, and goes on where it stopped.

outcome = run(RunRequest(model="scripted:random", out=Path("runs/random"), episodes=20))
outcome.summary["accuracy"], outcome.complete
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import mnistpro_jax
from mnistpro_jax import data
from mnistpro_jax.env.types import Ending
from mnistpro_jax.evaluation.request import EvaluationRequest, check
from mnistpro_jax.host import bridge, event_loop, lockstep, protocol, runner
from mnistpro_jax.host.contract import COUNTED, UNFINISHED, HostPolicy, Status
from mnistpro_jax.host.dry_run import DryRun, Forecast, unfinished
from mnistpro_jax.host.forecast import forecast
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.memory import OWN, UNBOUNDED, horizon_of, memory_of
from mnistpro_jax.host.models import PARSERS, UNNAMED, ModelChoice, choose_model, make_policy
from mnistpro_jax.host.models.chat_settings import ChatSettings
from mnistpro_jax.host.prices import Price, load_price
from mnistpro_jax.host.prompts import DEFAULT, TOOLS, load_pack
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.run import Drive, Note, Plan, Record, Report, RunOutcome, Session
from mnistpro_jax.host.run import run as run_plan
from mnistpro_jax.host.tools.chat import ToolPolicy
from mnistpro_jax.host.tools.forecast import forecast as tool_forecast
from mnistpro_jax.host.tools.request import ToolRequest
from mnistpro_jax.host.tools.rules import ToolRules
from mnistpro_jax.host.world import HostWorld, host_world
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.run_folder import RUN, read_run
from mnistpro_jax.runs.summary import RunSettings, summarise

DRIVERS = ("free", "lockstep", "bridge")
MAY_CHANGE = frozenset(
    (
        "temperature",
        "reasoning_effort",
        "max_tokens",
        "model_seed",
        "extra_body",
        "attempts",
        "retry",
        "system",
    )
)
"""Fields of a run's configuration that may be others where episodes are played again: how the model is asked."""
AGAIN = tuple(status.value for status in Status if status not in UNFINISHED | COUNTED)
"""Statuses of episodes that can be played again: those that are over and do not count."""


@dataclasses.dataclass(frozen=True)
class RunRequest:
    """What to run. The fields up to ``repeat`` say what the run is; a folder keeps to them.

    model: see ``models``. level, episodes, source, split, seed, window, stride, budget, outline: as of
    ``evaluation.EvaluationRequest``. memory, horizon: see ``memory``; None: the configuration's own. attempts, retry,
    warning, detail: see ``protocol.Protocol``. prompts: name or file of a prompt pack. enlarge: whole factor of the
    pictures. system: who says the rules, see ``protocol.Protocol``. parser: what reads a reply, a key of
    ``models.PARSERS``. temperature ... extra_body: see ``models.chat_settings.ChatSettings``.

    repeat: of the same run, from 0; added to model_seed, where there is one.

    out: the folder. driver: one of ``DRIVERS``. concurrency: episodes at a time. max_cost: no call begins that might
    lead beyond it, needs price_file. limit: of episodes in this session: the first ones of the list. retries: of a
    call. keep_going: whether the run goes on where no reply says anything. again: statuses of episodes that are over
    and are played again; the fields of ``MAY_CHANGE`` may then be others. base_url ... query, timeout: see
    ``ChatSettings``.
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
    system: str = "system"
    parser: str = "plain"
    tools: ToolRequest | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    model_seed: int | None = None
    extra_body: Mapping[str, Any] | None = None
    repeat: int = 0

    driver: str = "free"
    concurrency: int = 16
    max_cost: float | None = None
    price_file: Path | None = None
    limit: int | None = None
    base_url: str | None = None
    key_variable: str | None = None
    headers: Mapping[str, str] | None = None
    query: Mapping[str, str] | None = None
    retries: int = 5
    timeout: float = 600.0
    keep_going: bool = False
    again: tuple[str, ...] = ()


def run(request: RunRequest, report: Report | None = None, note: Note | None = None) -> RunOutcome:
    """Play the episodes that are not over yet, and write the results of all.

    report: called as replies come. note: called with lines for the user (an interrupt was heard).
    Raises ValueError (LogError included) for a request that makes no sense, before anything is written; OSError where
    the folder cannot be written; ImportError where a package is missing.
    """
    _check(request)
    if request.out is None:
        raise ValueError("a run needs a folder to write to: give --out DIR")
    session = Session(
        folder=request.out,
        concurrency=request.concurrency,
        max_cost=request.max_cost,
        limit=request.limit,
        retries=Retries(most=request.retries),
        keep_going=request.keep_going,
        again=frozenset(map(Status, request.again)),
        driver=request.driver,
        base_url=request.base_url,
        headers=tuple(request.headers or ()),
        query=request.query or {},
    )
    return run_plan(plan_of(request), session, report, note)


def plan_of(request: RunRequest) -> Plan:
    """What a request asks for. Raises as ``run`` does."""
    choice = _choice(request)
    price = _price(request, choice)
    world = _world(request, choice.name if choice.kind == "agent" else "random")
    talk = _protocol(request, world)
    order = None
    if request.tools is not None:
        order = np.random.default_rng(request.tools.order_seed).permutation(len(world)).tolist()
        policy: HostPolicy = _tool_policy(request.tools, choice, talk, order, request.out)
    else:
        policy = make_policy(choice, world, moves_allowed=not talk.memory.full_image, parser=request.parser)
    sittings = GlimpseSittings(world.seen_by(policy), talk, request.enlarge)
    config = _config(request, choice, talk, len(world))
    return Plan(
        units=len(sittings),
        drive=_drive(
            request.driver, sittings, policy, in_order=request.tools is not None and request.tools.has_notes
        ),
        config=config,
        summary=functools.partial(
            _summary, settings=_settings(request, choice, world, config), config=config
        ),
        price=price,
        max_tokens=request.max_tokens,
        may_change=MAY_CHANGE,
        order=order,
    )


def _tool_policy(
    tools: ToolRequest, choice: ModelChoice, talk: Protocol, order: Sequence[int], folder: Path | None
) -> HostPolicy:
    chat = _refuse_without_chat(choice)
    # With the SDK, which is an extra.
    from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy

    rules = ToolRules(talk.world, talk.prompts, tools)
    return ToolPolicy(OpenAIChatPolicy(chat), rules, order, folder, horizon=talk.horizon)


def _refuse_without_chat(choice: ModelChoice) -> ChatSettings:
    if choice.chat is None:
        raise ValueError(
            f"model {choice.full_name!r} is not behind an API; tools are called by models behind chat completions"
        )
    return choice.chat


def glimpses(request: RunRequest) -> GlimpseSittings:
    """The episodes of a request, as its protocol shows them, for a player who is none of its models.

    Raises as ``run`` does.
    """
    _check(request)
    world = _world(request, "random")
    return GlimpseSittings(world, _protocol(request, world), request.enlarge)


def _drive(driver: str, sittings: GlimpseSittings, policy: HostPolicy, in_order: bool) -> Drive:
    if driver == "bridge":
        return functools.partial(bridge.play, sittings, policy)
    if in_order:
        return functools.partial(event_loop.drive, runner.play, sittings, policy, in_order=True)
    play = runner.play if driver == "free" else lockstep.play
    return functools.partial(event_loop.drive, play, sittings, policy)


def _check(request: RunRequest) -> None:
    for name in ("concurrency", "attempts", "enlarge", "level"):
        if getattr(request, name) < 1:
            raise ValueError(f"{name} is {getattr(request, name)}; expected 1 or more")
    if request.driver not in DRIVERS:
        raise ValueError(f"driver is {request.driver!r}; expected one of {', '.join(DRIVERS)}")
    if request.tools is not None:
        _check_tools(request)
    if request.parser not in PARSERS:
        raise ValueError(f"parser is {request.parser!r}; expected one of {', '.join(PARSERS)}")
    if not set(request.again) <= set(AGAIN):
        raise ValueError(f"again is {', '.join(request.again)}; expected some of {', '.join(AGAIN)}")
    if request.max_cost is not None and request.price_file is None:
        raise ValueError("a limit of cost needs prices: give --price-file as well")
    horizon_of(memory_of(request.memory), request.horizon)


_OF_TURNS = (
    *("driver", "memory", "attempts", "retry", "warning", "detail", "system", "parser"),
    # An episode that is over has handed its notes on.
    "again",
)
"""What a player with tools has no use for."""


def _check_tools(request: RunRequest) -> None:
    own = {field.name: field.default for field in dataclasses.fields(RunRequest)}
    for name in _OF_TURNS:
        if getattr(request, name) != own[name]:
            raise ValueError(
                f"{name} is {getattr(request, name)!r}, which is not for a player with tools; leave it out"
            )


def _choice(request: RunRequest, ask: bool = True) -> ModelChoice:
    defaults = {field.name: field.default for field in dataclasses.fields(RunRequest)}
    chat = {
        "base_url": request.base_url,
        "key_variable": request.key_variable,
        "temperature": request.temperature,
        "reasoning_effort": request.reasoning_effort,
        "max_tokens": request.max_tokens,
        "seed": None if request.model_seed is None else request.model_seed + request.repeat,
        "extra_body": request.extra_body,
        "headers": request.headers or None,
        "query": request.query or None,
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
    if request.tools is not None:
        prompts = load_pack(TOOLS if request.prompts == DEFAULT else request.prompts, TOOLS)
        horizon = UNBOUNDED if request.horizon is None else request.horizon
        return Protocol(world.rules, OWN, horizon, prompts, attempts=1)
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
        system=request.system,
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
        **shown_config(request, talk, episodes),
        "temperature": request.temperature,
        "reasoning_effort": request.reasoning_effort,
        "max_tokens": request.max_tokens,
        "model_seed": request.model_seed,
        "extra_body": None if request.extra_body is None else dict(request.extra_body),
        **({"repeat": request.repeat} if request.repeat else {}),
    }


def shown_config(request: RunRequest, talk: Protocol, episodes: int) -> dict[str, Any]:
    """The part of a run's configuration that says what its player is shown and how its replies are read."""
    return {
        "level": request.level,
        "memory": talk.memory.name,
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
        "system": None if request.system == "system" else request.system,
        "parser": None if request.parser == "plain" else request.parser,
        **({} if request.tools is None else request.tools.config(talk.world.budget)),
    }


# ---- Results ------------------------------------------------------------------------------------------------


def _settings(
    request: RunRequest, choice: ModelChoice, world: HostWorld, config: Mapping[str, Any]
) -> RunSettings:
    return RunSettings(
        level=request.level,
        window=world.env.window,
        stride=world.env.stride,
        budget=world.budget,
        outline=world.env.outline,
        source=world.dataset.source,
        split=world.dataset.split,
        episode_list=config["episode_list"],
        num_classes=world.env.num_classes,
        agent=choice.full_name,
        confidence=None,
        seed=request.seed,
    )


def _summary(
    records: Sequence[Record], *, settings: RunSettings, config: Mapping[str, Any]
) -> dict[str, Any]:
    """``runs.summary.summarise`` of the episodes that count, and the memory that they were played with."""
    if records:
        summary = summarise(Outcomes.of_records(records), settings)
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
    return {**summary, **{name: config[name] for name in ("memory", "horizon", "prompts")}}


# ---- Dry run ------------------------------------------------------------------------------------------------


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
    if request.tools is not None:
        _refuse_without_chat(choice)
    elif choice.chat is None:
        make_policy(choice, world, moves_allowed=not talk.memory.full_image)
    config = _config(request, choice, talk, len(world))
    episodes = len(world) if request.limit is None else min(request.limit, len(world))
    if request.out is not None:
        if choice.name == UNNAMED and (request.out / RUN).is_file():
            config["model"] = read_run(request.out)["config"].get("model")
        may_change = MAY_CHANGE if request.again else frozenset()
        episodes = unfinished(request.out, config, episodes, request.again, may_change)

    def of(steps: int) -> Forecast:
        if request.tools is None:
            return forecast(talk, episodes, steps, price, reply_tokens)
        rules = ToolRules(talk.world, talk.prompts, request.tools)
        return tool_forecast(rules, talk.horizon, episodes, steps, price, reply_tokens)

    return DryRun(config, episodes, of(talk.world.budget), None if steps is None else of(steps))
