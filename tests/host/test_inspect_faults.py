"""Faults of a provider through Inspect and its own client: none of them makes an agent wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")

from inspect_ai import eval as inspect_eval
from inspect_ai.model import get_model

from mnistpro_jax.demo_server.faults import FAULTS, Fault, Faults
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.demo_server.server import DemoServer, ServerSettings
from mnistpro_jax.host.inspect_task import mnist_pro
from mnistpro_jax.runs.inspect_logs import RECORD

EPISODES = 4
SLOW = {Fault.LONG_WAIT, Fault.DRIP}
"""Inspect waits as long as it is asked to."""


def played(player: Player, folder: Path, faults: Faults) -> list[Any]:
    """The samples of an evaluation against the demo server."""
    with DemoServer(ServerSettings(port=0, faults=faults), player) as server:
        model = get_model("openai-api/demo/demo", base_url=server.base_url, api_key="x", memoize=False)
        (log,) = inspect_eval(
            mnist_pro(episodes=EPISODES, seed=1),
            model=model,
            log_dir=str(folder),
            display="none",
            fail_on_error=False,
            # Not more, since Inspect waits seconds before it makes a call again.
            max_retries=0,
            timeout=20,
        )
        return list(log.samples or [])


def test_no_fault_makes_an_agent_wrong(player: Player, tmp_path: Path) -> None:
    player.warm_up()
    plain = {sample.id: sample.metadata[RECORD] for sample in played(player, tmp_path / "plain", Faults())}
    kinds = [fault for fault in FAULTS if fault not in SLOW]
    met: set[str] = set()
    shares = dict.fromkeys(kinds, 0.4 / len(kinds))
    for sample in played(player, tmp_path / "faulty", Faults(shares, retry_after=0.0, seed=1)):
        record = sample.metadata.get(RECORD)
        if sample.error is not None:
            assert not sample.scores  # an error of the sample, to be played again
            met.add("error")
            continue
        assert record["status"] in ("ok", "unparseable")
        if record["status"] == "ok":
            assert record["actions"] == plain[sample.id]["actions"]
            assert record["correct"] == plain[sample.id]["correct"]
        else:
            assert record["calls"] >= 3  # three attempts, each of which said nothing
        met.add(record["status"])
    assert {"ok", "error"} <= met
