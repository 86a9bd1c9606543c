"""Agents and protocols for the tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from mnistpro_jax.host import bridge, lockstep, runner
from mnistpro_jax.host.contract import Decision, HostPolicy, Status, Turn
from mnistpro_jax.host.episode import Played
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


DRIVERS: dict[str, Callable[..., list[Played]]] = {
    "free": lambda *arguments, **options: asyncio.run(runner.play(*arguments, **options)),
    "lockstep": lambda *arguments, **options: asyncio.run(lockstep.play(*arguments, **options)),
    "bridge": bridge.play,
}


def records(played: Sequence[Played]) -> list[dict[str, Any]]:
    """Records without the clock."""
    return [{name: value for name, value in one.record.items() if name != "latency_s"} for one in played]
