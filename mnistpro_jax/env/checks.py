"""What an environment's functions are given, checked while they are traced: one episode, one key, its own params.

A batch that nobody mapped, or another world's params, would otherwise broadcast or index into something plausible.
Shapes and dtypes alone are read, so that compiled programs are the same with and without these checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.env.params import EnvParams
from mnistpro_jax.env.types import State


class World(Protocol):
    """What an environment and a bank have in common."""

    @property
    def height(self) -> int: ...
    @property
    def width(self) -> int: ...
    @property
    def num_digits(self) -> int: ...
    @property
    def num_classes(self) -> int: ...
    @property
    def native_factor(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def stride(self) -> int: ...


_GEOMETRY = ("height", "width", "num_digits", "num_classes", "native_factor")
_ADVICE = "for a batch use jax.vmap, such as jax.vmap(env.reset, in_axes=(0, None))(keys, params)"


def check_key(key: Any) -> None:
    """One key, typed or raw. TypeError for what is none, ValueError for several."""
    dtype = getattr(key, "dtype", None)
    if dtype is None or not (jnp.issubdtype(dtype, jax.dtypes.prng_key) or dtype == jnp.uint32):
        raise TypeError(f"key is {_spoken(key)}; expected a key of JAX: jax.random.key(seed)")
    raw = 0 if jnp.issubdtype(dtype, jax.dtypes.prng_key) else 1  # axes of a key's own words
    if len(key.shape) != raw:
        raise ValueError(f"key has shape {key.shape}; expected one key: {_ADVICE}")


def check_params(env: World, params: Any) -> None:
    """Params of this environment's geometry. TypeError for what is none, ValueError for another's, or for a batch."""
    if not isinstance(params, EnvParams):
        raise TypeError(f"params are {_spoken(params)}; expected the EnvParams that make returns")
    bank = params.bank
    for name in _GEOMETRY:
        own, theirs = getattr(env, name), getattr(bank, name)
        if own != theirs:
            raise ValueError(
                f"params belong to another environment: their bank has {name} {theirs} (canvas {bank.height} x "
                f"{bank.width}), this environment {own} (canvas {env.height} x {env.width}); expected the params that "
                "make returned with it"
            )
    if (params.window, params.stride) != (env.window, env.stride):
        raise ValueError(
            f"params belong to another environment: they were made for a window of {params.window} pixels and a stride "
            f"of {params.stride}, this environment has {env.window} and {env.stride}; expected the params that make "
            "returned with it (make_params(env, params.bank) makes them of the same scenes)"
        )
    for name in ("budget", "move_reward", "correct_reward", "wrong_reward", "invalid_reward"):
        _check_shape(f"params.{name}", getattr(params, name), ())
    _check_shape("params.start_xy", params.start_xy, (2,))


def check_state(env: World, state: Any, num_tiles: int, visited: tuple[int, int]) -> None:
    """One episode's state of this environment: TypeError for what is none, ValueError for another's, or for a batch."""
    if not isinstance(state, State):
        raise TypeError(f"state is {_spoken(state)}; expected the State that reset and step return")
    _check_shape("state.step", state.step, ())
    for name, shape in (("scene", (num_tiles,)), ("answer", (env.num_digits,)), ("visited", visited)):
        have = np.shape(getattr(state, name))
        if have != shape:
            raise ValueError(
                f"state belongs to another environment: its {name} has shape {have}, this environment's {shape}"
            )


def check_whole(name: str, value: Any, shape: Sequence[int]) -> None:
    """An array of whole numbers. TypeError for another dtype, ValueError for another shape."""
    dtype = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    if not jnp.issubdtype(dtype, jnp.integer):
        raise TypeError(f"{name} is of dtype {dtype}; expected whole numbers")
    _check_shape(name, value, tuple(shape))


def _check_shape(name: str, value: Any, shape: tuple[int, ...]) -> None:
    if np.shape(value) != shape:
        raise ValueError(f"{name} has shape {np.shape(value)}; expected {shape}, of one episode: {_ADVICE}")


def _spoken(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if shape is None:
        text = repr(value)
        return text if len(text) <= 40 else f"a {type(value).__name__}"
    return f"an array of {value.dtype} and shape {shape}"
