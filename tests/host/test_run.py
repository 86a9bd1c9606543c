"""`mnistpro run` as a user meets it: results, resuming after every kind of interruption, limits, bad requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.host.contract import Decision, Status
from mnistpro_jax.host.episode_log import read_log
from mnistpro_jax.host.forecast import forecast
from mnistpro_jax.host.memory import MEMORIES
from mnistpro_jax.host.messages import count_pictures, texts_of
from mnistpro_jax.host.prices import Price
from mnistpro_jax.host.world import HostWorld
from mnistpro_jax.runs.load import load_run
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.records import read_episodes
from tests.host.conftest import EPISODES
from tests.host.fake_server import Answer, Body, FakeServer, fault, walker
from tests.host.helpers import DRIVERS, Telling, protocol

GIVEN = ["run", "--episodes", str(EPISODES), "--seed", "3"]
STEPS = 6
NEEDED = EPISODES * STEPS
CONCURRENCY = 3


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MNISTPRO_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def summary_of(folder: Path) -> dict[str, Any]:
    loaded = json.loads((folder / "summary.json").read_text())
    assert isinstance(loaded, dict)
    return loaded


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.count("\n") == 1, printed.err
    assert printed.err.startswith("mnistpro: error: ")
    return printed.err


def asking(server: FakeServer, out: Path, *more: str) -> list[str]:
    return [
        *(*GIVEN, "--model", "openai-compatible:fake", "--base-url", server.url, "--out", str(out)),
        *("--concurrency", str(CONCURRENCY), "--json", *more),
    ]


# ---- Results ------------------------------------------------------------------------------------------------


def test_what_a_run_leaves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "a" / "run"
    assert main([*GIVEN, "--model", "scripted:clumsy", "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    summary = summary_of(out)
    assert json.loads(printed.out) == summary
    records = read_episodes(out)
    assert [record["episode"] for record in records] == list(range(EPISODES))
    outcomes = Outcomes.of_records(records)
    assert summary["accuracy"] == outcomes.correct.mean()
    assert summary["average_steps"] == outcomes.steps.mean()
    assert summary["calls"] == sum(record["calls"] for record in records)
    assert summary["failed_attempts"] == sum(record["failed_attempts"] for record in records) > 0
    assert summary["statuses"]["ok"] + summary["statuses"]["unparseable"] == EPISODES
    assert sorted(path.name for path in out.iterdir()) == [
        *(".lock", "episodes.jsonl", "log", "pictures", "run.json", "summary.json")
    ]
    # Again: nothing is left to do, and nothing changes.
    assert main([*GIVEN, "--model", "scripted:clumsy", "--out", str(out)]) == 0
    assert summary_of(out) == summary and read_episodes(out) == records
    assert "episodes by status" in capsys.readouterr().out
    # What was played can be played again, by the log and by the records, and comes to the same.
    capsys.readouterr()
    again = tmp_path / "again"
    assert main([*GIVEN, "--model", f"replay:{out}", "--out", str(again), "--json"]) == 0
    assert {**summary_of(again), "agent": ""} == {**summary, "agent": ""}


def test_records_of_other_images_are_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evaluated = tmp_path / "evaluated"
    common = ["--level", "1", "--budget", "5"]
    given = ["evaluate", "--agent", "random", "--episodes", "3", "--seed", "1", *common]
    assert main([*given, "--out", str(evaluated)]) == 0
    replayed = ["run", "--model", f"replay:{evaluated}", "--episodes", "3", *common, "--json"]
    assert main([*replayed, "--seed", "2", "--out", str(tmp_path / "other")]) == 1
    assert "was played on images" in capsys.readouterr().err
    assert main([*replayed, "--seed", "1", "--out", str(tmp_path / "same")]) == 0
    played, again = (read_episodes(folder) for folder in (evaluated, tmp_path / "same"))
    assert [one["windows"] for one in played] == [one["windows"] for one in again]


def test_another_driver_writes_the_same(tmp_path: Path) -> None:
    results = []
    for name in ("free", "bridge"):
        out = tmp_path / name
        given = [*GIVEN, "--model", "scripted:circle", "--out", str(out), "--json", "--driver", name]
        assert main([*given, "--concurrency", str(EPISODES)]) == 0
        results.append(summary_of(out))
    assert results[0] == results[1]


def test_the_control_takes_one_turn(tmp_path: Path) -> None:
    given = [*GIVEN, "--model", "scripted:answer", "--memory", "full-image", "--out", str(tmp_path), "--json"]
    assert main(given) == 0
    summary = summary_of(tmp_path)
    assert summary["average_steps"] == 1 and summary["budget"] == 1 and summary["published_best"] is None
    assert len(list((tmp_path / "pictures").iterdir())) == EPISODES


# ---- Interruptions ------------------------------------------------------------------------------------------


class Interrupting:
    """A server's answers; at some requests it first does something to whoever asks."""

    def __init__(self, strike: Any, at: tuple[int, ...]) -> None:
        self.strike = strike
        self.at = list(at)

    def __call__(self, body: Body, number: int) -> Answer:
        if self.at and number >= self.at[0]:
            self.at.pop(0)
            self.strike()
        return walker(STEPS)(body, number)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The summary of the run that nobody disturbs."""
    out = tmp_path_factory.mktemp("undisturbed")
    with FakeServer(walker(STEPS)) as server:
        assert main(asking(server, out)) == 0
    assert server.count == NEEDED
    return summary_of(out)


def test_two_interrupts_cost_nothing(
    tmp_path: Path, undisturbed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C lets the calls under way land: no call is made twice."""
    answers = Interrupting(lambda: os.kill(os.getpid(), signal.SIGINT), (9, 20))
    with FakeServer(answers, latency=0.02) as server:
        for _ in range(2):
            assert main(asking(server, tmp_path)) == 130
            assert "run the same command to go on" in capsys.readouterr().err
            partial = summary_of(tmp_path)
            assert partial["statuses"]["cancelled"] > 0 or partial["statuses"]["not_started"] > 0
        assert main(asking(server, tmp_path)) == 0
    assert not answers.at
    assert server.count == NEEDED
    assert summary_of(tmp_path) == undisturbed


