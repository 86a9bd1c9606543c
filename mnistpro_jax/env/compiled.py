"""Methods that are compiled by themselves where nobody compiles what calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import jax

P = ParamSpec("P")
T = TypeVar("T")


def compiled(method: Callable[P, T]) -> Callable[P, T]:
    """``method`` under ``jax.jit``, its object being static; another program that calls it takes it in as it stands.

    Without it, an eager call runs an operation at a time, and what is conditional is compiled again at every call.
    """
    return cast(Callable[P, T], jax.jit(method, static_argnums=0, inline=True))
