"""The optimiser that all trainers share."""

from __future__ import annotations

import optax


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
