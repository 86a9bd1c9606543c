"""Several runs of one list, and the vote of their answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.host.repeats import VOTES, voted
from mnistpro_jax.runs.load import load_runs
from tests.host.fake_server import Answer, Body, FakeServer, chat
from tests.host.test_run import EPISODES, asking, one_line


def record(episode: int, answer: int | None, label: int, status: str = "ok") -> dict[str, Any]:
    right = None if status not in ("ok", "unparseable") else answer == label
    given = None if answer is None else [answer]
    return {"episode": episode, "answer": given, "labels": [label], "status": status, "correct": right}


def test_answers_vote() -> None:
    found = voted(
        [
            [record(0, 3, 7), record(1, 5, 5), record(2, None, 1, "unparseable"), record(3, 1, 1)],
            [record(0, 7, 7), record(1, 4, 5), record(2, None, 1, "unparseable")],
            [
                record(0, 7, 7),
                record(1, 4, 4 + 1),
                record(2, 9, 1, "refused"),
                record(3, None, 1, "api_error"),
            ],
        ]
    )
    # 0: two of three are right. 1: two of three are wrong. 2: nobody said anything. 3: one run alone counts.
    assert (found["episodes"], found["accuracy"]) == (4, 0.5)
    assert found["agreement"] == pytest.approx((2 / 3 + 2 / 3 + 0 + 1) / 4)
    assert found["single_accuracy"] == [0.5, pytest.approx(1 / 3), 0.5]
    # Among equals the earliest answer wins, whatever its number.
    assert voted([[record(0, 9, 9)], [record(0, 1, 9)]])["accuracy"] == 1.0
    assert voted([[record(0, 1, 9)], [record(0, 9, 9)]])["accuracy"] == 0.0
    empty = voted([[], []])
    assert empty["accuracy"] is None and empty["single_accuracy"] == [None, None] and empty["episodes"] == 0


def test_repeats_are_runs_that_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("openai")

    def respond(body: Body, number: int) -> Answer:
        return chat(json.dumps({"action": "answer", "value": str(body["seed"])}))

    more = ("--repeats", "3", "--model-seed", "4")
    with FakeServer(respond) as server:
        assert main(asking(server, tmp_path, *more, "--limit", "2")) == 0
        assert json.loads((tmp_path / VOTES).read_text())["complete"] is False
        assert main(asking(server, tmp_path, *more)) == 0
        assert server.count == 3 * EPISODES
        capsys.readouterr()
        assert main([word for word in asking(server, tmp_path, *more) if word != "--json"]) == 0
        assert server.count == 3 * EPISODES
        assert "vote, 6 episodes" in capsys.readouterr().out
        votes = json.loads((tmp_path / VOTES).read_text())
        assert votes["complete"] is True and len(votes["single_accuracy"]) == 3
        # Each is a run like any other: read with the others, and its seed is its own.
        runs = load_runs([tmp_path])
        assert [run.path.name for run in runs] == ["repeat-1", "repeat-2", "repeat-3"]
        assert {tuple(record["answer"]) for record in runs[2].records} == {(6,)}
        assert len({run.setting for run in runs}) == 1  # repeats of each other
        # All answers differ, so that those of the first run win.
        assert votes["accuracy"] == votes["single_accuracy"][0] and votes["agreement"] == pytest.approx(1 / 3)
        assert main(asking(server, tmp_path / "repeat-1", "--repeats", "2")) == 2
        assert "holds a single run" in one_line(capsys)
        assert main(asking(server, tmp_path, *more, "--dry-run")) == 2


def test_a_limit_of_cost_holds_for_all_of_them(tmp_path: Path) -> None:
    pytest.importorskip("openai")
    prices = tmp_path / "prices.toml"
    prices.write_text("[fake]\ninput = 1000\noutput = 10_000\n")  # 0.2 a call
    limited = ("--repeats", "3", "--price-file", str(prices), "--max-cost", str(0.2 * EPISODES * 1.5 + 0.4))
    with FakeServer(lambda *_: chat('{"action": "answer", "value": "1"}')) as server:
        for _ in range(2):
            assert main(asking(server, tmp_path / "runs", *limited)) == 1
    assert EPISODES <= server.count <= 1.5 * EPISODES + 2
