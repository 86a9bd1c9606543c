"""Every training run by name. Configurations are plain frozen dataclasses: ``dataclasses.replace`` makes others."""

from __future__ import annotations

from typing import Any

from baselines.canvas import CanvasConfig
from baselines.glimpse import GlimpseConfig
from baselines.ram import RamConfig
from baselines.reader import ReaderConfig

CONFIGS: dict[str, Any] = {
    # One reader for any number of digits; everything else stands on it.
    "reader": ReaderConfig(),
    # Where to look, with that reader: one network for any number of digits.
    "canvas": CanvasConfig(),
    # No canvas: a recurrent memory.
    "glimpse_1": GlimpseConfig(level=1),
    "glimpse_2": GlimpseConfig(level=2, episodes=128, glimpses=28, core_size=384),
    # Mnih et al. 2014, on the paper's own pictures.
    "ram_mnist": RamConfig(),
    "ram_translated": RamConfig(canvas=60, glimpse=12, scales=3),
    "ram_cluttered": RamConfig(canvas=60, clutter=4, glimpse=12, scales=3, glimpses=8),
    # Seconds, for trying things out.
    "reader_tiny": ReaderConfig(
        channels=(8, 16), strides=(2, 2), hidden=32, updates=300, batch=64, held_out=59_000
    ),
}


def config(name: str) -> Any:
    """A configuration by name; ValueError lists the names."""
    if name not in CONFIGS:
        raise ValueError(f"unknown config {name!r}; expected one of {', '.join(CONFIGS)}")
    return CONFIGS[name]