def test_two_kills_cost_at_most_the_calls_under_way(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """kill -9, twice: the third run ends as if nothing had been."""
    process: list[subprocess.Popen[bytes]] = []
    answers = Interrupting(lambda: process[-1].kill(), (8, 22))
    out = tmp_path / "run"
    with FakeServer(answers, latency=0.02) as server:
        for _ in range(2):
            process.append(
                subprocess.Popen(
                    [sys.executable, "-m", "mnistpro_jax", *asking(server, out)],
                    stdout=subprocess.DEVNULL,
                )
            )
            assert process[-1].wait(300) == -signal.SIGKILL
            # Until the next session lists them anew, the episodes that are over are in the logs alone.
            logs = map(read_log, (out / "log").iterdir())
            over = sum(bool(events) and events[-1]["event"] == "end" for events in logs)
            assert len(load_run(out).records) == over
        assert main(asking(server, out)) == 0
    assert NEEDED <= server.count <= NEEDED + 2 * CONCURRENCY
    assert summary_of(out) == undisturbed


def test_a_second_interrupt_gives_the_calls_up(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    answers = Interrupting(twice, (7,))
    with FakeServer(answers, latency=lambda number: 30.0 if 5 <= number < 7 else 0.01) as server:
        began = time.monotonic()
        assert main(asking(server, tmp_path)) == 130
        assert time.monotonic() - began < 25
        assert main(asking(server, tmp_path)) == 0
    assert server.count <= NEEDED + CONCURRENCY
    assert summary_of(tmp_path) == undisturbed


def test_a_fault_of_all_is_said_and_mended(
    tmp_path: Path, undisturbed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(walker(STEPS)) as server:
        server.respond = lambda body, number: (
            walker(STEPS)(body, number) if number < 10 else fault(429, "spent", "insufficient_quota")
        )
        assert main(asking(server, tmp_path, "--retries", "0")) == 1
        printed = capsys.readouterr().err
        assert "the quota" in printed and "is used up" in printed and "same command" in printed
        assert summary_of(tmp_path)["accuracy"] is None or summary_of(tmp_path)["episodes"] < EPISODES
        asked = server.count
        server.respond = walker(STEPS)
        assert main(asking(server, tmp_path)) == 0
    assert server.count == asked + NEEDED - 10
    assert summary_of(tmp_path) == undisturbed


def test_a_part_of_the_list_first(
    tmp_path: Path, undisturbed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeServer(walker(STEPS)) as server:
        assert main(asking(server, tmp_path, "--limit", "2")) == 0
        assert server.count == 2 * STEPS
        summary = summary_of(tmp_path)
        assert summary["statuses"]["not_started"] == EPISODES - 2
        printed = capsys.readouterr().err
        assert "without --limit" in printed and "error" not in printed
        low, high = (summary["missing"][f"accuracy_if_{word}"] for word in ("wrong", "right"))
        assert low == 2 * summary["accuracy"] / EPISODES and high == low + (EPISODES - 2) / EPISODES
        assert main(asking(server, tmp_path)) == 0
    assert summary_of(tmp_path) == undisturbed


def test_episodes_that_a_limit_leaves_half_played_are_not_called_unstarted(tmp_path: Path) -> None:
    answers = Interrupting(lambda: os.kill(os.getpid(), signal.SIGINT), (2 * CONCURRENCY,))
    with FakeServer(answers, latency=0.02) as server:
        assert main(asking(server, tmp_path)) == 130
        assert main(asking(server, tmp_path, "--limit", "1")) == 0
    statuses = summary_of(tmp_path)["statuses"]
    assert (statuses["ok"], statuses["cancelled"]) == (1, CONCURRENCY - 1)
    assert statuses["not_started"] == EPISODES - CONCURRENCY


@pytest.mark.parametrize("driver", ["free", "bridge"])
def test_an_interrupt_says_what_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], driver: str
) -> None:
    answers = Interrupting(lambda: os.kill(os.getpid(), signal.SIGTERM), (4,))
    with FakeServer(answers, latency=0.02) as server:
        assert main(asking(server, tmp_path, "--driver", driver)) == 130
    assert capsys.readouterr().err.count("waiting for the calls under way") == 1


# ---- Costs --------------------------------------------------------------------------------------------------


def test_the_limit_of_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = tmp_path / "prices.toml"
    prices.write_text("[fake]\ninput = 1000\noutput = 10_000\n")  # 0.1 + 0.1 a call
    out = tmp_path / "run"
    with FakeServer(walker(STEPS)) as server:
        # The estimate of a call's input is higher than what this server counts: some of the limit is left.
        assert main(asking(server, out, "--price-file", str(prices), "--max-cost", "4")) == 1
        assert "raise --max-cost" in capsys.readouterr().err
        summary = summary_of(out)
        assert summary["statuses"]["budget_spent"] > 0
        missing = summary["missing"]
        assert missing["unfinished"] and missing["not_over"] == EPISODES - summary["episodes"] > 0
        assert summary["cost"] == pytest.approx(0.2 * server.count) and 1 < summary["cost"] <= 4
        assert main(asking(server, out, "--price-file", str(prices), "--max-cost", "100")) == 0
    assert server.count == NEEDED
    assert summary_of(out)["cost"] == pytest.approx(0.2 * NEEDED)


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_dry_run_counts_what_a_run_takes(world: HostWorld, memory: str) -> None:
    steps = 1 if memory == "full-image" else 5
    policy = Telling(
        lambda turn: (
            Decision(Status.OK, "answer", (1,))
            if turn.step == steps - 1
            else Decision(Status.OK, "right", text="r")
        )
    )
    talk = protocol(world, memory)
    DRIVERS["free"](world, talk, policy, range(2))
    expected = forecast(talk, 2, 5, Price(1.0, 1.0))
    assert expected.calls == len(policy.turns) == 2 * steps
    assert expected.pictures == sum(count_pictures(turn.messages) for turn in policy.turns)
    if memory in ("image-only", "canvas", "full-image"):  # nothing of the agent's words comes back
        sent = sum(len(text) for turn in policy.turns for text in texts_of(turn.messages))
        assert expected.characters == sent


def test_a_dry_run_asks_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*GIVEN, "--model", "openai:gpt-5", "--dry-run", "--assume-steps", "10"]
    assert main([*given, "--json"]) == 0  # without a key, and without a folder
    found = json.loads(capsys.readouterr().out)
    assert found["at_most"]["calls"] == 36 * EPISODES
    assert found["assumed"]["pictures"] == (1 + 2 + 3 + 7 * 4) * EPISODES
    assert found["at_most"]["cost"] is None
    prices = tmp_path / "prices.json"
    prices.write_text('{"gpt-5": {"input": 1, "output": 10}}')
    assert main([*given, "--price-file", str(prices)]) == 0
    assert "360 steps" not in capsys.readouterr().out


# ---- Bad requests -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--model", "gpt-5"], "unknown model 'gpt-5'"),
        (["--model", "openai:gpt-5"], "set the environment's variable OPENAI_API_KEY"),
        (["--model", "scripted:nobody"], "unknown script 'nobody'"),
        (["--model", "agent:nobody"], "unknown agent 'nobody'"),
        (["--model", "replay:/nowhere"], "nothing to replay in /nowhere"),
        (["--model", "openai-compatible:x"], "needs --base-url"),
        (["--model", "scripted:answer", "--memory", "none"], "unknown memory 'none'"),
        (["--model", "scripted:answer", "--horizon", "0"], "--horizon"),
        (["--model", "scripted:answer", "--memory", "canvas", "--horizon", "3"], "leave the horizon out"),
        (["--model", "scripted:answer", "--prompts", "/nowhere.toml"], "no prompt pack at /nowhere.toml"),
        (["--model", "scripted:answer", "--max-cost", "1"], "--price-file"),
        (["--model", "scripted:answer", "--price-file", "/nowhere.toml"], "/nowhere.toml: No such file"),
        (["--model", "scripted:answer", "--temperature", "0"], "temperature would do nothing"),
        (["--model", "scripted:answer", "--window", "500"], "window is 500"),
        (["--model", "agent:planner", "--memory", "full-image"], "control is for models"),
        (["--model", "scripted:nobody", "--dry-run"], "unknown script 'nobody'"),
        (
            ["--model", "openai-compatible", "--base-url", "http://x/v1", "--dry-run", "--price-file", "/p"],
            "openai-compatible:MODEL",
        ),
    ],
)
def test_bad_requests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], expected: str
) -> None:
    assert main([*GIVEN, "--out", str(tmp_path / "run"), *more]) == 2
    assert expected in one_line(capsys)
    assert not (tmp_path / "run").exists()


