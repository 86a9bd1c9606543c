"""A bank that a function closes over becomes part of its program, which takes minutes and gigabytes to compile."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.env.params import EnvParams

LARGE = 32 * 2**20  # bytes; smaller banks, of some 4,000 digits, compile without much ado


def warn_if_lifted(arguments: Iterable[Any]) -> None:
    """Warn where ``arguments``, of which some are being traced, have params that are not, within a program.

    Python shows the warning once for each place.
    """
    for params in arguments:
        if not isinstance(params, EnvParams) or isinstance(params.bank.tiles, jax.core.Tracer):
            continue
        if params.bank.nbytes >= LARGE and _within_program():
            warnings.warn(
                f"the params of an environment, {params.bank.nbytes / 1e6:,.0f} MB of scenes, are compiled into a "
                "program, because the function that is compiled closes over them; make them an argument of it, such as "
                "jax.jit(train)(key, params)",
                UserWarning,
                stacklevel=3,
            )


def _within_program() -> bool:
    """Whether what is computed now becomes part of a program: then the sum of two numbers is not known. (Not so where
    functions are only mapped or differentiated.)"""
    return isinstance(jax.lax.add(jnp.int32(1), jnp.int32(1)), jax.core.Tracer)
