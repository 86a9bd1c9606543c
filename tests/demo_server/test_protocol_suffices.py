"""The protocol of host agents tells all that an agent needs: the player plays from its messages alone."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.demo_server.conversation import read_request
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.host import runner
from mnistpro_jax.host.contract import HostPolicy, Turn
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.memory import UNBOUNDED, memory_of
from mnistpro_jax.host.models.agents import AgentPolicy
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.parser import read_glimpse
from mnistpro_jax.host.prompts import load_pack
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.world import HostWorld, host_world
from tests.episodes import mnist_test

EPISODES = 5


class Demo(TextPolicy):
    """The demo server's player without the server."""

    def __init__(self, player: Player, moves_allowed: bool = True) -> None:
        super().__init__(functools.partial(read_glimpse, moves_allowed=moves_allowed))
        self._player = player

    async def reply(self, turn: Turn) -> Reply:
        """See ``TextPolicy``."""
        return Reply(self._player.decide(read_request({"messages": list(turn.messages)})).text)


@pytest.fixture(scope="module")
def world() -> HostWorld:
    return host_world(EvaluationRequest(level=1, episodes=EPISODES, seed=1), mnist_test())


def play(
    world: HostWorld, policy: HostPolicy, memory: str, horizon: int, enlarge: int = 1
) -> list[dict[str, Any]]:
    talk = Protocol(world.rules, memory_of(memory), horizon, load_pack())
    sittings = GlimpseSittings(world, talk, enlarge)
    played = asyncio.run(runner.play(sittings, policy, range(EPISODES), concurrency=1))
    return [one.record for one in played]


@pytest.fixture(scope="module")
def planned(world: HostWorld) -> list[dict[str, Any]]:
    """What the planner does that is given the canvas itself."""
    policy = AgentPolicy(make_agent("planner", Geometry.of(world.env)), seed=0)
    return play(world.seen_by(policy), policy, "image-only", UNBOUNDED)


@pytest.mark.parametrize(
    ("memory", "horizon", "enlarge"),
    [("image-only", UNBOUNDED, 1), ("textual", 1, 2), ("grid-map", 1, 1), ("natural", UNBOUNDED, 1)],
)
def test_memories_that_lose_nothing(
    world: HostWorld, player: Player, planned: list[dict[str, Any]], memory: str, horizon: int, enlarge: int
) -> None:
    for record, expected in zip(play(world, Demo(player), memory, horizon, enlarge), planned, strict=True):
        assert record["status"] == "ok"
        for name in ("windows", "actions", "answer", "ending", "correct"):
            assert record[name] == expected[name], name


@pytest.mark.parametrize(
    ("memory", "horizon"), [("canvas", 1), ("canvas+grid-map", 1), ("image-only", 4), ("event-log", 1)]
)
def test_other_memories_are_played_to_the_end(
    world: HostWorld, player: Player, memory: str, horizon: int
) -> None:
    records = play(world, Demo(player), memory, horizon)
    assert {record["ending"] for record in records} == {"ANSWERED"}
    assert sum(record["correct"] for record in records) >= (1 if memory == "event-log" else EPISODES - 1)


def test_the_control_takes_one_turn(player: Player) -> None:
    single = host_world(EvaluationRequest(level=1, episodes=EPISODES, seed=1, budget=1), mnist_test())
    records = play(single, Demo(player, moves_allowed=False), "full-image", 1)
    assert all(record["correct"] and record["steps"] == 1 for record in records)
