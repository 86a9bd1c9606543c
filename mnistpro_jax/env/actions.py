"""Flat codes and structured actions: one integer, or a kind with the digits of an answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.env.types import Action, Kind


def flat(action: Action, num_digits: int, num_classes: int) -> jax.Array:
    """The flat code of a structured action, int32 (); -1 if invalid. For one or two digits."""
    _check_flat(num_digits)
    code = jnp.zeros((), jnp.int32)
    for k in range(num_digits):
        code = code * num_classes + action.digits[k]
    answer = jnp.where(digits_valid(action.digits, num_classes), code + 4, -1)
    move = jnp.where((action.kind >= 0) & (action.kind < Kind.ANSWER), action.kind, -1)
    return jnp.where(action.kind == Kind.ANSWER, answer, move).astype(jnp.int32)


def structured(action: jax.Array, num_digits: int, num_classes: int) -> Action:
    """The structured action of a flat code, for one or two digits; a code out of range becomes an invalid action."""
    _check_flat(num_digits)
    action = jnp.asarray(action)
    if action.shape != () or not jnp.issubdtype(action.dtype, jnp.integer):
        raise TypeError(
            f"action has shape {action.shape} and dtype {action.dtype}; expected an integer of shape (), or a "
            "mnistpro_jax.Action (use jax.vmap for a batch)"
        )
    code = _as_int32(action)
    answers = num_classes**num_digits
    value = jnp.clip(code - 4, 0, answers - 1)
    digits = [(value // num_classes**k) % num_classes for k in reversed(range(num_digits))]
    kind = jnp.where(code < 4, code, Kind.ANSWER)
    kind = jnp.where((code < 0) | (code >= 4 + answers), Kind.INVALID, kind)
    return Action(kind.astype(jnp.int32), jnp.stack(digits).astype(jnp.int32))


def checked(action: jax.Array | Action, num_digits: int, num_classes: int) -> Action:
    """What a step acts on, in int32, from either form. TypeError for a wrong shape or dtype."""
    if not isinstance(action, Action):
        return structured(action, num_digits, num_classes)
    kind, digits = jnp.asarray(action.kind), jnp.asarray(action.digits)
    whole = all(jnp.issubdtype(part.dtype, jnp.integer) for part in (kind, digits))
    if not whole or kind.shape != () or digits.shape != (num_digits,):
        raise TypeError(
            f"action has kind {kind.dtype} {kind.shape} and digits {digits.dtype} {digits.shape}; expected "
            f"integers of shapes () and ({num_digits},) (use jax.vmap for a batch)"
        )
    return Action(_as_int32(kind), _as_int32(digits))


def digits_valid(digits: jax.Array, num_classes: int) -> jax.Array:
    """Whether all digits are classes, bool ()."""
    return jnp.all((digits >= 0) & (digits < num_classes))


def _check_flat(num_digits: int) -> None:
    if num_digits > 2:
        raise TypeError(f"flat actions exist for 1 or 2 digits, not {num_digits}: pass an Action")


def _as_int32(values: jax.Array) -> jax.Array:
    """Integers as int32; what does not fit goes to the nearest end, where it is invalid, instead of wrapping."""
    if values.dtype.itemsize > 4:
        bounds = np.iinfo(np.int32)
        values = jnp.minimum(values, bounds.max)
        if jnp.issubdtype(values.dtype, jnp.signedinteger):
            values = jnp.maximum(values, bounds.min)
    return values.astype(jnp.int32)
