"""The environment's types in checkpoints and in exported programs: told to flax and to ``jax.export``.

Pickle and orbax need nothing of this: they take any pytree, or any object.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from typing import Any

from jax import export

from mnistpro_jax.env.bank import Bank, Episodes
from mnistpro_jax.env.params import EnvParams
from mnistpro_jax.env.seams import SeamEdges, SeamTable
from mnistpro_jax.env.types import Action, EpisodeStatistics, FusedCanvas, Observation, State

TYPES: tuple[type[Any], ...] = (
    Action,
    Bank,
    EnvParams,
    Episodes,
    EpisodeStatistics,
    FusedCanvas,
    Observation,
    SeamEdges,
    SeamTable,
    State,
)


def register_serialization() -> None:
    """Let ``jax.export`` write programs that take or give ``TYPES``; and ``flax.serialization``, if flax is imported,
    write these themselves. ``make`` does it; call it where flax is imported only after that, or where a program is read
    and nothing is made. Any number of times.
    """
    _register_export()
    if "flax" in sys.modules:
        _register_flax()


@functools.cache
def _register_export() -> None:
    for kind in TYPES:
        # What a type has beside its arrays are whole numbers (``static_field``), in the order of its fields.
        export.register_pytree_node_serialization(
            kind,
            serialized_name=f"mnistpro_jax.{kind.__name__}",
            serialize_auxdata=lambda auxiliary: json.dumps(auxiliary).encode(),
            deserialize_auxdata=lambda text: tuple(json.loads(bytes(text))),
        )


@functools.cache
def _register_flax() -> None:
    from flax import serialization

    for kind in TYPES:
        serialization.register_serialization_state(kind, _state_dict, _from_state_dict)  # type: ignore[no-untyped-call]


def _state_dict(value: Any) -> dict[str, Any]:
    """Its arrays by name; what is static comes from the value that is read into, as with flax's own dataclasses."""
    from flax import serialization

    return {name: serialization.to_state_dict(getattr(value, name)) for name in _arrays(type(value))}


def _from_state_dict(like: Any, read: dict[str, Any]) -> Any:
    from flax import serialization

    names, kind = _arrays(type(like)), type(like).__name__
    if set(read) != set(names):
        wrong = ", ".join(sorted(set(read) ^ set(names)))
        raise ValueError(
            f"a stored {kind} does not fit: {wrong} is in one and not in the other; expected {names}"
        )
    parts = {name: serialization.from_state_dict(getattr(like, name), read[name], name) for name in names}
    return dataclasses.replace(like, **parts)


def _arrays(kind: type[Any]) -> tuple[str, ...]:
    fields = dataclasses.fields(kind)
    return tuple(field.name for field in fields if field.init and not field.metadata.get("static", False))
