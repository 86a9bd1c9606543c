"""A learned explorer: where to look next, from the fused canvas and what the reader makes of it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.explorers import Sight
from mnistpro_jax.agents.learned.networks import ActorCritic
from mnistpro_jax.env.types import pytree, static_field

REACH_X, REACH_Y = 12, 6  # strides in each direction that the map of unseen information spans
VIEW = 18  # cells of two native pixels on each side of the view around the window
DISCOUNTS = (0.5, 0.7, 0.85)  # per move, of what a planner would gain
PLANNED = 1  # which of them the network starts from
FLOOR = 0.2  # weight of a digit that is certain, in a planner's eyes
_NEVER = -1e9
_SMALLEST = 1e-4


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
        return self.judge(features(self.geometry, sight), self.geometry.useful_moves(sight.observation.xy))

    def judge(self, seen: jax.Array, useful: jax.Array) -> tuple[jax.Array, jax.Array]:
        """``evaluate`` from ``features`` and ``useful_moves``, any leading axes."""
        outputs: Any = self.network.apply(self.params, seen)
        logits, value = outputs
        return jnp.where(useful, logits, jnp.float32(_NEVER)), value


def digit_under(geometry: Geometry, xy: jax.Array) -> jax.Array:
    """The digit under the centre of a window at ``xy``, int32 ()."""
    middle = xy[0] + geometry.window // 2
    return jnp.minimum(middle // (geometry.width // geometry.num_digits), geometry.num_digits - 1)


def num_features(num_classes: int = 10) -> int:
    """Length of ``features``."""
    maps = (2 * REACH_Y + 1) * (2 * REACH_X + 1)
    return VIEW * VIEW * 3 + maps + 4 * (len(DISCOUNTS) + 1) + num_classes + 9 + 4


def features(geometry: Geometry, sight: Sight) -> jax.Array:
    """What the network is shown, float32 (num_features(),), all of it relative to the window.

    The surroundings; the unseen information that every window in reach would show; what a planner would gain by each
    move; class probabilities of the digit under the window's centre; where it is and how sure all is; and last the
    planner's preferences, four logits, which ``ActorCritic`` starts from.
    """
    doubt = jnp.float32(1) - sight.posterior.confidences
    by_digit = gains_in_reach(geometry, sight)
    doubted = jnp.einsum("n,nyx->yx", doubt, by_digit)
    doubted = doubted / (jnp.max(doubted) + jnp.float32(1e-6))
    planned = jnp.einsum("n,nyx->yx", FLOOR + (1 - FLOOR) * doubt, by_digit)
    neighbours, values = planned_moves(planned)
    preferred = values[PLANNED] + jnp.float32(0.1) * neighbours
    best = jnp.max(preferred) + jnp.float32(1e-6)
    parts = [
        view_around(geometry, sight).reshape(-1),
        doubted.reshape(-1),
        jnp.float32(10) * neighbours,
        jnp.float32(10) * values.reshape(-1),
        sight.posterior.classes[digit_under(geometry, sight.observation.xy)],
        _place(geometry, sight),
        jnp.float32(10) * (preferred / best - 1),
    ]
    return jnp.concatenate(parts).astype(jnp.float32)


def view_around(geometry: Geometry, sight: Sight) -> jax.Array:
    """Strokes, what is revealed and the canvas itself around the window's centre: float32 (VIEW, VIEW, 3), 0..1.

    A cell is two native pixels wide; outside the canvas all are 0.
    """
    cell = jnp.float32(sight.reader.cell)
    stroke = sight.observation.view.stroke.astype(jnp.float32) / cell
    revealed = sight.observation.view.revealed.astype(jnp.float32) / cell
    factor, span = geometry.native_factor, 2 * VIEW
    layers = jnp.stack([stroke, revealed, jnp.ones_like(stroke)], axis=-1)
    padded = jnp.pad(layers, ((span, span), (span, span), (0, 0)))
    centre = (sight.observation.xy + geometry.window // 2 + factor // 2) // factor
    corner = centre - VIEW + span
    zero = jnp.zeros((), jnp.int32)
    view = jax.lax.dynamic_slice(padded, (corner[1], corner[0], zero), (span, span, 3))
    return view.reshape(VIEW, 2, VIEW, 2, 3).mean(axis=(1, 3))


def gains_in_reach(geometry: Geometry, sight: Sight) -> jax.Array:
    """Unseen information of each digit in each window within reach: float32 (n, 2 REACH_Y + 1, 2 REACH_X + 1).

    The middle is the window itself. Windows are clamped into the canvas, so that one on the border is there several
    times; the nearest copy is the true one.
    """
    xy = sight.observation.xy
    down = jnp.arange(-REACH_Y, REACH_Y + 1, dtype=jnp.int32)
    right = jnp.arange(-REACH_X, REACH_X + 1, dtype=jnp.int32)
    y = jnp.clip(xy[1] + geometry.stride * down, 0, geometry.limit_y)
    x = jnp.clip(xy[0] + geometry.stride * right, 0, geometry.limit_x)
    rows = geometry.coverage(y, geometry.native_height)
    columns = geometry.coverage(x, geometry.num_digits * geometry.native_width)
    columns = columns.reshape(-1, geometry.num_digits, geometry.native_width)
    unseen = sight.unseen * sight.reader.information[None]
    return jnp.einsum("yr,nrc,xnc->nyx", rows, unseen, columns)


def planned_moves(gains: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What a planner gains by each move: at once, float32 (4,), and at best, discounted, (len(DISCOUNTS), 4).

    gains: float32 (2 REACH_Y + 1, 2 REACH_X + 1). A move counts for every window on its side.
    """
    down, right = jnp.meshgrid(
        jnp.arange(-REACH_Y, REACH_Y + 1), jnp.arange(-REACH_X, REACH_X + 1), indexing="ij"
    )
    sides = jnp.stack([down < 0, down > 0, right < 0, right > 0])  # in the order of Kind
    distance = (jnp.abs(down) + jnp.abs(right) - 1).astype(jnp.float32)
    discounted = gains[None] * jnp.asarray(DISCOUNTS, jnp.float32)[:, None, None] ** distance[None]
    values = jnp.max(jnp.where(sides[None], discounted[:, None], 0), axis=(-2, -1))
    neighbours = jnp.stack(
        [
            gains[REACH_Y - 1, REACH_X],
            gains[REACH_Y + 1, REACH_X],
            gains[REACH_Y, REACH_X - 1],
            gains[REACH_Y, REACH_X + 1],
        ]
    )
    return neighbours, values


