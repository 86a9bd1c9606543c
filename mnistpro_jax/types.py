"""The vocabulary for those who write agents: ``mnistpro_jax.env.types`` under its public name."""

from mnistpro_jax.env.types import (
    Action,
    Ending,
    EpisodeStatistics,
    FusedCanvas,
    Kind,
    Observation,
    State,
    pytree,
    static_field,
)

__all__ = [
    "Action",
    "Ending",
    "EpisodeStatistics",
    "FusedCanvas",
    "Kind",
    "Observation",
    "State",
    "pytree",
    "static_field",
]
