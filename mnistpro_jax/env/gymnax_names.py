"""What wrappers of gymnax 1.x look for on an environment besides ``reset`` and ``step``, which have its shape already.

Nothing of gymnax is needed. Where a program has imported it, spaces are of its classes as well, because its wrappers
ask by ``isinstance``.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.env import spaces
from mnistpro_jax.env.params import EnvParams
from mnistpro_jax.env.types import Ending, State


class GymnaxNames:
    """Properties of an environment by gymnax's names, and its checks of a state."""

    num_digits: int

    @property
    def name(self) -> str:
        """Such as "MnistPro-L1"."""
        return f"MnistPro-L{self.num_digits}"

    @property
    def num_actions(self) -> int:
        """Flat actions: four moves, then the answers. TypeError for more than two digits."""
        space = self.action_space()
        if not isinstance(space, spaces.Discrete):
            raise TypeError(
                f"{self.num_digits} digits have no flat actions, which gymnax's trainers need; use one or two"
            )
        return space.num_values

    def action_space(self, params: EnvParams | None = None) -> Any:
        raise NotImplementedError

    def is_terminated(self, state: State, params: EnvParams | None = None) -> jax.Array:
        """Whether the episode ended by an answer or an invalid action, bool ()."""
        return (state.ending == Ending.ANSWERED) | (state.ending == Ending.INVALID_ACTION)

    def is_truncated(self, state: State, params: EnvParams | None = None) -> jax.Array:
        """Whether the episode ended at its budget, bool ()."""
        return state.ending == Ending.STEP_LIMIT

    def is_terminal(self, state: State, params: EnvParams | None = None) -> jax.Array:
        """gymnax's older name of ``is_terminated``."""
        return self.is_terminated(state, params)

    def discount(self, state: State, params: EnvParams | None = None) -> jax.Array:
        """0 where the state is terminated, else 1: float32 ()."""
        return jnp.where(self.is_terminated(state, params), jnp.float32(0), jnp.float32(1))


def also_gymnax(space: Any) -> Any:
    """The same space; where gymnax has been imported, of a class that is gymnax's too."""
    theirs = sys.modules.get("gymnax.environments.spaces")
    if theirs is None or isinstance(space, theirs.Space):
        return space
    if isinstance(space, spaces.Tree):
        fields = tuple((name, also_gymnax(part)) for name, part in space.fields)
        return _both(spaces.Tree, theirs.Dict)(space.node, fields)
    ours: Any = type(space)
    values = (getattr(space, field.name) for field in dataclasses.fields(space))
    return _both(ours, getattr(theirs, ours.__name__))(*values)


@functools.cache
def _both(ours: type, theirs: type) -> Any:
    """A class that behaves as ours and is an instance of theirs, with the attributes that theirs has."""
    more = {
        spaces.Discrete: {"n": property(lambda self: self.num_values)},
        spaces.Box: {},
        spaces.Tree: {
            "spaces": property(lambda self: dict(self.fields)),
            "num_spaces": property(lambda self: len(self.fields)),
        },
    }

    def values(space: Any) -> tuple[Any, ...]:
        return tuple(getattr(space, field.name) for field in dataclasses.fields(space))

    plain = {
        "__eq__": lambda self, other: (
            values(self) == values(other) if isinstance(other, ours) else NotImplemented
        ),
        "__hash__": ours.__hash__,
        # A class that is made here cannot be named in a pickle: what comes back is ours.
        "__reduce__": lambda self: (ours, values(self)),
    }
    return type(ours.__name__, (ours, theirs), more[ours] | plain)
