"""Every training run by name. Configurations are plain frozen dataclasses: ``dataclasses.replace`` makes others."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from baselines.canvas import CanvasConfig
from baselines.glimpse import GlimpseConfig
from baselines.ram import RamConfig
from baselines.reader import ReaderConfig

_RAM_60 = RamConfig(
    canvas=60, glimpse=12, scales=3, batch=128, learning_rate=3e-3, credit="mirrored", aims_by_sight=True
)

CONFIGS: dict[str, Any] = {
    # One reader for any number of digits; everything else stands on it.
    "reader": ReaderConfig(),
    # Where to look, with that reader: one network for any number of digits.
    "canvas": CanvasConfig(),
    # No canvas: a recurrent memory; one network for any number of digits.
    "glimpse": GlimpseConfig(),
    # What memory is worth: the same without any.
    "memoryless": GlimpseConfig(remembers=False),
    # Mnih et al. 2014, on the paper's own pictures.
    "ram_mnist": RamConfig(),
    "ram_translated": dataclasses.replace(_RAM_60, updates=20_000),
    "ram_cluttered": dataclasses.replace(_RAM_60, clutter=4, glimpses=8, updates=25_000),
    # Seconds, for trying things out.
    "reader_tiny": ReaderConfig(
        channels=(8, 16), strides=(2, 2), hidden=32, updates=300, batch=64, held_out=59_000
    ),
}


def config(name: str, changes: Mapping[str, Any] | None = None) -> Any:
    """A configuration by name, with other values for some of its fields.

    Values may be as JSON has them: lists for tuples, an object for an augmentation, null where a field may be None.
    ValueError lists the names or the fields where one does not exist, and says what kind of value a field takes.
    """
    if name not in CONFIGS:
        raise ValueError(f"unknown config {name!r}; expected one of {', '.join(CONFIGS)}")
    return _replace(CONFIGS[name], changes or {})


def _replace(base: Any, changes: Mapping[str, Any]) -> Any:
    hints = get_type_hints(type(base))
    values = {}
    for name, value in changes.items():
        if name not in hints:
            raise ValueError(f"unknown field {name!r}; expected one of {', '.join(hints)}")
        try:
            values[name] = _fitted(hints[name], value, getattr(base, name))
        except (TypeError, OverflowError) as error:
            like = _as_json(getattr(base, name))
            raise ValueError(f"{name} is {value!r}; expected a value like {like}") from error
    return dataclasses.replace(base, **values)


def _fitted(hint: Any, value: Any, now: Any = None) -> Any:
    """A value as a field of this type holds it; TypeError where it is of another kind.

    now: what the field holds, which an augmentation in part is completed from.
    """
    kinds = get_args(hint)
    if get_origin(hint) is UnionType:
        if value is None and NoneType in kinds:
            return None
        (kind,) = (kind for kind in kinds if kind is not NoneType)
        return _fitted(kind, value, now)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return _replace(hint() if now is None else now, value)
        if isinstance(value, hint):  # type: ignore[arg-type]
            return value
    elif get_origin(hint) is tuple:
        if isinstance(value, list | tuple):
            if kinds[-1] is Ellipsis:
                return tuple(_fitted(kinds[0], item) for item in value)
            if len(value) == len(kinds):
                return tuple(map(_fitted, kinds, value))
    elif isinstance(value, bool) is not (hint is bool):
        pass  # a truth value is a whole number to Python, but not to those who write one
    elif hint is float and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    elif isinstance(value, hint) and hint is not float:
        return value
    raise TypeError


def _as_json(value: Any) -> str:
    return json.dumps(dataclasses.asdict(value) if dataclasses.is_dataclass(value) else value)  # type: ignore[arg-type]
