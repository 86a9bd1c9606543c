"""Where to look next: explorers propose a move from what the reader believes.

An explorer never answers; a policy decides when enough was seen. All are written for one episode.
"""

from __future__ import annotations

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.base import Candidates, Geometry, candidates, direction_to_best
from mnistpro_jax.agents.reader import (
    Beliefs,
    EmpiricalBayesReader,
    Posterior,
    Reader,
    log_odds,
    stroke_shares,
)
from mnistpro_jax.env.types import Kind, Observation, pytree, static_field

_BLOCK = 256  # particles per block of the two-stage search in systematic_resample


@pytree
class Sight:
    """What an explorer decides on: the observation (mode "canvas"), the reader, and what it makes of it.

    needed: float32 (), the confidence from which the policy answers.
    """

    observation: Observation
    reader: Reader
    posterior: Beliefs
    needed: jax.Array

    @property
    def unseen(self) -> jax.Array:
        """Hidden share of every native pixel of each digit, float32 (n, native height, native width)."""
        revealed: jax.Array = self.reader.split(self.observation.view.revealed)
        return jnp.subtract(jnp.float32(1), revealed)


class Explorer(Protocol):
    """A pytree with a memory; ``direction`` proposes a move, int32 () in 0..3."""

    def init(self, key: jax.Array) -> Any:
        """The memory at the start of an episode."""

    def direction(self, key: jax.Array, sight: Sight, memory: Any) -> tuple[jax.Array, Any]:
        """The move to make now, and the memory to pass on."""


@pytree
class RandomWalk:
    """A uniform choice of the moves that change the window (all four where none does)."""

    geometry: Geometry = static_field(default=Geometry())

    def init(self, key: jax.Array) -> tuple[()]:
        """No memory."""
        return ()

    def direction(self, key: jax.Array, sight: Sight, memory: Any) -> tuple[jax.Array, Any]:
        """See ``Explorer``."""
        moves = jnp.arange(4, dtype=jnp.int32)
        ends = jax.vmap(self.geometry.move, in_axes=(None, 0))(sight.observation.xy, moves)
        useful = jnp.any(ends != sight.observation.xy, axis=-1)
        logits = jnp.where(useful | ~jnp.any(useful), jnp.float32(0), -jnp.inf)
        return jax.random.categorical(key, logits).astype(jnp.int32), memory


