"""The trainer of a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from baselines.canvas import CanvasConfig, CanvasTrainer
from baselines.glimpse import GlimpseConfig, GlimpseTrainer
from baselines.ram import RamConfig, RamTrainer
from baselines.reader import ReaderConfig, ReaderTrainer
from mnistpro_jax import data
from mnistpro_jax.agents.learned import shipped


def trainer_of(chosen: Any, source: str = "mnist", weights: Path | None = None) -> Any:
    """See ``loop.Trainer``. weights: the folder of the reader that the canvas agent's trainer stands on."""
    dataset = data.load(source, "train")
    if isinstance(chosen, ReaderConfig):
        return ReaderTrainer(chosen, dataset)
    if isinstance(chosen, GlimpseConfig):
        return GlimpseTrainer(chosen, dataset)
    if isinstance(chosen, RamConfig):
        return RamTrainer(chosen, dataset)
    if isinstance(chosen, CanvasConfig):
        return CanvasTrainer(chosen, dataset, shipped.load_reader(weights)[0])
    raise TypeError(f"no trainer for {type(chosen).__name__}")