def test_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*GIVEN, "--model", "scripted:answer"]) == 2
    assert "--out" in one_line(capsys)


def test_another_configuration_in_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [*GIVEN, "--model", "scripted:answer", "--out", str(tmp_path), "--json"]
    assert main(given) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    capsys.readouterr()
    for more, field in (
        (["--memory", "textual"], "memory"),
        (["--horizon", "all"], "horizon"),
        (["--attempts", "1"], "attempts"),
        (["--window", "32"], "window"),
    ):
        assert main([*given, *more]) == 2
        assert f"with {field} = " in one_line(capsys)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    return tmp_path / "prices.toml"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[other]\ninput = 1\noutput = 1\n", "has no price of 'answer'; it has other"),
        ("[answer]\ninput = 1\n", "output"),
        ("[answer]\ninput = -1\noutput = 1\n", "input is -1"),
        ("[answer\n", "no price file"),
    ],
)
def test_bad_prices(prices: Path, capsys: pytest.CaptureFixture[str], text: str, expected: str) -> None:
    prices.write_text(text)
    given = [
        *GIVEN,
        "--model",
        "scripted:answer",
        "--price-file",
        str(prices),
        "--out",
        str(prices.parent / "x"),
    ]
    assert main(given) == 2
    assert expected in one_line(capsys)
