"""The callback bridge: host agents inside a compiled rollout, beside JAX agents.

The whole rollout of a batch is one compiled loop; on every step one ordered ``io_callback``, outside ``vmap``, hands
the batch to the host and gets actions and statuses back. For agents that are quick or answer in equal times, and for
rollouts that mix JAX agents with host agents; with a paid model the free-running driver is faster.

What the callback keeps to: it is called once a step for the whole batch and told which lanes wait for it; it never
raises (a fault becomes a status, and the lane freezes); it uses numpy alone; coroutines run on a loop of its own
thread, and so does the compiled call, so that Ctrl-C is heard at once and the batch comes back as far as it got; the
session is found by a number, which is an argument of the program, so that another agent compiles nothing new.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.experimental import io_callback

from mnistpro_jax.agents.base import Policy
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import EpisodeStatistics, Kind, State, pytree
from mnistpro_jax.host.contract import COUNTED, Decision, HostPolicy, Status, StopRun
from mnistpro_jax.host.episode import Conversation, Played
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.log import EpisodeLog
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.runner import Done, Logs
from mnistpro_jax.host.world import HostWorld, advance_live, begin, codes, episode_keys

_ResultT = TypeVar("_ResultT")

_STATUS_CODES = {status: code for code, status in enumerate(Status)}
_STATUSES = list(Status)
_COUNTED_CODES = np.asarray([_STATUS_CODES[status] for status in COUNTED], np.int8)


class LoopThread:
    """An event loop on a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="host agents", daemon=True)
        self._work: concurrent.futures.Future[Any] | None = None

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """The result of a coroutine on the loop; for any other thread."""
        self._work = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        result: _ResultT = self._work.result()
        return result

    def abort(self) -> None:
        """Cancel what is running; ``run`` then raises CancelledError in its thread."""
        if self._work is not None:
            self._work.cancel()


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


class _Session:
    """The host's side of one batch."""

    def __init__(
        self,
        talks: dict[int, Conversation],
        policy: HostPolicy,
        ledger: Ledger,
        loop: LoopThread,
        digits: int,
    ) -> None:
        self._talks = talks
        self._policy = policy
        self._ledger = ledger
        self._loop = loop
        self._digits = digits

    def act(
        self, observation: Any, words: Any, corners: Any, steps: Any, live: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int8]]:
        """Actions and statuses of a step; never raises."""
        kinds = np.zeros(len(live), np.int32)
        digits = np.zeros((len(live), self._digits), np.int32)
        statuses = np.full(len(live), _STATUS_CODES[Status.OK], np.int8)
        lanes = np.flatnonzero(live).tolist()
        try:
            for lane in lanes:
                # Another array for every lane: what the program hands over may be used again when this returns.
                view = (
                    jax.tree.map(lambda leaf, lane=lane: np.array(leaf[lane]), observation)
                    if self._policy.observation is not None
                    else None
                )
                self._talks[lane].show(words[lane], corners[lane], steps[lane], view)
            decisions = self._loop.run(self._decide([self._talks[lane] for lane in lanes]))
        except BaseException as error:
            if not isinstance(error, concurrent.futures.CancelledError):
                self._ledger.stop(StopRun(f"the bridge failed: {type(error).__name__}: {error}"))
            for lane in lanes:
                self._talks[lane].status = Status.CANCELLED
            statuses[lanes] = _STATUS_CODES[Status.CANCELLED]
            return kinds, digits, statuses
        for lane, decision in zip(lanes, decisions, strict=True):
            kinds[lane], digits[lane] = codes(decision, self._digits)
            statuses[lane] = _STATUS_CODES[decision.status]
        return kinds, digits, statuses

    async def _decide(self, talks: list[Conversation]) -> list[Decision]:
        return await asyncio.gather(*(talk.decide(self._policy, self._ledger) for talk in talks))


_sessions: dict[int, _Session] = {}
_numbers = itertools.count(1)


def _callback(handle: Any, *arguments: Any) -> Any:
    host = jax.tree.map(np.asarray, arguments)
    return _sessions[int(handle)].act(*host)


