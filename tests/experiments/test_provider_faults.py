"""The table of faults in the guide is what the command measures."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

pytest.importorskip("openai")

from experiments.provider_faults import HEAD, measured
from mnistpro_jax.demo_server.faults import FAULTS, Fault
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.host import event_loop

GUIDE = Path(__file__).parents[2] / "docs" / "api_agents.md"


def rows() -> dict[str, tuple[str, ...]]:
    """The guide's rows by fault."""
    lines = GUIDE.read_text().splitlines()
    first = lines.index(f"| {' | '.join(HEAD)} |") + 2
    found = {}
    for line in lines[first:]:
        if not line.startswith("|"):
            break
        cells = tuple(cell.strip() for cell in line.strip("|").split(" | "))
        found[cells[0].strip("`")] = cells
    return found


def test_the_guide_lists_every_fault() -> None:
    assert list(rows()) == [str(fault) for fault in FAULTS]


def test_the_guides_rows_are_measured(player: Player, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of each kind; the others are in the schedules (``tests.host.test_fault_schedules``)."""
    monkeypatch.delenv("MNISTPRO_API_KEY", raising=False)
    monkeypatch.setattr(event_loop, "settled_heap", contextlib.nullcontext)
    player.warm_up()
    for fault in (
        Fault.RATE_LIMIT,
        Fault.LONG_WAIT,
        Fault.ERROR_WITHIN,
        Fault.BAD_PICTURES,
        Fault.MODERATED,
        Fault.MAX_TOKENS,
        Fault.TOOL_CALL,
        Fault.NO_USAGE,
    ):
        assert measured(player, fault).cells() == rows()[fault]
