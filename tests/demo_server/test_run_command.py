"""``mnistpro run`` against the demo server, over the wire: the score, and that failures on purpose do not change it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.demo_server.faults import Fault, Faults
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.demo_server.server import DemoServer, ServerSettings
from mnistpro_jax.runs.records import read_episodes

EPISODES = 20


def test_level_one_with_and_without_faults(
    player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # a local server wants none

    def run(
        name: str, faults: Faults | None = None
    ) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]:
        with DemoServer(ServerSettings(port=0, faults=faults or Faults()), player) as server:
            arguments = ["--model", "openai-compatible", "--base-url", server.base_url, "--level", "1"]
            code = main(
                ["run", *arguments, "--limit", str(EPISODES), "--out", str(tmp_path / name), "--json"]
            )
            assert code == 0
            summary: dict[str, Any] = json.loads(capsys.readouterr().out)
            return summary, read_episodes(tmp_path / name), server.statistics.report()

    summary, records, served = run("plain")
    assert summary["accuracy"] >= 0.9
    assert summary["statuses"]["ok"] == summary["episodes"] == EPISODES
    assert served["requests"] == served["outcomes"]["ok"] == summary["calls"]
    assert served["prompt_tokens"] == summary["input_tokens"]

    shares = {
        Fault.RATE_LIMIT: 0.1,
        Fault.SERVER_ERROR: 0.05,
        Fault.TORN: 0.1,
        Fault.EMPTY: 0.05,
        Fault.OVERLONG: 0.05,
    }
    faulty, faulty_records, met = run("faulty", Faults(shares, retry_after=0.01, seed=1))
    assert sum(count for fault, count in met["outcomes"].items() if fault != "ok") > 10
    assert faulty["statuses"]["api_error"] == 0
    # Whoever came through played the same episode; whoever did not is no wrong answer.
    plain = {record["episode"]: record for record in records}
    for record in faulty_records:
        if record["status"] == "ok":
            assert record["actions"] == plain[record["episode"]]["actions"]
        else:
            assert record["status"] in ("truncated", "refused", "unparseable")
    assert sum(record["status"] == "ok" for record in faulty_records) > EPISODES / 2
