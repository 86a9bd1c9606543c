"""The free-running driver: every sitting a task of its own, which waits for nobody but its own replies.

It drives sittings of any kind, and is the default for models behind an API: with replies that take unequal times, a
batch that moves in step pays for its slowest member on every turn.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Sequence

from mnistpro_jax.host.attempts import Played, sit_through
from mnistpro_jax.host.contract import UNFINISHED, HostPolicy, Status
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.sitting import Sittings

Logs = Callable[[int], EpisodeLog]
"""Gives the log of a sitting."""
Done = Callable[[Played], None]


async def play(
    sittings: Sittings,
    policy: HostPolicy,
    numbers: Sequence[int],
    *,
    ledger: Ledger | None = None,
    logs: Logs = EpisodeLog,
    concurrency: int = 16,
    rounds: int = 3,
    in_order: bool = False,
    done: Done | None = None,
) -> list[Played]:
    """Play sittings, at most ``concurrency`` at a time; returns them in the order given.

    ledger: limits and counts. logs: where each sitting's log is; in memory by default. rounds: how often a sitting is
    taken up whose call failed, each time after the others and after a wait (``Retries.before_round``).

    in_order: each sitting is played to its end before the next one, and none after one that is not over. done: called
    with each one as it ends, or stops for this session.
    Where ``ledger`` stops the run, calls under way are waited for and logged; a cancelled task logs nothing of them.
    """
    book = ledger if ledger is not None else Ledger()
    waiting: collections.deque[tuple[int, int, EpisodeLog | None]]
    waiting = collections.deque((number, 1, None) for number in numbers)
    results: dict[int, Played] = {}

    async def worker() -> None:
        while waiting:
            number, round_, log = waiting.popleft()
            if round_ > 1:
                await book.pause(book.retries.before_round(round_))
            # The same log in every round: what it holds is not asked again.
            log = logs(number) if log is None else log
            try:
                played = await sit_through(sittings.sit(number), policy, book, log)
            finally:
                log.close()
                policy.forget(number)
            if played.status == Status.API_ERROR and round_ < rounds and not book.stopped:
                again = (number, round_ + 1, log)
                waiting.appendleft(again) if in_order else waiting.append(again)
                continue
            results[number] = played
            if in_order and played.status in UNFINISHED:
                waiting.clear()
            if done is not None:
                done(played)

    workers = [
        asyncio.create_task(worker()) for _ in range(1 if in_order else min(concurrency, len(numbers)))
    ]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[number] for number in numbers if number in results]
