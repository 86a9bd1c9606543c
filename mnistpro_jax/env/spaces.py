"""Observation and action spaces: what an array or a pytree of arrays may hold.

Each space has ``sample(key)`` (pure, jittable) and ``contains(value)`` (checks shape, dtype and range; outside
jit, returns a Python bool).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(frozen=True)
class Discrete:
    """Whole numbers 0 .. num_values - 1 as int32 ()."""

    num_values: int

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def dtype(self) -> Any:
        return jnp.int32

    def sample(self, key: jax.Array) -> jax.Array:
        """A uniform element."""
        return jax.random.randint(key, (), 0, self.num_values, jnp.int32)

    def contains(self, value: Any) -> bool:
        """Whether ``value`` is a whole number (any integer dtype) of shape () in range."""
        array = np.asarray(value)
        return (
            array.shape == ()
            and np.issubdtype(array.dtype, np.integer)
            and bool(0 <= int(array) < self.num_values)
        )


@dataclasses.dataclass(frozen=True)
class Box:
    """Arrays of one shape and integer dtype whose entries lie in low .. high, both included."""

    low: int
    high: int
    shape: tuple[int, ...]
    dtype: Any

    def sample(self, key: jax.Array) -> jax.Array:
        """A uniform element; ``high`` is included."""
        extent = self.high - self.low + 1
        if extent < 2**31:
            drawn = jax.random.randint(key, self.shape, 0, extent, jnp.int32)
            return (drawn + jnp.int32(self.low)).astype(self.dtype) if self.low else drawn.astype(self.dtype)
        # Too wide for randint's exclusive bound. 2^31 and 2^32 values, which occur, are drawn without bias.
        bits = jax.random.bits(key, self.shape, jnp.uint32)
        if extent < 2**32:
            bits = bits % jnp.uint32(extent)
        return (bits + jnp.uint32(self.low % 2**32)).astype(self.dtype)

    def contains(self, value: Any) -> bool:
        """Whether ``value`` has this shape and dtype and lies within the bounds."""
        array = np.asarray(value)
        if array.shape != self.shape or array.dtype != np.dtype(self.dtype):
            return False
        return bool((array >= self.low).all() and (array <= self.high).all()) if array.size else True


@dataclasses.dataclass(frozen=True)
class Tree:
    """A pytree dataclass ``node`` whose fields are spaces, given in field order."""

    node: type
    fields: tuple[tuple[str, Any], ...]

    def __getitem__(self, name: str) -> Any:
        return dict(self.fields)[name]

    def sample(self, key: jax.Array) -> Any:
        """An element with independent fields."""
        keys = jax.random.split(key, len(self.fields))
        return self.node(
            **{name: space.sample(k) for (name, space), k in zip(self.fields, keys, strict=True)}
        )

    def contains(self, value: Any) -> bool:
        """Whether ``value`` is a ``node`` all of whose fields are contained."""
        return isinstance(value, self.node) and all(
            space.contains(getattr(value, name)) for name, space in self.fields
        )
