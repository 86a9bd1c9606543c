"""The bridge's compiled side: a whole rollout in one loop that asks the host once a step, through an ordered callback.

The callback, outside ``vmap``, hands the batch to the host and gets actions and statuses back. It is told which lanes
wait for it, never raises (a fault becomes a status, and the lane freezes) and uses numpy alone. Whom it asks is found
by a number, which is an argument of the program, so that another agent compiles nothing new.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax.experimental import io_callback

from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import EpisodeStatistics, Kind, State, pytree
from mnistpro_jax.host.contract import COUNTED, Status
from mnistpro_jax.host.world import advance_live, begin

STATUSES = list(Status)
"""By code."""
STATUS_CODES = {status: code for code, status in enumerate(STATUSES)}
_COUNTED_CODES = np.asarray([STATUS_CODES[status] for status in COUNTED], np.int8)

Act = Callable[..., tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.int8]]]
"""(observation, words, corners, steps, live) of a batch to (kinds, digits, codes of statuses); never raises."""

_hosts: dict[int, Act] = {}
_numbers = itertools.count(1)


@contextlib.contextmanager
def hosting(act: Act) -> Iterator[int]:
    """The number by which the program finds ``act`` while this lasts."""
    handle = next(_numbers)
    _hosts[handle] = act
    try:
        yield handle
    finally:
        _hosts.pop(handle)


def _callback(handle: Any, *arguments: Any) -> Any:
    host = jax.tree.map(np.asarray, arguments)
    return _hosts[int(handle)](*host)


@pytree
class _Lanes:
    """What the loop carries."""

    state: State
    shown: Any
    memory: Any
    status: jax.Array
    windows: jax.Array
    kinds: jax.Array


@pytree
class Result:
    """What is left at the end, with leading lanes. See ``bridge.BridgeResult``; xy: corners of the last windows."""

    statistics: EpisodeStatistics
    xy: jax.Array
    status: jax.Array
    windows: jax.Array
    kinds: jax.Array


@functools.partial(jax.jit, static_argnames=("env", "length"))
def run(
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
) -> Result:
    """The rollout of a batch.

    length: budget of an episode. handle: see ``hosting``. jax_policy, keys: of the lanes ``jax_lanes``, bool (B,), keys
    of their memories and actions; None without any. at_work: bool (B,), lanes that play. scenes: int32 (B, m). starts:
    int32 (B, 2).
    """
    lanes = scenes.shape[0]
    shown, state = jax.vmap(begin, in_axes=(None, None, 0, 0))(env, params, scenes, starts)
    memory = () if jax_policy is None else jax.vmap(jax_policy.init)(keys[0])
    carry = _Lanes(
        state=state,
        shown=shown,
        memory=memory,
        status=jnp.where(at_work, jnp.int8(0), jnp.int8(STATUS_CODES[Status.CANCELLED])),
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
    return Result(statistics, last.state.xy, last.status, last.windows, last.kinds)


def _live(carry: _Lanes) -> jax.Array:
    """Lanes whose episode goes on."""
    live: jax.Array = ~carry.shown.ended & jnp.isin(carry.status, _COUNTED_CODES)
    return live
