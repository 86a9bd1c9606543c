"""Every training run by name. Configurations are plain frozen dataclasses: ``dataclasses.replace`` makes others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from baselines.canvas import CanvasConfig
from baselines.glimpse import GlimpseConfig
from baselines.prefixes import Augmentation
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

    Values may be as JSON has them: lists for tuples, an object for an augmentation. ValueError lists the names or the
    fields where one does not exist, and says what kind of value a field takes.
    """
    if name not in CONFIGS:
        raise ValueError(f"unknown config {name!r}; expected one of {', '.join(CONFIGS)}")
    return _replace(CONFIGS[name], changes or {})


def _replace(base: Any, changes: Mapping[str, Any]) -> Any:
    fields = [field.name for field in dataclasses.fields(base)]
    values = {}
    for name, value in changes.items():
        if name not in fields:
            raise ValueError(f"unknown field {name!r}; expected one of {', '.join(fields)}")
        now = getattr(base, name)
        if isinstance(now, Augmentation) and isinstance(value, Mapping):
            values[name] = _replace(now, value)
            continue
        value = _tupled(value)
        if isinstance(now, float) and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if value is not None and not isinstance(value, type(now)):
            raise ValueError(f"{name} is {value!r}; expected a value like {now!r}")
        values[name] = value
    return dataclasses.replace(base, **values)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value
