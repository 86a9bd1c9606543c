"""A learned explorer: where to look next, from the fused canvas and what the reader makes of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.explorers import Sight
from mnistpro_jax.agents.learned.networks import ActorCritic
from mnistpro_jax.types import pytree, static_field

REACH_X, REACH_Y = 7, 5  # strides in each direction that the map of unseen information spans
VIEW = 18  # cells of two native pixels on each side of the view around the window
_NEVER = -1e9


@pytree
class LearnedExplorer:
    """Moves by a network that sees the surroundings of the window; nothing in it depends on the number of digits.

    params: of ``network``. geometry: the world. greedy: the likeliest move instead of a drawn one.
    """

    params: Any
    geometry: Geometry = static_field(default=Geometry())
    network: ActorCritic = static_field(default=ActorCritic())
    greedy: bool = static_field(default=True)

    def init(self, key: jax.Array) -> tuple[()]:
        """No memory."""
        return ()

    def direction(self, key: jax.Array, sight: Sight, memory: Any) -> tuple[jax.Array, Any]:
        """See ``agents.explorers.Explorer``."""
        logits, _ = self.evaluate(sight)
        chosen = jnp.argmax(logits) if self.greedy else jax.random.categorical(key, logits)
        return chosen.astype(jnp.int32), memory

    def evaluate(self, sight: Sight) -> tuple[jax.Array, jax.Array]:
        """Logits of the four moves, float32 (4,), and the value of the state, float32 ()."""
        return self.judge(features(self.geometry, sight), useful_moves(self.geometry, sight.observation.xy))

    def judge(self, seen: jax.Array, useful: jax.Array) -> tuple[jax.Array, jax.Array]:
        """``evaluate`` from ``features`` and ``useful_moves``, any leading axes."""
        outputs: Any = self.network.apply(self.params, seen)
        logits, value = outputs
        return jnp.where(useful, logits, jnp.float32(_NEVER)), value


def useful_moves(geometry: Geometry, xy: jax.Array) -> jax.Array:
    """The moves that change the window, bool (4,); all where none does."""
    moves = jnp.arange(4, dtype=jnp.int32)
    ends = jax.vmap(geometry.move, in_axes=(None, 0))(xy, moves)
    useful = jnp.any(ends != xy, axis=-1)
    return useful | ~jnp.any(useful)


def num_features(num_classes: int = 10) -> int:
    """Length of ``features``."""
    return VIEW * VIEW * 3 + (2 * REACH_Y + 1) * (2 * REACH_X + 1) + num_classes + 6


def features(geometry: Geometry, sight: Sight) -> jax.Array:
    """What the network is shown, float32 (num_features(),), all of it relative to the window.

    The surroundings at 16 canvas pixels a cell (strokes, what is revealed, the canvas itself); the unseen
    information that every window in reach would show, weighed by the doubt about its digit; and of the digit under
    the window's centre: class probabilities, confidence, the window's place in it.
    """
    observation, posterior = sight.observation, sight.posterior
    stroke = observation.view.stroke.astype(jnp.float32) / jnp.float32(sight.reader.cell)
    revealed = observation.view.revealed.astype(jnp.float32) / jnp.float32(sight.reader.cell)
    factor, window = geometry.native_factor, geometry.window
    xy = observation.xy

    # A view of 2 VIEW native pixels around the window's centre.
    span = 2 * VIEW
    layers = jnp.stack([stroke, revealed, jnp.ones_like(stroke)], axis=-1)
    padded = jnp.pad(layers, ((span, span), (span, span), (0, 0)))
    centre = (xy + window // 2 + factor // 2) // factor
    corner = centre - VIEW + span
    zero = jnp.zeros((), jnp.int32)
    view = jax.lax.dynamic_slice(padded, (corner[1], corner[0], zero), (span, span, 3))
    view = view.reshape(VIEW, 2, VIEW, 2, 3).mean(axis=(1, 3))

    doubt = jnp.float32(1) - posterior.confidences
    unseen = sight.unseen * sight.reader.information * (doubt + jnp.float32(0.02))[:, None, None]
    rows_of = jnp.arange(-REACH_Y, REACH_Y + 1, dtype=jnp.int32)
    columns_of = jnp.arange(-REACH_X, REACH_X + 1, dtype=jnp.int32)
    y = jnp.clip(xy[1] + geometry.stride * rows_of, 0, geometry.limit_y)
    x = jnp.clip(xy[0] + geometry.stride * columns_of, 0, geometry.limit_x)
    rows = geometry.coverage(y, geometry.native_height)
    columns = geometry.coverage(x, geometry.num_digits * geometry.native_width)
    wide = jnp.swapaxes(unseen, 0, 1).reshape(geometry.native_height, -1)
    gains = jnp.float32(10) * rows @ wide @ columns.T

    digit_width = geometry.width // geometry.num_digits
    middle = xy[0] + window // 2
    digit = jnp.minimum(middle // digit_width, geometry.num_digits - 1)
    here = posterior.classes[digit]
    place = jnp.stack(
        [
            (middle - digit * digit_width) / digit_width,
            xy[1] / max(1, geometry.limit_y),
            xy[0] / max(1, geometry.limit_x),
            posterior.confidences[digit],
            posterior.confidence,
            jnp.minimum(observation.step, 100) / 36,
        ]
    ).astype(jnp.float32)
    return jnp.concatenate([view.reshape(-1), gains.reshape(-1), here, place]).astype(jnp.float32)
