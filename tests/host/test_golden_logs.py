"""What a run of glimpses leaves on disk does not drift: every byte but for the clock, by every memory and driver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mnistpro_jax.host.memory import MEMORIES
from tests.host.golden_logs import GOLDEN, contents, digests, leave

KEPT = json.loads(GOLDEN.read_bytes())


@pytest.mark.parametrize(
    ("memory", "driver"),
    [*((memory, "free") for memory in MEMORIES), ("grid-map", "lockstep"), ("canvas", "bridge")],
)
def test_the_bytes_are_as_they_were(tmp_path: Path, memory: str, driver: str) -> None:
    leave(tmp_path / "run", memory, driver)
    found = contents(tmp_path / "run")
    if memory == "grid-map":  # in full, so that a difference can be read
        assert [json.loads(line) for line in found["0000.jsonl"].splitlines()] == KEPT["grid-map, 0000.jsonl"]
    assert digests(found) == KEPT[memory]
