"""The free-running driver: every episode a task of its own, which waits for nobody but its own replies.

The default for models behind an API: with replies that take unequal times, a batch that moves in step pays for its
slowest member on every turn.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable, Sequence

from mnistpro_jax.host.contract import COUNTED, HostPolicy, Status
from mnistpro_jax.host.episode import Conversation, Played
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.log import EpisodeLog
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.world import HostWorld

Logs = Callable[[int], EpisodeLog]
"""Gives the log of an episode."""
Done = Callable[[Played], None]


async def play(
    world: HostWorld,
    protocol: Protocol,
    policy: HostPolicy,
    episodes: Sequence[int],
    *,
    ledger: Ledger | None = None,
    logs: Logs = EpisodeLog,
    concurrency: int = 16,
    rounds: int = 3,
    enlarge: int = 1,
    done: Done | None = None,
) -> list[Played]:
    """Play episodes, at most ``concurrency`` at a time; returns them in the order given.

    ledger: limits and counts. logs: where each episode's log is; in memory by default. rounds: how often an episode
    whose call failed is taken up again at the end. enlarge: whole factor of the pictures. done: called with each
    episode as it ends, or stops for this session. Where ``ledger`` stops the run, calls under way are waited for and
    logged; a cancelled task logs nothing of them.
    """
    book = ledger if ledger is not None else Ledger()
    waiting: collections.deque[tuple[int, int, EpisodeLog | None]]
    waiting = collections.deque((number, 1, None) for number in episodes)
    results: dict[int, Played] = {}

    async def worker() -> None:
        while waiting:
            number, round_, log = waiting.popleft()
            # The same log in every round: what it holds is not asked again.
            log = logs(number) if log is None else log
            try:
                played = await play_one(world, protocol, policy, number, book, log, enlarge)
            finally:
                policy.forget(number)
            if played.status == Status.API_ERROR and round_ < rounds and not book.stopped:
                waiting.append((number, round_ + 1, log))
                continue
            results[number] = played
            if done is not None:
                done(played)

    workers = [asyncio.create_task(worker()) for _ in range(min(concurrency, len(episodes)))]
    try:
        await asyncio.gather(*workers)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return [results[number] for number in episodes if number in results]


async def play_one(
    world: HostWorld,
    protocol: Protocol,
    policy: HostPolicy,
    episode: int,
    ledger: Ledger,
    log: EpisodeLog,
    enlarge: int = 1,
) -> Played:
    """One episode, from its beginning or from where its log stops."""
    try:
        look, state = world.begin(episode)
        conversation = Conversation(world, protocol, episode, log, enlarge)
        while True:
            observation = look.observation if policy.observation is not None else None
            conversation.show(look.words, look.xy, look.step, observation)
            decision = await conversation.decide(policy, ledger)
            if decision.status not in COUNTED:
                break
            look, state = world.advance(state, decision)
            if look.ended:
                break
        return conversation.finish(world.statistics(state), look.xy, ledger)
    finally:
        log.close()
