"""Methods that are compiled by themselves where nobody compiles what calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

import jax

from mnistpro_jax.env.explicit_mesh import by_device, on_explicit_mesh

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
        if on_explicit_mesh((args, kwargs)):
            whole = by_device(lambda args, kwargs: program(self, *args, **kwargs))
            return whole(args, kwargs)
        return program(self, *args, **kwargs)

    return call
