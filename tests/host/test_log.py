"""The log of an episode: what survives a crash, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.host.attempts import Played, finished_before
from mnistpro_jax.host.contract import Decision, Status, Turn, Usage
from mnistpro_jax.host.episode_log import EpisodeFolder, EpisodeLog, decision_of, read_log
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.models.replay import ReplayPolicy
from mnistpro_jax.host.models.scripted import ScriptedPolicy
from mnistpro_jax.host.world import HostWorld
from mnistpro_jax.runs.log import LogError
from tests.host.helpers import Telling, play, protocol, records, up

CONFIG = {"model": "scripted:clumsy", "level": 1, "horizon": 4, "temperature": None}


def play_into(
    folder: EpisodeFolder,
    world: HostWorld,
    policy: Any,
    ledger: Ledger | None = None,
    count: int = 4,
    **options: Any,
) -> list[Played]:
    return play(world, protocol(world), policy, range(count), ledger=ledger, logs=folder.episode, **options)


class Guard(Telling):
    """Fails the test where an episode is asked more than is left to ask."""

    def __init__(self, policy: ScriptedPolicy) -> None:
        super().__init__(lambda turn: up(turn))
        self.policy = policy

    async def act(self, turn: Turn) -> Decision:
        self.turns.append(turn)
        return await self.policy.act(turn)


def test_every_cut_is_survived(world: HostWorld, tmp_path: Path) -> None:
    """Cut a log off anywhere, even in mid-line, and play on: the same log again, and only what was cut is asked."""
    with EpisodeFolder(tmp_path / "whole", CONFIG, {}) as folder:
        whole = records(play_into(folder, world, ScriptedPolicy("clumsy"), count=1))
        lines = folder.episode(0).path.read_bytes().splitlines(keepends=True)  # type: ignore[union-attr]
    total = len(lines) - 2  # without start and end
    assert total > 10
    for kept in (0, 1, 2, total // 2, total, total + 1):
        with EpisodeFolder(tmp_path / f"cut-{kept}", CONFIG, {}) as folder:
            path = folder.episode(0).path
            assert path is not None
            path.write_bytes(b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])
            guard = Guard(ScriptedPolicy("clumsy"))
            assert records(play_into(folder, world, guard, count=1)) == whole
            assert len(guard.turns) == total - max(0, kept - 1)
            again = [_without_clock(line) for line in path.read_bytes().splitlines()]
            assert again == [_without_clock(line) for line in lines]


def _without_clock(line: bytes) -> dict[str, Any]:
    event = json.loads(line)
    for part in (event, event.get("record", {})):
        part.pop("time", None)
        part.pop("latency_s", None)
    assert isinstance(event, dict)
    return event


def test_what_is_over_is_read_and_not_played(world: HostWorld, tmp_path: Path) -> None:
    with EpisodeFolder(tmp_path, CONFIG, {}) as folder:
        played = play_into(folder, world, ScriptedPolicy("random"), count=2)
        for one in played:
            log = folder.episode(one.episode)
            before = finished_before(log, Ledger())
            assert before is not None and before.record == one.record
            assert len(list(log.replies())) == one.record["calls"]


def test_pictures_are_stored_once_and_named_by_content(world: HostWorld, tmp_path: Path) -> None:
    with EpisodeFolder(tmp_path, CONFIG, {}) as folder:
        play_into(folder, world, ScriptedPolicy("circle"), count=1)
        events = folder.episode(0).events
    shown = [name for event in events if event["event"] == "turn" for name in event["pictures"]]
    stored = sorted(path.stem for path in (tmp_path / "pictures").iterdir())
    assert sorted(set(shown)) == stored and len(shown) > len(stored)  # twice round: half of it again


def test_another_world_is_not_mixed_in(world: HostWorld, tmp_path: Path) -> None:
    with EpisodeFolder(tmp_path, CONFIG, {}) as folder:
        play_into(folder, world, Telling(lambda turn: up(turn)), Ledger(patience=1), count=1)
        path = folder.episode(0).path
        assert path is not None
        lines = path.read_text().splitlines()
        event = json.loads(lines[3])
        event["observation"] = "0" * 16
        path.write_text("\n".join([*lines[:3], json.dumps(event)]) + "\n")
        ledger = Ledger()
        policy = Telling(lambda turn: up(turn))
        play_into(folder, world, policy, ledger, count=1)
        assert "the episode played anew shows" in str(ledger.fault) and not policy.turns


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"event": "turn"}', '{"event": "turn", "status": "odd"}']
)
def test_a_spoilt_line_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "0001.jsonl"
    path.write_text('{"event": "start"}\n' + line + "\n" + '{"event": "end"}\n')
    with pytest.raises(LogError, match="line 2"):
        read_log(path)


class FullDisk:
    """A log's file on a disk that is full from the n-th line on: it takes half of that line."""

    def __init__(self, file: Any, lines: int) -> None:
        self.file = file
        self.lines = lines

    def write(self, line: bytes) -> int:
        self.lines -= 1
        if self.lines < 0:
            return int(self.file.write(line[: len(line) // 2]))
        return int(self.file.write(line))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_a_full_disk_stops_the_run_and_keeps_it_whole(
    world: HostWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: Callable[..., Any] = Path.open

    def open_full(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = opened(path, mode, *arguments, **options)
        return FullDisk(file, 5) if mode == "ab" and path.suffix == ".jsonl" else file

    with EpisodeFolder(tmp_path, CONFIG, {}) as folder:
        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", open_full)
            ledger = Ledger()
            first = Guard(ScriptedPolicy("circle"))
            play_into(folder, world, first, ledger, count=2, concurrency=1)
        assert "0000.jsonl: No space left on device" in str(ledger.fault)
        assert (
            len(first.turns) == 5
        )  # a start and four replies fit; the fifth one is lost, and no call follows
        assert len(folder.episode(0).events) == 5
        second = Guard(ScriptedPolicy("circle"))
        played = play_into(folder, world, second, count=2)
        assert {one.status for one in played} == {Status.OK}
        assert len(second.turns) == 9 - 4 + 9


def test_decisions_come_back_from_the_log(world: HostWorld, tmp_path: Path) -> None:
    decision = Decision(
        Status.OK,
        "answer",
        (0, 7),
        text='a "quote"\u2028 and \ud83d',  # JSON in ASCII, so that even half of a pair of surrogates survives
        thought="hm",
        place={"coords": [0, -1], "features": "bow"},
        usage=Usage(5, 6, 1, 2),
        latency_s=0.25,
        details={"id": "x"},
    )
    log = EpisodeLog(0, tmp_path / "0000.jsonl")
    turn = Turn(0, 0, 36, 1, 2, (), (), "d" * 16)
    log.turn(turn, decision, {"window": [1, 2]}, [])
    log.close()
    assert decision_of(read_log(tmp_path / "0000.jsonl")[0]) == decision
    assert EpisodeLog(0, tmp_path / "0000.jsonl").logged(turn) == decision


def test_replay_plays_again_for_nothing(world: HostWorld, pair_world: HostWorld, tmp_path: Path) -> None:
    with EpisodeFolder(tmp_path, CONFIG, {}) as folder:
        first = play_into(folder, world, ScriptedPolicy("clumsy"))
    again = play(world, protocol(world), ReplayPolicy(tmp_path), range(4))
    assert records(again) == records(first)
    ledger = Ledger()
    play(pair_world, protocol(pair_world), ReplayPolicy(tmp_path), range(1), ledger=ledger)
    assert "saw something else" in str(ledger.fault)
    with pytest.raises(FileNotFoundError, match="nothing to replay"):
        ReplayPolicy(tmp_path / "nothing")
