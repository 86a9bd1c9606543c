"""Models by name: ``openai:gpt-5``, ``openai-compatible`` with a base URL, ``agent:canvas``, ``scripted:random``,
``replay:runs/earlier``."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnistpro_jax.host.contract import Decision, HostPolicy
from mnistpro_jax.host.models.chat_settings import PROVIDERS, ChatSettings
from mnistpro_jax.host.parser import read_glimpse
from mnistpro_jax.host.published_parser import read_published

if TYPE_CHECKING:
    from mnistpro_jax.host.world import HostWorld

_OTHERS = {
    "agent": "an agent of `mnistpro agents`",
    "scripted": "a script, to try things out",
    "replay": "the folder of an earlier run",
}


UNNAMED = "the server's"
"""The one model of a server that was not asked for its name."""


@dataclasses.dataclass(frozen=True)
class ModelChoice:
    """A model by name. kind: a key of ``PROVIDERS``, or "agent", "scripted", "replay". name: what follows the colon.

    chat: settings of a model behind an API, None for others.
    """

    kind: str
    name: str
    chat: ChatSettings | None = None

    @property
    def full_name(self) -> str:
        """As in --model."""
        return f"{self.kind}:{self.name}"


def choose_model(text: str, *, ask: bool = True, **chat: Any) -> ModelChoice:
    """What --model names. chat: fields of ``ChatSettings``, refused (unless None) for models that are not asked.

    ``openai-compatible`` alone asks the server which model it serves (ask: False to leave it at that).
    Raises ValueError for a name that does not exist, or settings that do nothing.
    """
    kind, colon, name = text.partition(":")
    given = {field: value for field, value in chat.items() if value is not None}
    if kind in PROVIDERS:
        if not name:
            if kind != "openai-compatible":
                raise ValueError(f"model {text!r} names no model; expected {kind}:MODEL")
            name = _only_model(ChatSettings(kind, "", **given)) if ask else UNNAMED
        return ModelChoice(kind, name, ChatSettings(kind, name, **given))
    if kind not in _OTHERS or not colon or not name:
        kinds = ", ".join(
            [f"{provider}:MODEL" for provider in PROVIDERS] + [f"{other}:NAME" for other in _OTHERS]
        )
        raise ValueError(f"unknown model {text!r}; expected one of {kinds}")
    used = set(given) - {"timeout"}
    if used:
        options = ", ".join(sorted(field.replace("_", " ") for field in used))
        raise ValueError(
            f"model {text!r} is not behind an API, so that {options} would do nothing; leave it out"
        )
    return ModelChoice(kind, name)


PARSERS: Mapping[str, Callable[..., Decision]] = {"plain": read_glimpse, "published": read_published}
"""What reads a reply of the glimpse protocol, by name."""


def make_policy(
    choice: ModelChoice, world: HostWorld, moves_allowed: bool = True, parser: str = "plain"
) -> HostPolicy:
    """The model, ready to act in a world of glimpses. parser: a key of ``PARSERS``.

    Raises ValueError for an unknown script or agent or a missing key, FileNotFoundError for a folder that holds no
    run, ImportError where the SDK is missing.
    """
    reader = functools.partial(
        PARSERS[parser], num_classes=world.env.num_classes, moves_allowed=moves_allowed
    )
    if choice.chat is not None:
        from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy

        return OpenAIChatPolicy(choice.chat, reader)
    if choice.kind == "scripted":
        from mnistpro_jax.host.models.scripted import ScriptedPolicy

        return ScriptedPolicy(choice.name, reader)
    if choice.kind == "replay":
        from mnistpro_jax.host.models.replay import ReplayPolicy

        return ReplayPolicy(Path(choice.name), world)
    if not moves_allowed:
        raise ValueError("agents explore; the full-image control is for models that look at pictures")
    return _agent(choice.name, world)


def _agent(name: str, world: HostWorld) -> HostPolicy:
    from mnistpro_jax import data
    from mnistpro_jax.agents import Geometry, make_agent
    from mnistpro_jax.agents.registry import reads_with
    from mnistpro_jax.host.models.agents import AgentPolicy

    train = data.load(world.dataset.source, "train") if reads_with(name) == "bank" else None
    return AgentPolicy(
        make_agent(name, Geometry.of(world.env), train, num_classes=world.env.num_classes), world.seed
    )


def _only_model(settings: ChatSettings) -> str:
    from mnistpro_jax.host.models.openai_chat import served_models

    found = asyncio.run(served_models(settings))
    if len(found) != 1:
        listed = ", ".join(found[:5]) or "none"
        raise ValueError(
            f"{settings.url} serves {len(found)} models ({listed}); name one: openai-compatible:MODEL"
        )
    return found[0]
