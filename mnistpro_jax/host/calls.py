"""One call to whoever plays: the ledger is asked before, what failed is logged and made again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from mnistpro_jax.host.capped import capped
from mnistpro_jax.host.contract import UNFINISHED, Decision, Status, StopRun, Turn
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.retries import with_retries


async def made(
    turn: Turn, act: Callable[[], Awaitable[Decision]], ledger: Ledger, log: EpisodeLog
) -> Decision:
    """What a call and its retries came to; a status of ``UNFINISHED`` where it was not to begin, failed, or was ended.

    turn: whose messages are asked about, for the cost that it may have. Raises StopRun where no further call can
    succeed, and where the player's program fails; OSError where the log cannot be written.
    """
    refusal, reserved = ledger.begin(turn)
    if refusal is not None:
        return Decision(refusal)
    decision: Decision | None = None

    async def once() -> Decision:
        if ledger.stopped:  # while a retry waited
            return Decision(Status.CANCELLED)
        found = capped(ledger.told(turn, await act()))
        if found.status == Status.API_ERROR:
            log.error(turn, found)
            ledger.failed(found)
        return found

    try:
        decision = await with_retries(once, ledger.retries, ledger.pause)
    except (StopRun, OSError):
        raise
    except Exception as error:
        raise StopRun(
            f"the agent failed on episode {turn.episode}: {type(error).__name__}: {error}"
        ) from error
    finally:
        ledger.end(reserved, decision)
    if decision.status == Status.API_ERROR:
        ledger.given_up(turn, decision)
    elif decision.status not in UNFINISHED:
        ledger.reached(turn.step)
    return decision
