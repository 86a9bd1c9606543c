"""The lanes of a batch: glimpse episodes whose environments a driver steps together."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from mnistpro_jax.env.types import EpisodeStatistics
from mnistpro_jax.host.attempts import Attempts, Played
from mnistpro_jax.host.contract import Decision, HostPolicy
from mnistpro_jax.host.glimpse import GlimpseEpisode, GlimpseSittings
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.runner import Logs


@dataclasses.dataclass(frozen=True, eq=False)
class Lane:
    """An episode, and the attempts at its turns."""

    episode: GlimpseEpisode
    attempts: Attempts

    async def decide(self) -> Decision:
        """The decision on what the episode shows."""
        decision = await self.attempts.decide()
        self.episode.hear(decision)
        return decision

    def finish(self, statistics: EpisodeStatistics, xy: Any) -> Played:
        """The end of the episode, or of this session's part of it. statistics, xy: of the last state."""
        return self.attempts.finish(lambda status: self.episode.outcome(statistics, xy, status))


@contextlib.contextmanager
def lanes(
    sittings: GlimpseSittings, policy: HostPolicy, numbers: Sequence[int], ledger: Ledger, logs: Logs
) -> Iterator[list[Lane]]:
    """A lane for each episode, in the order given; at the end their logs are closed and the policy forgets them."""
    with contextlib.ExitStack() as stack:
        made = []
        for number in numbers:
            log = logs(number)
            stack.callback(log.close)
            stack.callback(policy.forget, number)
            episode = sittings.episode(number)
            made.append(Lane(episode, Attempts(episode, policy, ledger, log)))
        yield made