def beside_doubts(doubts: jax.Array, digit: jax.Array) -> jax.Array:
    """The largest doubt about any digit to the left and to the right of one, float32 (2,); 0 where there is none."""
    numbers = jnp.arange(doubts.shape[0], dtype=jnp.int32)
    left = jnp.max(jnp.where(numbers < digit, doubts, 0))
    right = jnp.max(jnp.where(numbers > digit, doubts, 0))
    return jnp.stack([left, right]).astype(jnp.float32)


def log_doubt(doubt: jax.Array) -> jax.Array:
    """A probability of being wrong on a logarithmic scale: 1 for certainly, -1 for one in ten thousand or less."""
    return jnp.log10(jnp.maximum(doubt, jnp.float32(_SMALLEST))) / 2 + 1


def _place(geometry: Geometry, sight: Sight) -> jax.Array:
    """Where the window is, how late it is, and how unsure all is, float32 (9,). Doubts are on a logarithmic scale."""
    xy = sight.observation.xy
    digit_width = geometry.width // geometry.num_digits
    digit = digit_under(geometry, xy)
    doubt = jnp.float32(1) - sight.posterior.confidences
    whole = jnp.stack([1 - sight.posterior.confidence, 1 - sight.needed])
    doubts = log_doubt(jnp.concatenate([doubt[digit][None], beside_doubts(doubt, digit), whole]))
    where = jnp.stack(
        [
            (xy[0] + geometry.window // 2 - digit * digit_width) / digit_width,
            xy[1] / max(1, geometry.limit_y),
            xy[0] / max(1, geometry.limit_x),
            jnp.minimum(sight.observation.step, 100) / 36,
        ]
    )
    return jnp.concatenate([where, doubts]).astype(jnp.float32)
