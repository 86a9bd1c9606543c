"""Calls that failed are made again by one policy, within its limits, and no longer than the run wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest

from mnistpro_jax.host.contract import Decision, Failure, Status, StopRun
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.retries import Retries, with_retries

GONE = Decision(Status.API_ERROR, problem="gone", failure=Failure(passing=True))
FOR_GOOD = Decision(Status.API_ERROR, problem="never", failure=Failure(general=True))
UP = Decision(Status.OK, "up")


def called(decisions: Sequence[Decision], retries: Retries) -> tuple[Decision, list[float]]:
    """What calls with these outcomes come to, and the waits between them."""
    waits: list[float] = []
    outcomes = iter(decisions)

    async def call() -> Decision:
        return next(outcomes)

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    return asyncio.run(with_retries(call, retries, pause)), waits


def test_the_last_outcome_counts() -> None:
    assert called([UP], Retries(most=3)) == (UP, [])
    assert called([GONE, UP], Retries(most=0)) == (GONE, [])
    decision, waits = called([GONE, GONE, UP], Retries(most=2))
    assert decision == UP and len(waits) == 2
    decision, waits = called([GONE] * 9, Retries(most=5))
    assert decision == GONE and len(waits) == 5
    # What cannot pass, or does not say that it may, is not tried again.
    for last in (FOR_GOOD, Decision(Status.API_ERROR), Decision(Status.REFUSED)):
        assert called([GONE, last, UP], Retries(most=5))[0] == last


def test_waits_grow_within_their_limits() -> None:
    retries = Retries(most=9, first_s=1.0, longest_s=20.0)
    _, waits = called([GONE] * 10, retries)
    for number, wait in enumerate(waits):
        longest = min(20.0, 2.0**number)
        assert longest / 2 <= wait <= longest
    assert len({tuple(called([GONE] * 10, retries)[1]) for _ in range(5)}) > 1  # not all come back at once


def test_a_server_that_says_when_is_believed_within_a_limit() -> None:
    def asking(seconds: float) -> Decision:
        return Decision(Status.API_ERROR, problem="busy", failure=Failure(passing=True, after_s=seconds))

    _, waits = called([asking(7.0), asking(0.0), UP], Retries(most=2))
    assert 7 <= waits[0] <= 8 and 0 <= waits[1] <= 1
    with pytest.raises(StopRun, match="asks to wait 3,600 s"):
        called([asking(3600.0), UP], Retries(most=2))


@pytest.mark.parametrize("how", ["interrupt", "fault"])
def test_a_wait_ends_with_the_run(how: str) -> None:
    ledger = Ledger()

    async def session() -> float:
        began = time.monotonic()
        waiting = asyncio.create_task(ledger.pause(60.0))
        await asyncio.sleep(0.05)
        ledger.interrupt() if how == "interrupt" else ledger.stop(StopRun("x"))
        await waiting
        return time.monotonic() - began

    assert asyncio.run(session()) < 5
