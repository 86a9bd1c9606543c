"""Replies of any length leave logs of a size that one can live with, and mean the same."""

from __future__ import annotations

import json
from pathlib import Path

from mnistpro_jax.host.attempts import Played
from mnistpro_jax.host.capped import LONGEST
from mnistpro_jax.host.contract import Status, Turn, Usage
from mnistpro_jax.host.episode_log import EpisodeFolder
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.world import HostWorld
from tests.host.helpers import play, protocol, records

HUGE = 4 * LONGEST


class Endless(TextPolicy):
    """Thinks aloud for megabytes, and says what to do at the very end."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    async def reply(self, turn: Turn) -> Reply:
        self.asked.append(len(json.dumps(turn.messages)))
        said = '{"action": "answer", "value": "7"}' if turn.step else '{"action": "move", "direction": "up"}'
        return Reply("so, " * (HUGE // 4) + said, Usage(), details={"reasoning": "x" * HUGE})


def test_megabytes_are_cut_and_mean_the_same(world: HostWorld, tmp_path: Path) -> None:
    def played() -> tuple[list[Played], Endless]:
        policy = Endless()
        with EpisodeFolder(tmp_path, {}, {}) as folder:
            return play(world, protocol(world, "natural"), policy, range(1), logs=folder.episode), policy

    first, policy = played()
    assert first[0].status == Status.OK and first[0].record["steps"] == 2
    # The conversation is sent again, but not all of it.
    assert policy.asked[1] - policy.asked[0] < 1.2 * LONGEST
    (log,) = (tmp_path / "log").iterdir()
    assert log.stat().st_size < 2 * 2.2 * LONGEST
    turn = json.loads(log.read_text().splitlines()[1])
    assert turn["details"]["left_out"] > 3 * LONGEST and "characters left out" in turn["text"]
    assert turn["text"].startswith("so, ") and turn["text"].endswith('"up"}')
    # As it is read again, up to the last turn, nobody is asked.
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:-1]))
    again, policy = played()
    assert records(again) == records(first) and not policy.asked
