"""What an episode has shown: the set of its window positions, and the pixels that follow from it.

A window moves by the stride and is clamped at the borders, so that along each axis its positions are congruent (mod
stride) to 0, to the far border's position or to the episode's start. A bit for each of those positions is all that an
episode has to remember: the pixels that it saw are the union of the windows, an exact function of the bits.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.compile_hints import materialised

_UNROLL = 32  # positions along x whose columns are joined in one operation


def div_rem(value: jax.Array, divisor: int) -> tuple[jax.Array, jax.Array]:
    """Quotient and remainder of int32 ``value`` >= 0 by a constant."""
    # Python's operators round towards minus infinity, which costs a dozen operations a pair.
    if divisor & (divisor - 1) == 0:
        shift = jnp.int32(divisor.bit_length() - 1)
        return jax.lax.shift_right_logical(value, jnp.full_like(value, shift)), value & jnp.int32(divisor - 1)
    constant = jnp.full_like(value, divisor)
    return jax.lax.div(value, constant), jax.lax.rem(value, constant)


@dataclasses.dataclass(frozen=True)
class Axis:
    """The window positions of an episode along one axis. length, window, stride: pixels.

    Positions are numbered by residue (0, the far border's, the start's), then by size: the position r + k stride of
    residue number c is number ``c per_residue + k``.
    """

    length: int
    window: int
    stride: int

    @property
    def limit(self) -> int:
        """The last position."""
        return self.length - self.window

    @property
    def fixed_residues(self) -> tuple[int, ...]:
        """Residues that are the same in every episode."""
        return tuple(sorted({0, self.limit % self.stride}))

    @property
    def per_residue(self) -> int:
        """Positions of one residue, the impossible one past the limit included."""
        return self.limit // self.stride + 1

    @property
    def count(self) -> int:
        """Numbers of positions."""
        return self.per_residue * min(len(self.fixed_residues) + 1, self.stride)

    def residues(self, start: jax.Array) -> list[jax.Array]:
        """The residues of an episode that began at ``start``, int32 ()."""
        fixed = [jnp.full_like(start, residue) for residue in self.fixed_residues]
        return fixed if len(fixed) == self.stride else [*fixed, div_rem(start, self.stride)[1]]

    def number(self, position: jax.Array) -> jax.Array:
        """The number of a position that the episode can have, int32 ()."""
        block, residue = div_rem(position, self.stride)
        fixed = self.fixed_residues
        kind = jnp.full_like(position, len(fixed))
        for number, candidate in enumerate(fixed):
            kind = jnp.where(residue == candidate, number, kind)
        return kind * self.per_residue + block

    def positions(self, start: jax.Array) -> jax.Array:
        """All positions by number, int32 (count,); some lie past the limit, where no window is ever shown."""
        steps = self.stride * jnp.arange(self.per_residue, dtype=jnp.int32)
        return jnp.concatenate([residue + steps for residue in self.residues(start)])

    def parts(
        self, shown: jax.Array, start: jax.Array, low: int, high: int
    ) -> list[tuple[jax.Array, jax.Array]]:
        """The union of windows along the axis in parts, which ``joined`` puts together.

        shown: uint32 (..., count), any bits for each position. start: the episode's first position, int32 (). low,
        high: pixels at the window's near and far end that do not count; a pixel is in the window at p where
        p + low <= pixel < p + window - high. Cuts the axis into blocks of ``stride`` pixels, and returns pairs of bits
        for each block, (..., blocks), and all-ones words for the pixels of every block that they hold for, (stride,).
        """
        size, stride = max(0, self.window - low - high), self.stride
        blocks = -(-self.length // stride)
        # Of each residue one window begins in each block. A pixel lies in the ``whole`` windows that began last before
        # it, and in the one before them if that began less than ``rest`` pixels after the beginning of its own block.
        whole, rest = divmod(size, stride)
        skipped, low = divmod(low, stride)
        pixel = jnp.arange(stride, dtype=jnp.int32)
        origin = whole + skipped + 2
        margin = [(0, 0)] * (shown.ndim - 1) + [(origin, blocks)]
        pairs = []
        for number, residue in enumerate(self.residues(start)):
            own = jnp.pad(shown[..., number * self.per_residue : (number + 1) * self.per_residue], margin)
            later = residue + low >= stride
            first = residue + low - jnp.where(later, stride, 0)
            before = pixel < first
            inside = pixel - first + jnp.where(before, stride, 0) < rest
            for width, where in ((whole, True), (whole + 1, inside)) if rest else ((whole, True),):
                windows = _widened(own, width)
                for ago, side in ((0, ~before), (1, before)):
                    at = origin - skipped - ago
                    now, earlier = (windows[..., at - by : at - by + blocks] for by in (0, 1))
                    pixels = jnp.where(side & where, jnp.uint32(0xFFFFFFFF), jnp.uint32(0))
                    pairs.append((jnp.where(later, earlier, now), pixels))
        return pairs

    @staticmethod
    def joined(parts: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        """The OR of ``shown`` over all windows that a pixel lies in, uint32 (..., blocks, stride)."""
        return functools.reduce(jnp.bitwise_or, [bits[..., None] & pixels for bits, pixels in parts])


def _widened(values: jax.Array, width: int) -> jax.Array:
    """Along the last axis, the OR of each entry and of the ``width`` - 1 before it; nothing for width 0."""
    if width == 0:
        return jnp.zeros_like(values)
    done = 1
    while done < width:
        by = min(done, width - done)
        moved = jnp.pad(values[..., :-by], [(0, 0)] * (values.ndim - 1) + [(by, 0)])
        values, done = values | moved, done + by
    return values


@dataclasses.dataclass(frozen=True)
class Positions:
    """Sets of window positions, uint32 ``shape``: a row a position along y, a bit a position along x.

    x, y: the axes. start: wherever it is asked for, the episode's first corner, int32 (2,).
    """

    x: Axis
    y: Axis

    @property
    def shape(self) -> tuple[int, int]:
        """(positions along y, words that hold those along x)."""
        return self.y.count, bitmap.num_words(self.x.count)

    def one(self, xy: jax.Array) -> jax.Array:
        """The set of one position that the episode can have, int32 (2,)."""
        column, row = self.x.number(xy[0]), self.y.number(xy[1])
        words = bitmap.span(column, column + 1, self.shape[1])
        here = jnp.arange(self.shape[0], dtype=jnp.int32)[:, None] == row
        return jnp.where(here, words, jnp.uint32(0))

    def pixels(
        self, shown: jax.Array, start: jax.Array, rings: Sequence[tuple[int, int]], one: jax.Array
    ) -> list[jax.Array]:
        """The union of the windows at the positions ``shown``, a bitmap uint32 (words, height), for each of ``rings``.

        rings: (low, high), pixels at the near and the far sides of a window that do not count. start: the episode's
        first corner, int32 (2,). one: see ``compile_hints.materialised``.
        """
        words, count = bitmap.num_words(self.x.length), self.x.count
        span = jax.vmap(functools.partial(bitmap.span, words=words))

        def by_position() -> tuple[jax.Array, jax.Array]:
            """For each position along x: whether it was shown at each one along y, and the columns it covers."""
            bit = jnp.arange(count, dtype=jnp.uint32)[:, None] % jnp.uint32(bitmap.WORD_BITS)
            held = (jnp.repeat(shown.T, bitmap.WORD_BITS, axis=0)[:count] >> bit) & jnp.uint32(1)
            first, last = self.x.positions(start[0]), self.x.length
            columns = [
                span(first + low, jnp.minimum(first + self.x.window - high, last)) for low, high in rings
            ]
            return jnp.uint32(0) - held, jnp.stack(columns, axis=1)

        def add(union: jax.Array, position: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
            held, columns = position
            return union | (columns[..., None] & held), None

        def by_row() -> jax.Array:
            """Columns seen at each position along y, (rings, words, positions)."""
            nothing = jnp.zeros((len(rings), words, self.y.count), jnp.uint32)
            return jax.lax.scan(add, nothing, positions, unroll=min(count, _UNROLL))[0]

        positions = materialised(by_position, one)
        rows = materialised(by_row, one)
        parts = materialised(
            lambda: [self.y.parts(row, start[1], *ring) for row, ring in zip(rows, rings, strict=True)], one
        )
        # Kept by blocks until it lies in memory: a loop over pixels would divide to find the block of each.
        unions = materialised(lambda: [self.y.joined(part) for part in parts], one)
        return [union.reshape(words, -1)[:, : self.y.length] for union in unions]
