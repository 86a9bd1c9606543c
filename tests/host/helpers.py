"""Agents and protocols for the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from mnistpro_jax.host import bridge, lockstep, runner
from mnistpro_jax.host.attempts import Played
from mnistpro_jax.host.contract import Decision, HostPolicy, Status, Turn
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.memory import horizon_of, memory_of
from mnistpro_jax.host.prompts import load_pack
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.world import HostWorld


def protocol(world: HostWorld, memory: str = "image-only", **changes: Any) -> Protocol:
    chosen = memory_of(memory)
    return Protocol(world.rules, chosen, horizon_of(chosen, None), load_pack(), **changes)


class Telling(HostPolicy):
    """Does what a function says, and counts."""

    def __init__(self, tell: Callable[[Turn], Decision], latency: float = 0.0) -> None:
        self.tell = tell
        self.latency = latency
        self.turns: list[Turn] = []

    async def act(self, turn: Turn) -> Decision:
        self.turns.append(turn)
        await asyncio.sleep(self.latency)
        return self.tell(turn)


def up(turn: Turn) -> Decision:
    return Decision(Status.OK, "up", text="up it is")


def play(
    world: HostWorld,
    talk: Protocol,
    policy: HostPolicy,
    numbers: Sequence[int],
    enlarge: int = 1,
    **options: Any,
) -> list[Played]:
    """Play glimpse episodes by the free driver."""
    return asyncio.run(runner.play(GlimpseSittings(world, talk, enlarge), policy, numbers, **options))


def _lockstep(
    world: HostWorld, talk: Protocol, policy: HostPolicy, numbers: Sequence[int], **options: Any
) -> list[Played]:
    return asyncio.run(lockstep.play(GlimpseSittings(world, talk), policy, numbers, **options))


def _bridge(
    world: HostWorld, talk: Protocol, policy: HostPolicy, numbers: Sequence[int], **options: Any
) -> list[Played]:
    return bridge.play(GlimpseSittings(world, talk), policy, numbers, **options)


def rollout(
    world: HostWorld, talk: Protocol, policy: HostPolicy, numbers: Sequence[int], **options: Any
) -> bridge.BridgeResult:
    """One batch through the bridge."""
    return bridge.rollout(GlimpseSittings(world, talk), policy, numbers, **options)


DRIVERS: dict[str, Callable[..., list[Played]]] = {"free": play, "lockstep": _lockstep, "bridge": _bridge}


def records(played: Sequence[Played]) -> list[dict[str, Any]]:
    """Records without the clock."""
    return [{name: value for name, value in one.record.items() if name != "latency_s"} for one in played]