@pytree
class Serpentine:
    """To the nearest corner, then row by row; a window's height between rows, so that no row is seen twice.

    Every pixel is inside some window after at most 31 moves at level 1 and 62 at level 2 (published
    geometry), whatever the start. With the outline, 4 of 64 rows between two sweeps and the canvas's rim
    stay unread.
    """

    geometry: Geometry = static_field(default=Geometry())

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        """All int32 (). phase: 0 before the first move, 1 on the way to the corner, 2 sweeping.

        heading_x, heading_y: +-1, where the sweep goes from the corner on. drop: moves left to the next row.
        """
        one = jnp.ones((), jnp.int32)
        return {"phase": 0 * one, "heading_x": one, "heading_y": one, "drop": 0 * one}

    def direction(self, key: jax.Array, sight: Sight, memory: Any) -> tuple[jax.Array, Any]:
        """See ``Explorer``."""
        limit_x, limit_y, stride = self.geometry.limit_x, self.geometry.limit_y, self.geometry.stride
        x, y = sight.observation.xy[0], sight.observation.xy[1]
        fresh = memory["phase"] == 0
        # The sweep leaves the corner, so that it heads right from a left corner.
        heading_x = jnp.where(fresh, jnp.where(2 * x <= limit_x, 1, -1), memory["heading_x"])
        heading_y = jnp.where(fresh, jnp.where(2 * y <= limit_y, 1, -1), memory["heading_y"])
        corner_x, corner_y = jnp.where(heading_x > 0, 0, limit_x), jnp.where(heading_y > 0, 0, limit_y)
        sweeping = (memory["phase"] == 2) | ((x == corner_x) & (y == corner_y))

        end_x = x == jnp.where(heading_x > 0, limit_x, 0)
        end_y = y == jnp.where(heading_y > 0, limit_y, 0)
        drop = jnp.where(end_y, 0, memory["drop"])
        turning = (drop == 0) & end_x
        heading_y = jnp.where(sweeping & turning & end_y, -heading_y, heading_y)  # all seen: sweep back
        drop = jnp.where(turning, max(1, self.geometry.window // stride), drop)
        dropping = drop > 0

        along = jnp.where(heading_x > 0, Kind.RIGHT, Kind.LEFT)
        across = jnp.where(heading_y > 0, Kind.DOWN, Kind.UP)
        sweep = jnp.where(dropping, across, along)
        back = jnp.where(
            x != corner_x,
            jnp.where(heading_x > 0, Kind.LEFT, Kind.RIGHT),
            jnp.where(heading_y > 0, Kind.UP, Kind.DOWN),
        )
        memory = {
            "phase": jnp.where(sweeping, 2, 1).astype(jnp.int32),
            "heading_x": jnp.where(sweeping & turning, -heading_x, heading_x).astype(jnp.int32),
            "heading_y": heading_y.astype(jnp.int32),
            "drop": jnp.where(sweeping & dropping, drop - 1, 0).astype(jnp.int32),
        }
        return jnp.where(sweeping, sweep, back).astype(jnp.int32), memory


@pytree
class PriorCoverage:
    """Goes where most of what distinguishes digits a priori is still unseen.

    A window is worth the reader's ``information`` (variance of the training set's strokes) that it would
    newly show, discounted by the moves it takes. Each digit's half is weighed by how unsure it still is.

    discount: float32 (), per move beyond the first, in (0, 1]. floor: float32 (), weight of a digit that is
    certain, in [0, 1].
    """

    discount: jax.Array
    floor: jax.Array
    geometry: Geometry = static_field(default=Geometry())

    def init(self, key: jax.Array) -> tuple[()]:
        """No memory."""
        return ()

    def direction(self, key: jax.Array, sight: Sight, memory: Any) -> tuple[jax.Array, Any]:
        """See ``Explorer``."""
        options = candidates(self.geometry, sight.observation.xy)
        gains = self.gains(options, sight)
        return direction_to_best(options, gains * discounts(options, self.discount), gains), memory

    def gains(self, options: Candidates, sight: Sight) -> jax.Array:
        """Unseen information in each candidate window, float32 (Y, X); at most n, in digits' worth."""
        doubt = self.floor + (jnp.float32(1) - self.floor) * (jnp.float32(1) - sight.posterior.confidences)
        return options.shown(doubt[:, None, None] * sight.reader.information * sight.unseen)


@pytree
class InformationGain:
    """Goes where the answer is expected to become surest.

    The posterior over the bank is thinned to ``particles`` images of equal weight. Each in turn is taken for
    the truth: what a candidate window would show of it re-weighs the others, and the entropy of their
    classes says how unsure the reader would be then. The mean drop of entropy over the particles is the
    window's gain in nats (summed over digits), discounted by the moves it takes. Once all particles agree
    every gain is zero, therefore ``coverage`` adds the prior's unseen information.

    discount: float32 (), per move beyond the first. tie_break: float32 (), nats that a whole unseen digit is
    worth.
    """

    coverage: PriorCoverage
    discount: jax.Array
    tie_break: jax.Array
    particles: int = static_field(default=16)

    def init(self, key: jax.Array) -> tuple[()]:
        """No memory."""
        return ()

    def direction(self, key: jax.Array, sight: Sight, memory: Any) -> tuple[jax.Array, Any]:
        """See ``Explorer``."""
        options = candidates(self.coverage.geometry, sight.observation.xy)
        gains = self.information(key, options, sight)
        gains = gains + self.tie_break * self.coverage.gains(options, sight)
        return direction_to_best(options, gains * discounts(options, self.discount), gains), memory

    def information(self, key: jax.Array, options: Candidates, sight: Sight) -> jax.Array:
        """Expected drop of the answer's entropy for each candidate window, nats, float32 (Y, X)."""
        reader, posterior, unseen = sight.reader, sight.posterior, sight.unseen
        if not (isinstance(reader, EmpiricalBayesReader) and isinstance(posterior, Posterior)):
            raise TypeError("information gain needs a reader whose hypotheses are images (build_reader)")
        keys = jax.random.split(key, unseen.shape[0])
        resample = jax.vmap(systematic_resample, in_axes=(0, 0, None))
        drawn = resample(keys, posterior.log_weights, self.particles)
        total = jnp.zeros(options.distance.shape, jnp.float32)
        for digit in range(unseen.shape[0]):
            chosen = drawn[digit]
            total += expected_gain(
                reader.templates[chosen],
                reader.one_hot[chosen],
                posterior.temperature[digit],
                unseen[digit],
                options.rows,
                options.columns[:, digit],
            )
        return total


def expected_gain(
    templates: jax.Array,
    one_hot: jax.Array,
    temperature: jax.Array,
    unseen: jax.Array,
    rows: jax.Array,
    columns: jax.Array,
) -> jax.Array:
    """Expected drop of class entropy under K equally likely images, for every window: nats, float32 (Y, X).

    templates: uint8 (K, h, w) counts. one_hot: float32 (K, C), their classes. temperature: float32 ().
    unseen: float32 (h, w), hidden share of each native pixel. rows: float32 (Y, h), columns: float32 (X, w).
    """
    shares = stroke_shares(templates)
    stroke, background = log_odds(templates)
    # Log-likelihood of hypothesis j where k is the truth, over the newly seen share of each window's pixels.
    # Rows are contracted first: the K x K product is then taken once per row of windows, not once per window.
    by_row = jnp.einsum("yr,rc,krc,jrc->ycjk", rows, unseen, shares, stroke)
    per_truth = jnp.einsum("xc,ycjk->yxjk", columns, by_row)
    for_all = jnp.einsum("yr,rc,jrc,xc->yxj", rows, unseen, background, columns)
    log_weights = temperature * (per_truth + for_all[..., None])
    weights = jax.nn.softmax(log_weights, axis=2)
    after = _entropy(jnp.einsum("yxjk,jc->yxkc", weights, one_hot))
    return _entropy(jnp.mean(one_hot, axis=0)) - jnp.mean(after, axis=-1)


def systematic_resample(key: jax.Array, log_weights: jax.Array, count: int) -> jax.Array:
    """``count`` indices in proportion to the weights, evenly spaced along their sum: int32 (count,), rising.

    log_weights: float32 (N,). An image of weight w is drawn floor(count w) or that plus one times.
    """
    # Two stages, blocks and then images of a block: a running sum over all N would cost more than reading.
    size = log_weights.shape[0]
    padded = jnp.pad(log_weights, (0, -size % _BLOCK), constant_values=-jnp.inf)
    weights = jnp.exp(padded - jnp.max(log_weights)).reshape(-1, _BLOCK)
    block_ends = jnp.cumsum(jnp.sum(weights, axis=-1))
    offsets = jnp.arange(count, dtype=jnp.float32) + jax.random.uniform(key, (), jnp.float32)
    targets = offsets / jnp.float32(count) * block_ends[-1]
    block = jnp.sum(block_ends[None, :] <= targets[:, None], axis=-1, dtype=jnp.int32)
    block = jnp.minimum(block, weights.shape[0] - 1)
    begin = jnp.where(block > 0, block_ends[block - 1], jnp.float32(0))
    inside = begin[:, None] + jnp.cumsum(weights[block], axis=-1)
    within = jnp.sum(inside <= targets[:, None], axis=-1, dtype=jnp.int32)
    return jnp.minimum(block * _BLOCK + jnp.minimum(within, _BLOCK - 1), size - 1).astype(jnp.int32)


def discounts(options: Candidates, discount: jax.Array) -> jax.Array:
    """What a window's gain counts for after the moves it takes, float32 (Y, X): 1 for a neighbour."""
    return discount ** (options.distance - 1).astype(jnp.float32)


def _entropy(probabilities: jax.Array) -> jax.Array:
    """Entropy in nats along the last axis."""
    return jnp.sum(jax.scipy.special.entr(probabilities), axis=-1)
