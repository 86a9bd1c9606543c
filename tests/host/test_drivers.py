"""The three drivers play equal trajectories; JAX agents through them play what a rollout plays."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import jax
import numpy as np
import pytest

from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.env.types import Kind
from mnistpro_jax.host import bridge_program
from mnistpro_jax.host.contract import Decision, Status, StopRun, Turn
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.models.agents import AgentPolicy
from mnistpro_jax.host.models.scripted import ScriptedPolicy
from mnistpro_jax.host.world import HostWorld
from mnistpro_jax.rollouts import rollout as rollouts
from mnistpro_jax.runs.from_rollout import episode_records
from tests.host.conftest import EPISODES
from tests.host.helpers import DRIVERS, Telling, play, protocol, records, rollout, up

ALL = range(EPISODES)


def log_lines(log: EpisodeLog) -> list[dict[str, Any]]:
    clock = ("time", "latency_s")
    lines = [{name: value for name, value in event.items() if name not in clock} for event in log.events]
    for line in lines:
        if "record" in line:
            line["record"] = {name: value for name, value in line["record"].items() if name != "latency_s"}
    return lines


@pytest.mark.parametrize("script", ["circle", "clumsy", "mute"])
def test_equal_trajectories_and_logs(world: HostWorld, script: str) -> None:
    """Whatever drives it, an agent gets the same requests and leaves the same log, to the last letter."""
    outcomes = {}
    for name, drive in DRIVERS.items():
        logs = {number: EpisodeLog(number) for number in ALL}
        played = drive(
            world, protocol(world), ScriptedPolicy(script), ALL, logs=logs.__getitem__, concurrency=EPISODES
        )
        outcomes[name] = records(played), [log_lines(log) for log in logs.values()]
    assert outcomes["free"] == outcomes["lockstep"] == outcomes["bridge"]


def faulty(turn: Turn) -> Decision:
    """One fault for every episode, on its third turn; episode 0 has none."""
    faults = [None, Status.REFUSED, Status.TRUNCATED, Status.API_ERROR, Status.UNPARSEABLE, None]
    fault = faults[turn.episode]
    if turn.step == 2 and fault is not None:
        return Decision(fault, text="no", problem="as ordered")
    if turn.step == 4:
        return Decision(Status.OK, "answer", (7,))
    return up(turn)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_fault_stops_its_episode_alone(world: HostWorld, driver: str) -> None:
    played = DRIVERS[driver](world, protocol(world), Telling(faulty), ALL, concurrency=EPISODES)
    assert [one.status.value for one in played] == [
        *("ok", "refused", "truncated", "api_error", "unparseable", "ok")
    ]
    found = records(played)
    assert [record["ending"] for record in found] == [
        *("ANSWERED", "RUNNING", "RUNNING", "RUNNING", "INVALID_ACTION", "ANSWERED")
    ]
    # A fault is never scored; what the agent itself spoilt is wrong.
    assert [record["correct"] is None for record in found] == [False, True, True, True, False, False]
    assert found[4]["correct"] is False and found[4]["actions"] == ["up", "up", "invalid"]
    assert [record["steps"] for record in found] == [5, 2, 2, 2, 3, 5]
    assert found[1]["calls"] == 5 and found[1]["failed_attempts"] == 3
    assert [len(record["windows"]) for record in found] == [5, 3, 3, 3, 3, 5]


@pytest.mark.parametrize("driver", ["free", "bridge"])
def test_another_geometry_and_two_digits(pair_world: HostWorld, driver: str) -> None:
    def tell(turn: Turn) -> Decision:
        if turn.episode == 1 and turn.step == 3:
            return Decision(Status.OK, "answer", pair_world.labels(1))
        return Decision(Status.OK, ("right", "down")[turn.step % 2])

    policy = Telling(tell)
    played = DRIVERS[driver](pair_world, protocol(pair_world, "grid-map"), policy, range(3), concurrency=3)
    found = records(played)
    assert [record["ending"] for record in found] == ["STEP_LIMIT", "ANSWERED", "STEP_LIMIT"]
    assert [record["correct"] for record in found] == [False, True, False]
    # The last move of a spent budget reaches a window that nobody is shown.
    assert [len(record["windows"]) for record in found] == [8, 4, 8]
    assert max(turn.step for turn in policy.turns) == 6


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_fault_of_the_run_stops_all(world: HostWorld, driver: str) -> None:
    def tell(turn: Turn) -> Decision:
        if turn.episode == 2:
            raise StopRun("the quota is used up")
        return up(turn)

    ledger = Ledger()
    played = DRIVERS[driver](world, protocol(world), Telling(tell), ALL, ledger=ledger, concurrency=EPISODES)
    assert str(ledger.fault) == "the quota is used up"
    assert {one.status for one in played} == {Status.CANCELLED}
    assert all(record["correct"] is None for record in records(played))


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_agent_that_fails_stops_the_run_with_its_error(world: HostWorld, driver: str) -> None:
    def tell(turn: Turn) -> Decision:
        raise KeyError("lost")

    ledger = Ledger()
    DRIVERS[driver](world, protocol(world), Telling(tell), ALL, ledger=ledger, concurrency=EPISODES)
    assert "KeyError: 'lost'" in str(ledger.fault)


@pytest.mark.parametrize("driver", DRIVERS)
def test_jax_agents_play_as_in_a_rollout(world: HostWorld, driver: str) -> None:
    """The same seed gives the records of `mnistpro evaluate`, whichever driver steps the world."""
    policy = make_agent("random", Geometry.of(world.env))
    expected = episode_records(
        rollouts.rollout(
            jax.random.key(world.seed),
            world.env,
            world.params,
            policy,
            EPISODES,
            scenes=world.scenes,
            batch_size=EPISODES,
        ),
        world.env.height * world.env.width,
    )
    mine = AgentPolicy(policy, world.seed)
    played = DRIVERS[driver](world.seen_by(mine), protocol(world), mine, ALL, concurrency=EPISODES)
    for record, wanted in zip(records(played), expected, strict=True):
        assert {name: record[name] for name in wanted} == wanted


# ---- Free-running -------------------------------------------------------------------------------------------


def test_episodes_wait_for_nobody(world: HostWorld) -> None:
    """With one slow episode, the others are over before its second turn."""

    class Slow(Telling):
        async def act(self, turn: Turn) -> Decision:
            self.turns.append(turn)
            await asyncio.sleep(1.0 if turn.episode == 0 else 0.0)
            return self.tell(turn)

    policy = Slow(lambda turn: up(turn) if turn.step == 0 else Decision(Status.OK, "answer", (1,)))
    play(world, protocol(world), policy, ALL, concurrency=EPISODES)
    order = [(turn.episode, turn.step) for turn in policy.turns]
    assert order[-1] == (0, 1)


def test_concurrency_is_kept(world: HostWorld) -> None:
    active = most = 0

    class Counting(Telling):
        async def act(self, turn: Turn) -> Decision:
            nonlocal active, most
            active += 1
            most = max(most, active)
            await asyncio.sleep(0.005)
            active -= 1
            return self.tell(turn)

    policy = Counting(lambda turn: Decision(Status.OK, "answer", (1,)))
    play(world, protocol(world), policy, ALL, concurrency=2)
    assert most == 2


def test_a_failed_call_is_made_again_later(world: HostWorld) -> None:
    """The episode goes on at the very turn; nothing before it is asked again."""
    failing = [True]

    def tell(turn: Turn) -> Decision:
        if turn.episode == 1 and turn.step == 2 and failing:
            failing.pop()
            return Decision(Status.API_ERROR, problem="gone for a moment")
        return up(turn) if turn.step < 3 else Decision(Status.OK, "answer", (1,))

    policy = Telling(tell)
    logs = {number: EpisodeLog(number) for number in ALL}
    played = play(world, protocol(world), policy, ALL, logs=logs.__getitem__)
    assert {one.status for one in played} == {Status.OK}
    assert len(policy.turns) == 4 * EPISODES + 1
    assert [event["event"] for event in logs[1].events].count("error") == 1


def test_failures_in_a_row_stop_the_run(world: HostWorld) -> None:
    policy = Telling(lambda turn: Decision(Status.API_ERROR, problem="gone"))
    ledger = Ledger(patience=4)
    play(world, protocol(world), policy, ALL, ledger=ledger, concurrency=1)
    assert len(policy.turns) == 4
    assert "4 calls in a row failed" in str(ledger.fault) and "gone" in str(ledger.fault)


# ---- The bridge ---------------------------------------------------------------------------------------------


def test_mixed_lanes(world: HostWorld) -> None:
    """A JAX agent and a host agent in one compiled rollout, each as it plays alone."""
    agent = make_agent("random", Geometry.of(world.env))
    mine = [number % 2 == 0 for number in ALL]
    host = ScriptedPolicy("clumsy")
    mixed = rollout(world, protocol(world), host, ALL, jax_policy=agent, jax_lanes=mine)
    by_host = play(world, protocol(world), ScriptedPolicy("clumsy"), [n for n in ALL if not mine[n]])
    assert records(mixed.played) == records(by_host)
    alone = AgentPolicy(agent, world.seed)
    by_agent = records(play(world, protocol(world), alone, [n for n in ALL if mine[n]]))
    for record in by_agent:
        lane = record["episode"]
        kinds = [kind for kind in mixed.kinds[lane].tolist() if kind != Kind.NONE]
        names = [Kind(kind).name.lower() for kind in kinds]
        assert names == record["actions"]
        assert mixed.windows[lane][: record["moves"] + 1].tolist() == record["windows"]
        assert bool(mixed.statistics.correct[lane]) == record["correct"]


@pytest.mark.parametrize("driver", sorted(DRIVERS))
@pytest.mark.parametrize("answer", [(1, 2), (10,)])
def test_an_answer_of_another_world_stops_the_run(
    world: HostWorld, driver: str, answer: tuple[int, ...]
) -> None:
    ledger = Ledger()
    told = Telling(lambda turn: Decision(Status.OK, "answer", answer))
    played = DRIVERS[driver](
        world, protocol(world), told, ALL, ledger=ledger, logs=EpisodeLog, concurrency=EPISODES
    )
    assert all(one.status == Status.CANCELLED for one in played)
    assert "expected 1 digit(s), 0 to 9" in str(ledger.fault)


def test_another_agent_compiles_nothing(world: HostWorld) -> None:
    rollout(world, protocol(world), Telling(faulty), ALL)
    before = bridge_program.run._cache_size()
    rollout(world, protocol(world, "natural"), ScriptedPolicy("answer"), ALL)
    assert bridge_program.run._cache_size() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_returns_the_partial_batch(world: HostWorld, number: signal.Signals) -> None:
    """In the middle: episodes that were over stay, the call under way lands, the others are cancelled."""
    before = signal.getsignal(signal.SIGTERM)

    def tell(turn: Turn) -> Decision:
        if turn.step == 3 and turn.episode == 2:
            os.kill(os.getpid(), number)
            threading.Event().wait(0.3)
        return Decision(Status.OK, "answer", (1,)) if turn.episode < 2 and turn.step == 1 else up(turn)

    ledger = Ledger()
    result = rollout(world, protocol(world), Telling(tell), ALL, ledger=ledger)
    assert ledger.interrupted and signal.getsignal(signal.SIGTERM) == before
    assert [status.value for status in result.statuses] == ["ok"] * 2 + ["cancelled"] * (EPISODES - 2)
    steps = np.asarray(result.statistics.steps)
    assert steps[:2].tolist() == [2, 2] and (steps[2:] >= 4).all() and (steps[2:] < 36).all()


def test_not_from_a_running_loop(world: HostWorld) -> None:
    async def inside() -> None:
        rollout(world, protocol(world), ScriptedPolicy("answer"), ALL)

    with pytest.raises(RuntimeError, match="to_thread"):
        asyncio.run(inside())

    async def beside() -> Any:
        return await asyncio.to_thread(rollout, world, protocol(world), ScriptedPolicy("answer"), ALL)

    assert len(asyncio.run(beside()).played) == EPISODES


def test_what_does_not_fit_is_refused(world: HostWorld) -> None:
    agent = make_agent("planner", Geometry.of(world.env))
    host = ScriptedPolicy("answer")
    with pytest.raises(ValueError, match="both"):
        rollout(world, protocol(world), host, ALL, jax_policy=agent)
    with pytest.raises(ValueError, match="shows 'packed'"):
        rollout(world, protocol(world), host, ALL, jax_policy=agent, jax_lanes=[True] * EPISODES)
