"""Where to look next: explorers propose a move from what the reader believes.

An explorer never answers; a policy decides when enough was seen. All are written for one episode.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from mnistpro_jax.agents import exact
from mnistpro_jax.agents.base import Candidates, Geometry, candidates, direction_to_best
from mnistpro_jax.agents.expected_gain import expected_gain, gain_per_nat, systematic_resample
from mnistpro_jax.agents.reader import Beliefs, EmpiricalBayesReader, Posterior, Reader
from mnistpro_jax.env.types import Kind, Observation, pytree, static_field

_DOUBT_BITS = 12
_SPARE_BITS = 6  # of a shown window: 24 - 6 + 12 bits are left, weighed by doubt


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
        return self.hidden.astype(jnp.float32) / jnp.float32(self.reader.cell)

    @property
    def hidden(self) -> jax.Array:
        """Hidden canvas pixels of every native pixel of each digit, int32 (n, native height, native width)."""
        revealed: jax.Array = self.reader.split(self.observation.view.revealed)
        return jnp.subtract(jnp.int32(self.reader.cell), revealed.astype(jnp.int32))


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
        useful = self.geometry.useful_moves(sight.observation.xy)
        chosen = exact.draw(key, jnp.sum(useful, dtype=jnp.int32))
        # The first move that has so many useful ones before it, itself among them.
        return jnp.sum(jnp.cumsum(useful, dtype=jnp.int32) <= chosen, dtype=jnp.int32), memory


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

    Gains are whole numbers, so that the same beliefs make the same choice on every machine; confidences count in steps
    of 1 / 4096.

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
        return direction_to_best(options, discounted(gains, options, self.discount), gains), memory

    def gains(self, options: Candidates, sight: Sight) -> jax.Array:
        """Unseen information in each candidate window, int32 (Y, X): ``worth`` is that of a whole unseen digit."""
        information_bits, axis_bits = _coverage_bits(options.factor)
        information = exact.on_grid(sight.reader.information, information_bits)
        # Rows, then columns: factor ** 3 * information is within 2 ** 24; so is the second sum after the shift.
        by_row = exact.whole(exact.product("yr,nrc,nrc->nyc", options.rows, sight.hidden, information[None]))
        shown = exact.whole(exact.product("nyc,xnc->nyx", by_row >> axis_bits, options.columns))
        certain = exact.on_grid(sight.posterior.confidences, _DOUBT_BITS)
        unsure, least = jnp.int32(1 << _DOUBT_BITS) - certain, exact.on_grid(self.floor, _DOUBT_BITS)
        doubt = least + (((jnp.int32(1 << _DOUBT_BITS) - least) * unsure) >> _DOUBT_BITS)
        weighed = ((shown >> _SPARE_BITS) * doubt[:, None, None]) >> (_DOUBT_BITS - 2)
        return jnp.sum(weighed, axis=0, dtype=jnp.int32)

    @property
    def worth(self) -> int:
        """Gain of a wholly unseen digit of which nothing is known, about 2 ** 20."""
        factor = self.geometry.native_factor
        information_bits, axis_bits = _coverage_bits(factor)
        return (factor**4 << information_bits) >> (axis_bits + _SPARE_BITS - 2)


@pytree
class InformationGain:
    """Goes where the answer is expected to become surest.

    The posterior over the bank is thinned to ``particles`` images of equal weight. Each in turn is taken for
    the truth: what a candidate window would show of it re-weighs the others, and the entropy of their
    classes says how unsure the reader would be then. The mean drop of entropy over the particles is the
    window's gain in nats (summed over digits), discounted by the moves it takes. Once all particles agree
    every gain is zero, therefore ``coverage`` adds the prior's unseen information. All gains are whole numbers.

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
        # Rounded down before it is added: multiply and add may be one instruction or two.
        worth = self.tie_break * jnp.float32(gain_per_nat(self.particles) / self.coverage.worth)
        extra = jnp.floor(self.coverage.gains(options, sight).astype(jnp.float32) * worth)
        gains = gains + extra.astype(jnp.int32)
        return direction_to_best(options, discounted(gains, options, self.discount), gains), memory

    def information(self, key: jax.Array, options: Candidates, sight: Sight) -> jax.Array:
        """Expected drop of the answer's entropy for each candidate window, int32 (Y, X).

        In 1 / ``gain_per_nat(particles)`` nats.
        """
        reader, posterior, hidden = sight.reader, sight.posterior, sight.hidden
        if not (isinstance(reader, EmpiricalBayesReader) and isinstance(posterior, Posterior)):
            raise TypeError("information gain needs a reader whose hypotheses are images (build_reader)")
        keys = jax.random.split(key, hidden.shape[0])
        resample = jax.vmap(systematic_resample, in_axes=(0, 0, None))
        drawn = resample(keys, posterior.weights, self.particles)
        total = jnp.zeros(options.distance.shape, jnp.int32)
        for digit in range(hidden.shape[0]):
            chosen = drawn[digit]
            total += expected_gain(
                reader.templates[chosen],
                reader.one_hot[chosen],
                posterior.rate[digit],
                hidden[digit],
                options.rows,
                options.columns[:, digit],
                options.factor,
            )
        return total


def discounted(gains: jax.Array, options: Candidates, discount: jax.Array) -> jax.Array:
    """What windows are worth after the moves they take, float32 (Y, X): whole gains times one rounded factor."""
    rows, columns = options.distance.shape
    factors = exact.powers(discount, rows + columns)
    return gains.astype(jnp.float32) * factors[jnp.maximum(options.distance - 1, 0)]


def _coverage_bits(factor: int) -> tuple[int, int]:
    """(bits of information, so that factor ** 3 times it stays exact; bits of factor)."""
    return 24 - math.ceil(3 * math.log2(factor)), math.ceil(math.log2(factor))
