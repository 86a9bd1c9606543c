"""Whatever a provider does, by whatever driver and memory: an episode is wrong only where the agent itself was, and
nothing that was answered is paid for twice."""

from __future__ import annotations

import collections
import json
import os
from pathlib import Path

import pytest

pytest.importorskip("openai")

from mnistpro_jax.demo_server.faults import FAULTS
from mnistpro_jax.host.contract import Status
from mnistpro_jax.host.world import HostWorld
from mnistpro_jax.runs.records import read_episodes
from tests.host.fault_schedules import ANSWERS, GOOD, KEY, OWN, WITHHELD, Schedule, play_schedule

BATCH = int(os.environ.get("MNISTPRO_SCHEDULES", "400")) // 10
"""Of ten: 400 schedules, or as many as are asked for."""


@pytest.mark.parametrize("batch", range(10))
def test_no_schedule_of_faults_makes_an_agent_wrong(
    world: HostWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setenv("MNISTPRO_API_KEY", KEY)
    for number in range(BATCH):
        schedule = Schedule.drawn(BATCH * batch + number)
        folder = tmp_path / str(number)
        provider, outcome = play_schedule(world, schedule, folder)
        assert outcome.complete, (schedule, outcome.problem)
        assert not provider.violations, (schedule, provider.violations)
        at_turns = collections.defaultdict(list)
        for (episode, _), faults in sorted(provider.sent.items()):
            at_turns[episode].append([fault for fault in faults if fault in ANSWERS])
        replies = sum(len(faults) for turns in at_turns.values() for faults in turns)
        assert outcome.summary["calls"] == replies, schedule
        assert outcome.summary["input_tokens"] >= provider.tokens, schedule
        for record in read_episodes(folder):
            turns = at_turns[record["episode"]]
            status, last = record["status"], turns[-1]
            assert record["calls"] == sum(map(len, turns)), schedule
            if status == Status.OK:
                assert record["correct"] is True, schedule
            elif status == Status.UNPARSEABLE:
                assert len(last) == schedule.attempts and set(last) <= OWN, (schedule, last)
                assert record["correct"] is False
            else:
                assert status in (Status.REFUSED, Status.TRUNCATED), schedule
                assert len(last) == schedule.attempts and set(last) & WITHHELD and not set(last) & GOOD
                assert record["correct"] is None
        written = b"".join(path.read_bytes() for path in folder.rglob("*.json*"))
        assert KEY.encode() not in written


def test_the_schedules_meet_every_fault() -> None:
    schedules = [Schedule.drawn(seed) for seed in range(10 * BATCH)]
    met = collections.Counter(fault for schedule in schedules for fault in schedule.shares)
    assert all(met[fault] > BATCH // 2 for fault in FAULTS)
    assert json.dumps(sorted(met)) and len({schedule.memory for schedule in schedules}) == 10
    assert {schedule.driver for schedule in schedules} == {"free", "lockstep", "bridge"}
