"""The demo server calls tools, and refuses transcripts as strict servers do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai")

from mnistpro_jax.demo_server.faults import Fault, Faults
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.demo_server.server import DemoServer, ServerSettings
from mnistpro_jax.demo_server.tools import SIGNED, as_call, check_transcript, offered
from mnistpro_jax.demo_server.wire import WireError
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.run import RunOutcome
from mnistpro_jax.host.run_glimpse import RunRequest, run
from mnistpro_jax.host.tools.request import ToolRequest
from mnistpro_jax.runs.records import read_episodes

EPISODES = 6


def played(player: Player, out: Path, asked: ToolRequest, **settings: Any) -> tuple[RunOutcome, DemoServer]:
    with DemoServer(ServerSettings(port=0, **settings), player) as server:
        request = RunRequest(
            "openai-compatible:demo", out=out, episodes=EPISODES, base_url=server.base_url, tools=asked
        )
        return run(request), server


@pytest.mark.parametrize(
    ("settings", "tools"),
    [
        ({}, ToolRequest()),
        ({"parallel": False}, ToolRequest(counter=False)),
        ({"pictures_in_tools": True}, ToolRequest(pictures_in="tool")),
        ({}, ToolRequest(arm="A2")),
    ],
)
def test_it_plays_by_tools_as_by_turns(
    player: Player, tmp_path: Path, settings: dict[str, Any], tools: ToolRequest
) -> None:
    outcome, server = played(player, tmp_path / "tools", tools, **settings)
    assert outcome.complete and outcome.summary["statuses"]["ok"] == EPISODES
    refused = server.statistics.report()["outcomes"]["bad-request"]
    # Each of those that were asked at once finds out that the field is not known.
    assert 1 <= refused <= EPISODES if settings == {"parallel": False} else refused == 0
    with DemoServer(ServerSettings(port=0), player) as server:
        turns = RunRequest(
            "openai-compatible:demo",
            out=tmp_path / "turns",
            episodes=EPISODES,
            base_url=server.base_url,
            horizon=-1,
        )
        assert run(turns).complete
    for one, other in zip(read_episodes(tmp_path / "tools"), read_episodes(tmp_path / "turns"), strict=True):
        same = set(one) & set(other) - {"latency_s", "cost", "calls", "input_tokens", "output_tokens"}
        assert {name: one[name] for name in same} == {name: other[name] for name in same}
    if tools.has_notes:
        assert (
            (tmp_path / "tools" / "notes" / f"{EPISODES:04d}.md")
            .read_text()
            .startswith(f"after episode {EPISODES}: ")
        )


def test_faults_do_not_make_it_wrong(player: Player, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Retries.__init__
    monkeypatch.setattr(
        Retries, "__init__", lambda self, most=0: made(self, most=most, first_s=0.001, longest_s=0.002)
    )
    shares = dict.fromkeys(
        (Fault.RATE_LIMIT, Fault.ERROR_WITHIN, Fault.TORN_BODY, Fault.NO_CHOICES, Fault.EMPTY), 0.08
    )
    faults = Faults(shares, retry_after=0.0, seed=3)
    outcome, server = played(player, tmp_path, ToolRequest(arm="A1"), faults=faults)
    assert outcome.complete, outcome.problem
    outcomes = server.statistics.report()["outcomes"]
    assert len(outcomes) > 3
    assert outcome.summary["calls"] == outcomes["ok"] + outcomes.get("empty", 0)
    assert outcome.summary["statuses"]["ok"] == EPISODES


def test_a_server_without_tools(player: Player, tmp_path: Path) -> None:
    outcome, _ = played(player, tmp_path, ToolRequest(), tools=False)
    assert "calls no tools" in (outcome.problem or "")


def test_what_a_transcript_has_to_be() -> None:
    call = as_call(1, '{"action": "move", "direction": "up"}')
    answer = {"role": "tool", "tool_call_id": "call_1", "content": "x"}
    pictured = {**answer, "content": [{"type": "image_url"}]}
    check_transcript([call, answer], False)
    check_transcript([call, pictured], True)
    for messages, said in (
        ([call], "not answered"),
        ([call, {"role": "user", "content": "x"}], "not answered before"),
        ([call, answer, answer], "not open"),
        ([{**call, SIGNED: None}, answer], SIGNED),
        ([call, pictured], "text alone"),
    ):
        with pytest.raises(WireError, match=said):
            check_transcript(messages, False)
    with pytest.raises(WireError, match="no function"):
        offered({"tools": [{"type": "function"}]})
    assert offered({}) == {}
