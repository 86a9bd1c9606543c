"""The optimiser that all trainers share, and the state of those that keep a running mean of their parameters."""

from __future__ import annotations

from typing import Any

import optax

from mnistpro_jax.env.types import pytree


def adamw_cosine(
    learning_rate: float,
    updates: int,
    *,
    warm_up: int = 100,
    weight_decay: float = 0.0,
    clip_norm: float = 1.0,
    final: float = 0.01,
) -> optax.GradientTransformation:
    """AdamW with gradients clipped by their global norm: a linear warm-up, then a cosine down to ``final``.

    updates: of the whole training. final: share of the learning rate at the end.
    """
    warm_up = min(warm_up, max(1, updates // 10))
    schedule = optax.warmup_cosine_decay_schedule(
        0.0, learning_rate, warm_up, max(updates, warm_up + 1), learning_rate * final
    )
    return optax.chain(optax.clip_by_global_norm(clip_norm), optax.adamw(schedule, weight_decay=weight_decay))


@pytree
class Averaged:
    """params, averaged: parameters of a network, the second a running mean. optimiser: optax's state."""

    params: Any
    averaged: Any
    optimiser: Any

    @classmethod
    def start(cls, params: Any, optimiser: optax.GradientTransformation) -> Averaged:
        """Before the first update."""
        return cls(params, params, optimiser.init(params))

    def descend(self, gradient: Any, optimiser: optax.GradientTransformation, smoothing: float) -> Averaged:
        """After one update. smoothing: of the mean, per update, 0..1."""
        changes, moments = optimiser.update(gradient, self.optimiser, self.params)
        params = optax.apply_updates(self.params, changes)
        return Averaged(params, optax.incremental_update(params, self.averaged, 1 - smoothing), moments)
