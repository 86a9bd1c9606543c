"""Methods that are compiled by themselves where nobody compiles what calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import jax

from mnistpro_jax.env.explicit_mesh import by_device, on_explicit_mesh
from mnistpro_jax.env.lifted import warn_if_lifted

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")


def compiled(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """``method`` under ``jax.jit``, its object being static; another program that calls it takes it in as it stands.

    Without it, an eager call runs an operation at a time, and what is conditional is compiled again at every call.
    """
    program = jax.jit(method, static_argnums=0, inline=True)

    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        traced = [leaf for leaf in jax.tree.leaves((args, kwargs)) if isinstance(leaf, jax.core.Tracer)]
        if not traced:
            return program(self, *args, **kwargs)
        warn_if_lifted((*args, *kwargs.values()))
        if not on_explicit_mesh(traced):
            return program(self, *args, **kwargs)
        return by_device(lambda args, kwargs: program(self, *args, **kwargs))(args, kwargs)

    return call
