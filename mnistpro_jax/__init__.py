"""MNIST-PRO as a vectorised JAX simulator.

    env, params = mnistpro_jax.make("MnistPro-L1-v0")
    obs, state = env.reset(key, params)
    obs, state, reward, terminated, truncated, info = env.step(key, state, action, params)

Names below load their module on first use; importing the package does no work.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Action": "env.types",
    "Bank": "env.bank",
    "Ending": "env.types",
    "EnvParams": "env.environment",
    "Environment": "env.environment",
    "EpisodeStatistics": "env.types",
    "FusedCanvas": "env.types",
    "Kind": "env.types",
    "Observation": "env.types",
    "State": "env.types",
    "digit_bank": "worlds.digits",
    "episode_bank": "worlds.digits",
    "make": "registration",
    "make_params": "registration",
    "published_bank": "registration",
    "published_episodes": "worlds.published",
    "register_serialization": "env.serialization",
    "registered": "registration",
    "rollout": "rollouts.rollout",
}

__all__ = [
    "Action",
    "Bank",
    "Ending",
    "EnvParams",
    "Environment",
    "EpisodeStatistics",
    "FusedCanvas",
    "Kind",
    "Observation",
    "State",
    "digit_bank",
    "episode_bank",
    "make",
    "make_params",
    "published_bank",
    "published_episodes",
    "register_serialization",
    "registered",
    "rollout",
]

if TYPE_CHECKING:
    from mnistpro_jax.env.bank import Bank
    from mnistpro_jax.env.environment import Environment, EnvParams
    from mnistpro_jax.env.serialization import register_serialization
    from mnistpro_jax.env.types import (
        Action,
        Ending,
        EpisodeStatistics,
        FusedCanvas,
        Kind,
        Observation,
        State,
    )
    from mnistpro_jax.registration import make, make_params, published_bank, registered
    from mnistpro_jax.rollouts.rollout import rollout
    from mnistpro_jax.worlds.digits import digit_bank, episode_bank
    from mnistpro_jax.worlds.published import published_episodes


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'mnistpro_jax' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"mnistpro_jax.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
