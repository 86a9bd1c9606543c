"""The world of a request: its environment, and a bank that lists its episodes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mnistpro_jax import registration
from mnistpro_jax.data import Dataset
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.environment import Environment
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.worlds.digits import episode_bank


def world(request: EvaluationRequest, dataset: Dataset) -> tuple[Environment, Bank]:
    """The environment of a request, and a bank that lists its episodes in order.

    Published episodes begin where the published rule puts them for the request's window; others at a random
    stroke pixel.
    """
    static = {"window": request.window, "stride": request.stride, "outline": request.outline}
    if request.episodes is None:
        bank = registration.published_bank(request.level, request.window)
        return registration.environment(bank, start="published", **static), bank
    indices = draw_indices(len(dataset), request.level, request.episodes, request.seed)
    bank = episode_bank(dataset, indices)
    return registration.environment(bank, start="stroke", **static), bank


def draw_indices(num_images: int, level: int, num_episodes: int, seed: int) -> npt.NDArray[np.int32]:
    """Images of random episodes, int32 (num_episodes, level): rows of a split of ``num_images``.

    With one digit, a random permutation of the split (each image once), then another one, and so on; with
    more, independent uniform images. A shorter list is the beginning of a longer one of the same seed.
    """
    # The legacy generator, because its streams are frozen: a seed must name the same episodes for ever.
    rng = np.random.RandomState(seed)
    if level > 1:
        return rng.randint(num_images, size=(num_episodes, level), dtype=np.int32)
    rounds = [rng.permutation(num_images) for _ in range(-(-num_episodes // num_images))]
    return np.concatenate(rounds)[:num_episodes, None].astype(np.int32)
