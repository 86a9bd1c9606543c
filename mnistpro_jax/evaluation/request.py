"""What to evaluate, and whether it makes sense."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from mnistpro_jax.agents.registry import has_confidence, is_learned
from mnistpro_jax.worlds.published import PUBLISHED_LEVELS

Report = Callable[[str, int, int], None]
"""Called with (what is being done, finished, total); total is 0 where it is not known."""


@dataclasses.dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate.

    level: digits, 1 or more. agent: see ``mnistpro_jax.agents.agent_names``. episodes: how many to draw, or
    None for the published list. source, split: see ``mnistpro_jax.data.load``; the agent reads with the
    training split of the same source. seed: 0 .. 2^32 - 1. confidences: a run for each; empty for the agent's
    default. window, stride: pixels. budget: steps, None for the published rule. outline: whether the outline
    hides the window's rim from the agent. batch: episodes side by side on each device, None for what suits it. devices:
    how many of this process's devices the episodes are split over, None for all. weights: a folder with a learned
    agent's weights, None for those in the package.
    """

    level: int = 1
    agent: str = "observer"
    episodes: int | None = None
    source: str = "mnist"
    split: str = "test"
    seed: int = 0
    confidences: tuple[float, ...] = ()
    window: int = 64
    stride: int = 32
    budget: int | None = None
    outline: bool = True
    batch: int | None = None
    devices: int | None = None
    weights: Path | None = None


def check(request: EvaluationRequest) -> None:
    """Raise ValueError for a request that makes no sense."""
    if request.level < 1:
        raise ValueError(f"level is {request.level}; expected the number of digits, 1 or more")
    if request.confidences and not has_confidence(request.agent):
        raise ValueError(
            f"agent {request.agent!r} does not read, so that a confidence would do nothing; leave it out"
        )
    if request.weights is not None and not is_learned(request.agent):
        raise ValueError(f"agent {request.agent!r} has no trained weights; leave the folder of weights out")
    if is_learned(request.agent) and request.source != "mnist":
        raise ValueError(
            f"agent {request.agent!r} was trained on source 'mnist'; on {request.source!r} its score would mean "
            "nothing. Use an agent that reads with the training images themselves, such as 'observer', or train one "
            "(baselines/)"
        )
    if has_confidence(request.agent) and request.split == "train":
        raise ValueError(
            f"agent {request.agent!r} reads with the training images, so that on split 'train' it would be "
            "asked about images that it knows; use split 'test', or the agent 'random'"
        )
    if request.episodes is None:
        if request.level not in PUBLISHED_LEVELS:
            levels = " and ".join(map(str, PUBLISHED_LEVELS))
            raise ValueError(
                f"level {request.level} has no published episodes (levels {levels} have); give a number"
            )
        if (request.source, request.split) != ("mnist", "test"):
            raise ValueError(
                "the published episodes are of the split 'test' of source 'mnist'; give a number of episodes "
                f"to draw from {request.source!r}, {request.split!r}"
            )
    elif request.episodes < 1:
        raise ValueError(f"episodes is {request.episodes}; expected 1 or more, or the published list")
