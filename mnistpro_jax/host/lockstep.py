"""The lockstep driver: a batch of episodes takes each turn together, for servers that answer a batch at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mnistpro_jax.host.attempts import Played
from mnistpro_jax.host.contract import COUNTED, HostPolicy
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.lanes import Lane, lanes
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.runner import Done, Logs
from mnistpro_jax.host.world import codes


async def play(
    sittings: GlimpseSittings,
    policy: HostPolicy,
    numbers: Sequence[int],
    *,
    ledger: Ledger | None = None,
    logs: Logs = EpisodeLog,
    concurrency: int = 16,
    done: Done | None = None,
) -> list[Played]:
    """Play episodes in batches of ``concurrency``: all requests of a turn at once, then one batched step.

    Arguments and results as of ``runner.play``.
    """
    book = ledger if ledger is not None else Ledger()
    results: list[Played] = []
    for first in range(0, len(numbers), concurrency):
        group = list(numbers[first : first + concurrency])
        with lanes(sittings, policy, group, book, logs) as batch:
            finished = await _play_batch(sittings, policy, batch, concurrency)
        for played in finished:
            results.append(played)
            if done is not None:
                done(played)
    return results


async def _play_batch(
    sittings: GlimpseSittings, policy: HostPolicy, batch: list[Lane], width: int
) -> list[Played]:
    """width: of the compiled program, at least as many as lanes: the last batch keeps the shape."""
    world = sittings.world
    numbers = [lane.episode.number for lane in batch]
    rows = np.asarray([*numbers, *[numbers[-1]] * (width - len(batch))], np.int32)
    shown, states = world.begin_all(rows)
    live = np.arange(width) < len(batch)
    while live.any():
        looks, corners, steps = jax.device_get((shown, states.xy, states.step))
        at_work = np.flatnonzero(live).tolist()
        for row in at_work:
            observation = _row(looks.observation, row) if policy.observation is not None else None
            batch[row].episode.show(looks.words[row], corners[row], steps[row], observation)
        decisions = await asyncio.gather(*(batch[row].decide() for row in at_work))
        kinds = np.zeros(width, np.int32)
        digits = np.zeros((width, world.env.num_digits), np.int32)
        for row, decision in zip(at_work, decisions, strict=True):
            kinds[row], digits[row] = codes(decision, world.env.num_digits)
            live[row] = decision.status in COUNTED
        shown, states = world.advance_all(states, kinds, digits, live)
        live = live & ~np.asarray(shown.ended)
    last: Any = jax.device_get(states)
    return [lane.finish(world.statistics(_row(last, row)), last.xy[row]) for row, lane in enumerate(batch)]


def _row(tree: Any, row: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[row], tree)