def rollout(
    world: HostWorld,
    protocol: Protocol,
    policy: HostPolicy,
    episodes: Sequence[int],
    *,
    ledger: Ledger | None = None,
    logs: Logs = EpisodeLog,
    enlarge: int = 1,
    jax_policy: Policy[Any] | None = None,
    jax_lanes: Sequence[bool] | None = None,
    lanes: int | None = None,
) -> BridgeResult:
    """One compiled rollout of a batch of episodes, one lane each.

    policy: the host agent. jax_policy: a JAX agent that plays the lanes of ``jax_lanes``, bool (B,); the world must be
    in its observation mode. Other arguments as of ``runner.play``.

    lanes: of the program, at least as many as episodes; the rest stands idle, so that batches of different sizes share
    one compiled program.

    Ctrl-C, heard in the main thread, freezes the host agent's lanes as cancelled once the calls under way are there;
    a second one gives these calls up. Either way the batch comes back as far as it got. Raises RuntimeError where it is
    called from a running event loop (use ``asyncio.to_thread``), ValueError for arguments that do not fit.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError(
            "the bridge waits for its rollout, which would stop the event loop that called it; use "
            "await asyncio.to_thread(bridge.rollout, ...)"
        )
    if (jax_policy is None) != (jax_lanes is None):
        raise ValueError("a JAX agent needs jax_policy and jax_lanes, both")
    if jax_policy is not None and jax_policy.observation != world.env.observation:
        raise ValueError(
            f"the JAX agent sees {jax_policy.observation!r}, the world shows {world.env.observation!r}; "
            "make the world with the agent's observation"
        )
    book = ledger if ledger is not None else Ledger()
    mine = np.zeros(len(episodes), bool) if jax_lanes is None else np.asarray(jax_lanes, bool)
    if mine.shape != (len(episodes),):
        raise ValueError(f"jax_lanes has shape {mine.shape}; expected {(len(episodes),)}")
    idle = max(0, (lanes or 0) - len(episodes))
    rows = np.asarray([*episodes, *[episodes[-1]] * idle], np.int32)
    at_work = np.arange(len(rows)) < len(episodes)
    handle = next(_numbers)
    with contextlib.ExitStack() as stack:
        talks: dict[int, Conversation] = {}
        for lane, number in enumerate(episodes):
            if not mine[lane]:
                log = logs(number)
                stack.callback(log.close)
                stack.callback(policy.forget, number)
                talks[lane] = Conversation(world, protocol, number, log, enlarge)
        loop = stack.enter_context(LoopThread())
        stack.callback(lambda: loop.run(policy.close()))
        _sessions[handle] = _Session(talks, policy, book, loop, world.env.num_digits)
        stack.callback(_sessions.pop, handle)
        keys = [episode_keys(world.seed, number) for number in rows] if jax_policy is not None else None
        stacked = None if keys is None else tuple(jnp.stack(part) for part in zip(*keys, strict=True))
        result = _waited_for(
            lambda: jax.device_get(
                _run(
                    world.env,
                    world.budget,
                    np.int32(handle),
                    world.params,
                    jax_policy,
                    stacked,
                    np.pad(mine, (0, idle)),
                    at_work,
                    world.scenes[rows],
                    world.starts[rows],
                )
            ),
            book,
            loop,
        )
        result = jax.tree.map(lambda leaf: leaf[: len(episodes)], result)
        played = [
            talk.finish(
                jax.tree.map(lambda leaf, lane=lane: leaf[lane], result.statistics), result.xy[lane], book
            )
            for lane, talk in talks.items()
        ]
    statuses = [
        talks[lane].status if lane in talks else _STATUSES[code] for lane, code in enumerate(result.status)
    ]
    return BridgeResult(played, result.statistics, result.windows, result.kinds, statuses)


def play(
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
    """Play episodes through the bridge, ``concurrency`` in a batch. Arguments and results as of ``runner.play``."""
    book = ledger if ledger is not None else Ledger()
    results: list[Played] = []
    with _interrupts(book.interrupt):
        for first in range(0, len(episodes), concurrency):
            if book.stopped and results:
                break
            group = list(episodes[first : first + concurrency])
            batch = rollout(
                world, protocol, policy, group, ledger=book, logs=logs, enlarge=enlarge, lanes=concurrency
            )
            for played in batch.played:
                results.append(played)
                if done is not None:
                    done(played)
    return results


def _waited_for(work: Callable[[], _ResultT], ledger: Ledger, loop: LoopThread) -> _ResultT:
    """The result of ``work`` in a thread. An interrupt meanwhile stops the ledger, a second one the calls."""
    with (
        concurrent.futures.ThreadPoolExecutor(1, "bridge") as pool,
        _interrupts(lambda: loop.abort() if ledger.interrupted else ledger.interrupt()),
    ):
        return pool.submit(work).result()


@contextlib.contextmanager
def _interrupts(heard: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C, and SIGTERM, which schedulers send, call ``heard`` instead of raising; in the main thread alone, which
    gets both.

    An exception would be raised wherever the thread happens to be, and lost where nobody can catch it (in a callback of
    the garbage collector, say).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(*_: Any) -> None:
        # What is said of it may break into a line that is being written, which Python refuses.
        with contextlib.suppress(RuntimeError):
            heard()

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


# ---- The compiled side --------------------------------------------------------------------------------------


@pytree
class _Lanes:
    """What the loop carries, and what is left at its end."""

    state: State
    shown: Any
    memory: Any
    status: jax.Array
    windows: jax.Array
    kinds: jax.Array


@pytree
class _Result:
    statistics: EpisodeStatistics
    xy: jax.Array
    status: jax.Array
    windows: jax.Array
    kinds: jax.Array


@functools.partial(jax.jit, static_argnames=("env", "length"))
def _run(
    env: Environment,
    length: int,
    handle: Any,
    params: EnvParams,
    jax_policy: Any,
    keys: Any,
    jax_lanes: Any,
    at_work: Any,
    scenes: Any,
    starts: Any,
) -> _Result:
    lanes = scenes.shape[0]
    shown, state = jax.vmap(begin, in_axes=(None, None, 0, 0))(env, params, scenes, starts)
    memory = () if jax_policy is None else jax.vmap(jax_policy.init)(keys[0])
    carry = _Lanes(
        state=state,
        shown=shown,
        memory=memory,
        status=jnp.where(at_work, jnp.int8(0), jnp.int8(_STATUS_CODES[Status.CANCELLED])),
        windows=jnp.full((lanes, length + 1, 2), -1, jnp.int16).at[:, 0].set(state.xy.astype(jnp.int16)),
        kinds=jnp.full((lanes, length), Kind.NONE, jnp.int8),
    )
    actions = (
        jax.ShapeDtypeStruct((lanes,), jnp.int32),
        jax.ShapeDtypeStruct((lanes, env.num_digits), jnp.int32),
        jax.ShapeDtypeStruct((lanes,), jnp.int8),
    )

    def turn(carry: _Lanes) -> _Lanes:
        live = _live(carry)
        state, shown = carry.state, carry.shown
        kinds, digits, status = io_callback(
            _callback,
            actions,
            handle,
            shown.observation,
            shown.words,
            state.xy,
            state.step,
            live & ~jax_lanes,
            ordered=True,
        )
        memory = carry.memory
        if jax_policy is not None:
            step_keys = jax.vmap(jax.random.fold_in)(keys[1], shown.observation.step)
            chosen, memory = jax.vmap(jax_policy.act)(step_keys, shown.observation, memory)
            kinds = jnp.where(jax_lanes, chosen.kind.astype(jnp.int32), kinds)
            digits = jnp.where(jax_lanes[:, None], chosen.digits.astype(jnp.int32), digits)
        status = jnp.where(live, status, carry.status)
        plays = live & jnp.isin(status, _COUNTED_CODES)
        shown, after = advance_live(env, params, state, kinds, digits, plays)
        row = jnp.arange(lanes)
        acted = jnp.where(plays, state.step, length)  # out of range, and dropped
        moved = plays & (after.last_action <= Kind.RIGHT)
        reached = jnp.where(moved, state.step + 1, length + 1)
        return _Lanes(
            state=after,
            shown=shown,
            memory=memory,
            status=status,
            windows=carry.windows.at[row, reached].set(after.xy.astype(jnp.int16), mode="drop"),
            kinds=carry.kinds.at[row, acted].set(after.last_action.astype(jnp.int8), mode="drop"),
        )

    last = jax.lax.while_loop(lambda carry: jnp.any(_live(carry)), turn, carry)
    statistics = jax.vmap(env.statistics, in_axes=(0, None))(last.state, params)
    return _Result(statistics, last.state.xy, last.status, last.windows, last.kinds)


def _live(carry: _Lanes) -> jax.Array:
    """Lanes whose episode goes on."""
    live: jax.Array = ~carry.shown.ended & jnp.isin(carry.status, _COUNTED_CODES)
    return live
