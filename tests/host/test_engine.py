"""The engine under a kind of sitting that has no environment, no window and no digits: it knows none of them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.host.attempts import Attempts, sit_through
from mnistpro_jax.host.contract import REPLY, Decision, HostPolicy, Status, Turn, Usage
from mnistpro_jax.host.episode_log import EpisodeFolder, EpisodeLog, read_log
from mnistpro_jax.host.heap import settled_heap
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.models.chat import Reply
from mnistpro_jax.host.prices import Price
from mnistpro_jax.runs.folder import EPISODES, SUMMARY
from mnistpro_jax.runs.log import LogError
from mnistpro_jax.runs.run_folder import RUN, digest_of, log_path
from tests.host.questions import COUNTRIES, Interview, Interviews, Speaking, interview

USAGE = Usage(10, 4, 2, 1)
CALLS = 2 + 4 + 4 + 3
"""Of ``moody`` in a whole run."""


def moody(turn: Turn) -> Reply:
    """France: plain. Egypt: silent at first. Peru: refuses its second question. Japan: never finds a word."""
    country = COUNTRIES[turn.episode]
    if country == "Egypt" and turn.step == 0 and turn.attempt < 3:
        return Reply("", USAGE)
    if country == "Peru" and turn.step == 1:
        refuses = turn.attempt == 2
        return Reply("no", USAGE, Status.REFUSED, "it would rather not") if refuses else Reply(" ", USAGE)
    if country == "Japan":
        return Reply("", USAGE)
    return Reply(f"{country} {turn.step}, of course", USAGE, details={"id": f"{turn.episode}.{turn.step}"})


def results(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any], dict[str, list[dict[str, Any]]]]:
    """(records, summary, logs by name) of a run, without the clock."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: timeless(one) for name, one in value.items() if name not in ("time", "latency_s")}
        return value

    records = [json.loads(line) for line in (folder / EPISODES).read_text().splitlines()]
    logs = {path.name: [timeless(event) for event in read_log(path)] for path in (folder / "log").iterdir()}
    return [timeless(record) for record in records], json.loads((folder / SUMMARY).read_text()), logs


@pytest.fixture(scope="module", autouse=True)
def settled() -> Iterator[None]:
    """Once for all runs here: to walk through JAX's objects takes longer than a run."""
    with settled_heap():
        yield


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    policy = Speaking(moody)
    outcome = interview(folder, policy)
    assert outcome.complete and outcome.problem is None and not outcome.stopped
    assert len(policy.turns) == CALLS == sum(len(read_log(path)) - 2 for path in logs_of(folder))
    return folder


def logs_of(folder: Path) -> list[Path]:
    return sorted((folder / "log").iterdir())


def test_attempts_and_verdicts(undisturbed: Path) -> None:
    """A turn is the player's fault only where each of its attempts was."""
    records, summary, logs = results(undisturbed)
    assert [record["status"] for record in records] == ["ok", "ok", "refused", "unparseable"]
    assert [record["calls"] for record in records] == [2, 4, 4, 3]
    assert [record["failed_attempts"] for record in records] == [0, 2, 3, 3]
    assert [record["problem"] for record in records] == [None, None, "it would rather not", "silence"]
    assert [len(record["said"]) for record in records] == [2, 2, 1, 1]
    # The kind's own words of those that count, and what all took.
    assert summary["words"] == 16
    assert summary["planned_episodes"] == len(COUNTRIES)
    assert summary["calls"] == CALLS and summary["input_tokens"] == 10 * CALLS
    assert {name: count for name, count in summary["statuses"].items() if count} == {
        "ok": 2,
        "unparseable": 1,
        "refused": 1,
    }
    start, first, *_ = logs["0001.jsonl"]
    assert start.pop("config") == digest_of(json.loads((undisturbed / RUN).read_text())["config"])
    assert start == {"event": "start", "episode": 1, "country": "Egypt"}
    assert (first["step"], first["attempt"], first["question"], first["status"]) == (0, 1, 1, "unparseable")
    assert "window" not in first and first["answer"] is None
    answered = logs["0001.jsonl"][3]
    assert (answered["attempt"], answered["action"], answered["text"]) == (3, REPLY, "Egypt 0, of course")


def test_a_further_attempt_knows_what_was_said(tmp_path: Path) -> None:
    policy = Speaking(lambda turn: Reply(" " if turn.attempt == 1 else "well"))
    asyncio.run(sit_through(Interviews().sit(0), policy, Ledger(), EpisodeLog(0)))
    assert [turn.messages[-1]["content"].count("Not ' '.") for turn in policy.turns] == [0, 1, 0, 1]
    assert all(turn.observation is None for turn in policy.turns)  # it asked for none


