"""Memory across episodes: when a recurrent policy forgets.

With auto-reset, the observation of a step that ended an episode already belongs to the next one. The memory that meets
an observation has therefore to be cleared where the *previous* step's ``done`` was set, never by the ``done`` that the
policy's own action brings about:

    done = jnp.ones((N,), bool)                       # nothing has been seen yet
    for each step:
        memory = reset_where(done, memory, initial)   # done of the step before
        action, memory = policy(obs, memory)
        obs, state, reward, terminated, truncated, info = env.step(...)
        store(obs before the step, done before the step, action, reward, terminated, ...)
        done = terminated | truncated

``first_flags`` finds the same flags again in a stored rollout, for training on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

Memory = TypeVar("Memory")


def reset_where(done: jax.Array, memory: Memory, initial: Memory) -> Memory:
    """``initial`` where an episode has ended, else ``memory``.

    done: bool (...), of the previous step. memory: a pytree whose leaves begin with the same axes. initial: the same
    tree, with those axes or without (the memory of one episode's start). Dtypes are the memory's.

    Raises TypeError for a ``done`` that is not boolean, ValueError for leaves that do not fit.
    """
    done = jnp.asarray(done)
    if done.dtype != jnp.bool_:
        raise TypeError(f"done has dtype {done.dtype}; expected bool")

    def choose(old: jax.Array, new: jax.Array) -> jax.Array:
        new = jnp.asarray(new)
        if old.shape[: done.ndim] != done.shape or new.shape not in (old.shape, old.shape[done.ndim :]):
            raise ValueError(
                f"a leaf of the memory has shape {old.shape}, its initial value {new.shape}, done {done.shape}; "
                "expected leaves that begin with the axes of done"
            )
        mask = done.reshape(*done.shape, *[1] * (old.ndim - done.ndim))
        return jnp.where(mask, new.astype(old.dtype), old)

    chosen: Memory = jax.tree.map(choose, memory, initial)
    return chosen


def first_flags(done: jax.Array, first: jax.Array) -> jax.Array:
    """Which observations of a rollout begin an episode: bool (T, ...).

    done: bool (T, ...), terminated or truncated, of steps 0 .. T - 1. first: bool (...), whether the rollout's first
    observation begins an episode, that is ``done`` of the step before the rollout (True after a reset).
    """
    if done.dtype != jnp.bool_ or first.dtype != jnp.bool_:
        raise TypeError(f"done and first have dtypes {done.dtype} and {first.dtype}; expected bool")
    if done.shape[1:] != first.shape:
        raise ValueError(f"done has shape {done.shape} and first {first.shape}; expected (T, ...) and (...)")
    return jnp.concatenate([first[None], done])[: len(done)]


def unroll(
    cell: Callable[[Memory, Any], tuple[Memory, Any]],
    memory: Memory,
    inputs: Any,
    first: jax.Array,
    initial: Memory,
) -> tuple[Memory, Any]:
    """Run a recurrent cell over a stored rollout, forgetting where episodes begin.

    cell: (memory, inputs of one step) -> (memory, outputs). memory: before the rollout's first step. inputs: a pytree
    with a leading T. first: bool (T, ...), see ``first_flags``. Returns (memory after the last step, outputs with a
    leading T): what the policy computed while it played, if it forgot by the same rule.
    """

    def step(memory: Memory, inputs_and_first: tuple[Any, jax.Array]) -> tuple[Memory, Any]:
        inputs, begins = inputs_and_first
        return cell(reset_where(begins, memory, initial), inputs)

    unrolled: tuple[Memory, Any] = jax.lax.scan(step, memory, (inputs, first))
    return unrolled
