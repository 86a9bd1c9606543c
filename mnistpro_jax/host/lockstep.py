"""The lockstep driver: a batch of episodes takes each turn together, for servers that answer a batch at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mnistpro_jax.host.contract import COUNTED, HostPolicy
from mnistpro_jax.host.episode import Conversation, Played
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.log import EpisodeLog
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.runner import Done, Logs
from mnistpro_jax.host.world import HostWorld, codes


async def play(
    world: HostWorld,
    protocol: Protocol,
    policy: HostPolicy,
    episodes: Sequence[int],
    *,
    ledger: Ledger | None = None,
    logs: Logs = EpisodeLog,
    concurrency: int = 16,
    enlarge: int = 1,
    done: Done | None = None,
) -> list[Played]:
    """Play episodes in batches of ``concurrency``: all requests of a turn at once, then one batched step.

    Arguments and results as of ``runner.play``.
    """
    book = ledger if ledger is not None else Ledger()
    results: list[Played] = []
    for first in range(0, len(episodes), concurrency):
        group = list(episodes[first : first + concurrency])
        for played in await _play_group(world, protocol, policy, group, concurrency, book, logs, enlarge):
            results.append(played)
            if done is not None:
                done(played)
    return results


async def _play_group(
    world: HostWorld,
    protocol: Protocol,
    policy: HostPolicy,
    group: list[int],
    lanes: int,
    ledger: Ledger,
    logs: Logs,
    enlarge: int,
) -> list[Played]:
    # The last group keeps the shape, and with it the compiled program.
    rows = np.asarray([*group, *[group[-1]] * (lanes - len(group))], np.int32)
    talks: list[Conversation] = []
    with contextlib.ExitStack() as stack:
        for number in group:
            log = logs(number)
            stack.callback(log.close)
            stack.callback(policy.forget, number)
            talks.append(Conversation(world, protocol, number, log, enlarge))
        shown, states = world.begin_all(rows)
        live = np.arange(lanes) < len(group)
        while live.any():
            looks, corners, steps = jax.device_get((shown, states.xy, states.step))
            lane_numbers = np.flatnonzero(live).tolist()
            for lane in lane_numbers:
                observation = _lane(looks.observation, lane) if policy.observation is not None else None
                talks[lane].show(looks.words[lane], corners[lane], steps[lane], observation)
            decisions = await asyncio.gather(*(talks[lane].decide(policy, ledger) for lane in lane_numbers))
            kinds = np.zeros(lanes, np.int32)
            digits = np.zeros((lanes, world.env.num_digits), np.int32)
            for lane, decision in zip(lane_numbers, decisions, strict=True):
                kinds[lane], digits[lane] = codes(decision, world.env.num_digits)
                live[lane] = decision.status in COUNTED
            shown, states = world.advance_all(states, kinds, digits, live)
            live = live & ~np.asarray(shown.ended)
        last: Any = jax.device_get(states)
        return [
            talk.finish(world.statistics(_lane(last, lane)), last.xy[lane], ledger)
            for lane, talk in enumerate(talks)
        ]


def _lane(tree: Any, lane: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[lane], tree)