@pytest.mark.parametrize("number", range(len(COUNTRIES)))
def test_every_cut_is_survived(undisturbed: Path, tmp_path: Path, number: int) -> None:
    """After any event, and in the middle of any line: the same log again, and only what was cut is asked."""
    lines = log_path(undisturbed, number).read_bytes().splitlines(keepends=True)
    turns = len(lines) - 2
    for kept in range(len(lines)):
        for torn in (b"", lines[kept][: len(lines[kept]) // 2]):
            folder = tmp_path / f"{kept}-{len(torn)}"
            with EpisodeFolder(folder, {"kind": "interviews", "attempts": 3}, {}):
                for path in logs_of(undisturbed):
                    (folder / "log" / path.name).write_bytes(path.read_bytes())
                log_path(folder, number).write_bytes(b"".join(lines[:kept]) + torn)
            policy = Speaking(moody)
            outcome = interview(folder, policy)
            assert outcome.complete
            assert len(policy.turns) == turns - max(0, min(kept - 1, turns))
            assert {turn.episode for turn in policy.turns} <= {number}
            assert results(folder) == results(undisturbed)


def test_an_interrupt_lets_the_call_under_way_land(undisturbed: Path, tmp_path: Path) -> None:
    notes: list[str] = []

    def interrupting(turn: Turn) -> Reply:
        if (turn.episode, turn.step, turn.attempt) == (1, 0, 2):
            os.kill(os.getpid(), signal.SIGINT)
        return moody(turn)

    first = Speaking(interrupting, latency=0.01)
    outcome = interview(tmp_path, first, notes=notes, concurrency=1)
    assert outcome.interrupted and not outcome.complete
    assert "interrupted" in str(outcome.problem) and "3 of 4" in str(outcome.problem)
    assert len(notes) == 1 and "waiting for the calls under way" in notes[0]
    second = Speaking(moody)
    assert interview(tmp_path, second).complete
    assert len(first.turns) + len(second.turns) == CALLS
    assert results(tmp_path) == results(undisturbed)


@pytest.mark.parametrize(("max_cost", "broken_off"), [(5.0, True), (6.0, False)])
def test_the_limit_of_cost(tmp_path: Path, max_cost: float, broken_off: bool) -> None:
    """It is said and can be raised, whether it stops a sitting in the middle or before its first call."""
    price = Price(input=100_000, output=0)  # 1.0 a reply
    first = Speaking(moody)
    outcome = interview(tmp_path, first, price=price, concurrency=1, max_cost=max_cost)
    assert "raise --max-cost" in str(outcome.problem)
    assert outcome.summary["cost"] == pytest.approx(max_cost)
    assert (outcome.summary["statuses"]["budget_spent"] > 0) == broken_off
    second = Speaking(moody)
    outcome = interview(tmp_path, second, price=price, max_cost=1000.0)
    assert outcome.complete and len(first.turns) + len(second.turns) == CALLS
    assert outcome.summary["cost"] == pytest.approx(CALLS)
    assert [record["cost"] for record in results(tmp_path)[0]] == pytest.approx([2.0, 4.0, 4.0, 3.0])


def test_a_limit_of_units_and_failed_calls(undisturbed: Path, tmp_path: Path) -> None:
    outcome = interview(tmp_path, Speaking(moody), limit=1)
    assert not outcome.complete and not outcome.stopped and "without --limit" in str(outcome.problem)
    failing = [True] * 4

    def failing_at_first(turn: Turn) -> Reply:
        if turn.episode == 2 and turn.step == 1 and failing:
            failing.pop()
            return Reply("", status=Status.API_ERROR, problem="gone")
        return moody(turn)

    outcome = interview(tmp_path, Speaking(failing_at_first))  # taken up three times, in vain
    assert "calls failed (3 times: gone)" in str(outcome.problem)
    assert outcome.summary["statuses"]["api_error"] == 1
    assert interview(tmp_path, Speaking(failing_at_first)).complete
    records, summary, logs = results(tmp_path)
    assert [event["event"] for event in logs["0002.jsonl"]].count("error") == 4
    assert (records, summary) == results(undisturbed)[:2]


def test_what_a_sitting_does_not_allow_stops_the_run() -> None:
    class Walker(HostPolicy):
        async def act(self, turn: Turn) -> Decision:
            return Decision(Status.OK, "up")

    ledger, log = Ledger(), EpisodeLog(0)
    played = asyncio.run(sit_through(Interviews().sit(0), Walker(), ledger, log))
    assert played.status == Status.CANCELLED
    assert str(ledger.fault) == "in episode 0 the agent wants to go up; expected words"
    assert [event["event"] for event in log.events] == ["start"]


def test_other_folders_and_other_questions_are_refused(tmp_path: Path) -> None:
    interview(tmp_path, Speaking(moody), limit=1)
    with pytest.raises(LogError, match="attempts = 3, but this one has attempts = 2"):
        interview(tmp_path, Speaking(moody), attempts=2)
    log = EpisodeLog(0, log_path(tmp_path, 0))
    ledger = Ledger()
    asyncio.run(Attempts(Interview(0, "Norway", 3), Speaking(moody), ledger, log).decide())
    assert "played anew shows" in str(ledger.fault)


class Seat(HostPolicy):
    """A player that pulls: it hears a turn, and its act is heard by the engine."""

    def __init__(self) -> None:
        self.shown: asyncio.Queue[Turn] = asyncio.Queue()
        self.acts: asyncio.Queue[Decision] = asyncio.Queue()

    async def act(self, turn: Turn) -> Decision:
        self.shown.put_nowait(turn)
        return await self.acts.get()


def test_a_player_that_pulls_finds_its_acts_done_and_durable(tmp_path: Path) -> None:
    """What it hears next, it hears once its act is in the log and taken; giving up on waiting undoes nothing."""
    path = tmp_path / "0000.jsonl"

    async def pull() -> list[str]:
        seat, found = Seat(), []
        engine = asyncio.create_task(sit_through(Interviews().sit(0), seat, Ledger(), EpisodeLog(0, path)))
        for answer in ("Paris", "Loire"):
            turn = await seat.shown.get()
            events = read_log(path)
            found.append(f"{turn.step} {[event.get('text', event['event']) for event in events]}")
            seat.acts.put_nowait(Decision(Status.OK, REPLY, text=answer))
        caller = asyncio.create_task(seat.shown.get())
        played = await engine
        caller.cancel()
        return [*found, played.status.value, *played.record["said"]]

    assert asyncio.run(pull()) == ["0 ['start']", "1 ['start', 'Paris']", "ok", "Paris", "Loire"]
