"""When a call that failed is made again: one policy for every server, over all kinds of failures that may pass.

Waits grow by two from one retry to the next, half of each by chance, so that calls that failed together do not come
back together. A server that says when to come back (Retry-After) is believed, within a limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable

import tenacity

from mnistpro_jax.host.contract import Decision, StopRun


@dataclasses.dataclass(frozen=True)
class Retries:
    """How often, and after how long. Times in seconds.

    most: retries of a call, of whatever kinds its failures are. first_s: the longest first wait. longest_s: the longest
    wait that nobody asked for. longest_asked_s: a server that asks for more stops the run.
    """

    most: int = 0
    first_s: float = 1.0
    longest_s: float = 60.0
    longest_asked_s: float = 600.0

    def before_round(self, round_: int) -> float:
        """Seconds until a sitting whose call failed is taken up again, for the second time or a later one."""
        return min(self.longest_s, self.first_s * 2.0**round_) if self.most else 0.0


async def with_retries(
    call: Callable[[], Awaitable[Decision]], retries: Retries, pause: Callable[[float], Awaitable[None]]
) -> Decision:
    """What the last call came to.

    call: makes it, and decides whether it still may. pause: waits, or returns early where no further call may begin.
    Raises StopRun where a server asks to wait for longer than anybody would.
    """
    half = {"multiplier": retries.first_s / 2, "max": retries.longest_s / 2}
    grown = tenacity.wait_exponential(**half) + tenacity.wait_random_exponential(**half)

    def wait(state: tenacity.RetryCallState) -> float:
        asked = _asked(state)
        if asked is None:
            return grown(state)
        return asked + tenacity.wait_random(0, min(1.0, retries.first_s))(state)

    def refuse_too_long(state: tenacity.RetryCallState) -> None:
        asked = _asked(state)
        if asked is not None and asked > retries.longest_asked_s:
            raise StopRun(
                f"the server asks to wait {asked:,.0f} s (Retry-After), which is more than "
                f"{retries.longest_asked_s:,.0f} s: {_decision(state).problem}"
            )

    loop = tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(_may_pass),
        stop=tenacity.stop_after_attempt(retries.most + 1),
        wait=wait,
        sleep=pause,
        after=refuse_too_long,
        retry_error_callback=_decision,
    )

    async def once() -> Decision:  # the loop waits for nothing but what is declared so
        return await call()

    return await loop(once)


def _may_pass(decision: Decision) -> bool:
    return decision.failure is not None and decision.failure.passing


def _decision(state: tenacity.RetryCallState) -> Decision:
    assert state.outcome is not None
    decision: Decision = state.outcome.result()
    return decision


def _asked(state: tenacity.RetryCallState) -> float | None:
    failure = _decision(state).failure
    return None if failure is None else failure.after_s
