"""The bridge driver: host agents inside a compiled rollout, beside JAX agents.

The whole rollout of a batch is one compiled loop (``bridge_program``). For agents that are quick or answer in equal
times, and for rollouts that mix JAX agents with host agents; with a paid model the free-running driver is faster.

Coroutines run on a loop of its own thread, and the compiled call in another, so that Ctrl-C is heard at once and the
batch comes back as far as it got.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mnistpro_jax.agents.base import Policy
from mnistpro_jax.env.types import EpisodeStatistics
from mnistpro_jax.host import bridge_program, interrupts
from mnistpro_jax.host.attempts import Played
from mnistpro_jax.host.bridge_program import STATUS_CODES, STATUSES
from mnistpro_jax.host.contract import Decision, HostPolicy, Status, StopRun
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.lanes import Lane, lanes
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.loop_thread import LoopThread
from mnistpro_jax.host.runner import Done, Logs
from mnistpro_jax.host.world import codes, episode_keys

_ResultT = TypeVar("_ResultT")


@dataclasses.dataclass(frozen=True, eq=False)
class BridgeResult:
    """A batch of B episodes as far as it got.

    played: the host agent's episodes, in order. statistics: of all lanes, leading B. windows: int16 (B, L + 1, 2),
    corners after reset and each move, -1 past the end. kinds: int8 (B, L), actions, -1 past the end. statuses: of all
    lanes, OK for those of the JAX agent.
    """

    played: list[Played]
    statistics: EpisodeStatistics
    windows: npt.NDArray[np.int16]
    kinds: npt.NDArray[np.int8]
    statuses: list[Status]


@dataclasses.dataclass(frozen=True, eq=False)
class _Host:
    """The host's side of one batch. lanes: the host agent's, by their row."""

    lanes: dict[int, Lane]
    policy: HostPolicy
    ledger: Ledger
    loop: LoopThread
    digits: int

    def act(
        self, observation: Any, words: Any, corners: Any, steps: Any, live: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int8]]:
        """Actions and statuses of a step; never raises."""
        kinds = np.zeros(len(live), np.int32)
        digits = np.zeros((len(live), self.digits), np.int32)
        statuses = np.full(len(live), STATUS_CODES[Status.OK], np.int8)
        rows = np.flatnonzero(live).tolist()
        try:
            for row in rows:
                # Another array for every lane: what the program hands over may be used again when this returns.
                view = (
                    jax.tree.map(lambda leaf, row=row: np.array(leaf[row]), observation)
                    if self.policy.observation is not None
                    else None
                )
                self.lanes[row].episode.show(words[row], corners[row], steps[row], view)
            decisions = self.loop.run(self._decide([self.lanes[row] for row in rows]))
        except BaseException as error:
            if not isinstance(error, concurrent.futures.CancelledError):
                self.ledger.stop(StopRun(f"the bridge failed: {type(error).__name__}: {error}"))
            for row in rows:
                self.lanes[row].attempts.status = Status.CANCELLED
            statuses[rows] = STATUS_CODES[Status.CANCELLED]
            return kinds, digits, statuses
        for row, decision in zip(rows, decisions, strict=True):
            kinds[row], digits[row] = codes(decision, self.digits)
            statuses[row] = STATUS_CODES[decision.status]
        return kinds, digits, statuses

    async def _decide(self, batch: list[Lane]) -> list[Decision]:
        return await asyncio.gather(*(lane.decide() for lane in batch))


def rollout(
    sittings: GlimpseSittings,
    policy: HostPolicy,
    numbers: Sequence[int],
    *,
    ledger: Ledger | None = None,
    logs: Logs = EpisodeLog,
    jax_policy: Policy[Any] | None = None,
    jax_lanes: Sequence[bool] | None = None,
    width: int | None = None,
) -> BridgeResult:
    """One compiled rollout of a batch of episodes, one lane each.

    policy: the host agent. jax_policy: a JAX agent that plays the lanes of ``jax_lanes``, bool (B,); the world must be
    in its observation mode. Other arguments as of ``runner.play``.

    width: lanes of the program, at least as many as episodes; the rest stands idle, so that batches of different sizes
    share one compiled program.

    Ctrl-C, heard in the main thread, freezes the host agent's lanes as cancelled once the calls under way are there;
    a second one gives these calls up. Either way the batch comes back as far as it got. Raises RuntimeError where it is
    called from a running event loop (use ``asyncio.to_thread``), ValueError for arguments that do not fit.
    """
    _refuse_a_running_loop()
    world = sittings.world
    mine = _checked_lanes(sittings, len(numbers), jax_policy, jax_lanes)
    book = ledger if ledger is not None else Ledger()
    idle = max(0, (width or 0) - len(numbers))
    rows = np.asarray([*numbers, *[numbers[-1]] * idle], np.int32)
    at_work = np.arange(len(rows)) < len(numbers)
    keys = None
    if jax_policy is not None:
        pairs = [episode_keys(world.seed, number) for number in rows]
        keys = tuple(jnp.stack(part) for part in zip(*pairs, strict=True))
    hosted = [row for row in range(len(numbers)) if not mine[row]]
    with contextlib.ExitStack() as stack:
        batch = stack.enter_context(lanes(sittings, policy, [numbers[row] for row in hosted], book, logs))
        loop = stack.enter_context(LoopThread())
        stack.callback(lambda: loop.run(policy.close()))
        host = _Host(dict(zip(hosted, batch, strict=True)), policy, book, loop, world.env.num_digits)
        handle = stack.enter_context(bridge_program.hosting(host.act))
        result = _waited_for(
            lambda: jax.device_get(
                bridge_program.run(
                    world.env,
                    world.budget,
                    np.int32(handle),
                    world.params,
                    jax_policy,
                    keys,
                    np.pad(mine, (0, idle)),
                    at_work,
                    world.scenes[rows],
                    world.starts[rows],
                )
            ),
            book,
            loop,
        )
        result = jax.tree.map(lambda leaf: leaf[: len(numbers)], result)
        played = [
            lane.finish(jax.tree.map(lambda leaf, row=row: leaf[row], result.statistics), result.xy[row])
            for row, lane in host.lanes.items()
        ]
    statuses = [
        host.lanes[row].attempts.status if row in host.lanes else STATUSES[code]
        for row, code in enumerate(result.status)
    ]
    return BridgeResult(played, result.statistics, result.windows, result.kinds, statuses)


def _refuse_a_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "the bridge waits for its rollout, which would stop the event loop that called it; use "
        "await asyncio.to_thread(bridge.rollout, ...)"
    )


def _checked_lanes(
    sittings: GlimpseSittings,
    count: int,
    jax_policy: Policy[Any] | None,
    jax_lanes: Sequence[bool] | None,
) -> npt.NDArray[np.bool_]:
    """The lanes of the JAX agent, bool (count,)."""
    if (jax_policy is None) != (jax_lanes is None):
        raise ValueError("a JAX agent needs jax_policy and jax_lanes, both")
    shows = sittings.world.env.observation
    if jax_policy is not None and jax_policy.observation != shows:
        raise ValueError(
            f"the JAX agent sees {jax_policy.observation!r}, the world shows {shows!r}; "
            "make the world with the agent's observation"
        )
    mine = np.zeros(count, bool) if jax_lanes is None else np.asarray(jax_lanes, bool)
    if mine.shape != (count,):
        raise ValueError(f"jax_lanes has shape {mine.shape}; expected {(count,)}")
    return mine


def play(
    sittings: GlimpseSittings,
    policy: HostPolicy,
    numbers: Sequence[int],
    *,
    ledger: Ledger | None = None,
    logs: Logs = EpisodeLog,
    concurrency: int = 16,
    done: Done | None = None,
) -> list[Played]:
    """Play episodes through the bridge, ``concurrency`` in a batch. Arguments and results as of ``runner.play``."""
    book = ledger if ledger is not None else Ledger()
    results: list[Played] = []
    with interrupts.in_main_thread(book.interrupt):
        for first in range(0, len(numbers), concurrency):
            if book.stopped and results:
                break
            group = list(numbers[first : first + concurrency])
            batch = rollout(sittings, policy, group, ledger=book, logs=logs, width=concurrency)
            for played in batch.played:
                results.append(played)
                if done is not None:
                    done(played)
    return results


def _waited_for(work: Callable[[], _ResultT], ledger: Ledger, loop: LoopThread) -> _ResultT:
    """The result of ``work`` in a thread. An interrupt meanwhile stops the ledger, a second one the calls."""
    with (
        concurrent.futures.ThreadPoolExecutor(1, "bridge") as pool,
        interrupts.in_main_thread(lambda: loop.abort() if ledger.interrupted else ledger.interrupt()),
    ):
        return pool.submit(work).result()
