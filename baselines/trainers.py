"""The trainer of a configuration."""

from __future__ import annotations

from typing import Any

from baselines.canvas import CanvasConfig, CanvasTrainer
from baselines.glimpse import GlimpseConfig, GlimpseTrainer
from baselines.ram import RamConfig, RamTrainer
from baselines.reader import ReaderConfig, ReaderTrainer
from mnistpro_jax import data
from mnistpro_jax.agents.learned import shipped


def trainer_of(chosen: Any, source: str = "mnist") -> Any:
    """See ``loop.Trainer``. The canvas agent's trainer stands on the shipped reader."""
    dataset = data.load(source, "train")
    if isinstance(chosen, ReaderConfig):
        return ReaderTrainer(chosen, dataset.images, dataset.labels)
    if isinstance(chosen, GlimpseConfig):
        return GlimpseTrainer(chosen, dataset)
    if isinstance(chosen, RamConfig):
        return RamTrainer(chosen, dataset)
    if isinstance(chosen, CanvasConfig):
        return CanvasTrainer(chosen, dataset, shipped.load_reader()[0])
    raise TypeError(f"no trainer for {type(chosen).__name__}")
