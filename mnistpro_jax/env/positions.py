"""What an episode has shown: the set of its window positions, and the pixels that follow from it.

A window moves by the stride and is clamped at the borders, so that along each axis its positions are congruent (mod
stride) to 0, to the far border's position or to the episode's start. A bit for each of those positions is all that an
episode has to remember: the pixels that it saw are the union of the windows, an exact function of the bits.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.compile_hints import materialised

_UNROLL = 32  # positions whose windows are joined in one operation


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
    def blocks(self) -> int:
        """Blocks of ``stride`` pixels, the last of which may be short."""
        return -(-self.length // self.stride)

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

    def cuts(self, start: jax.Array, low: int, high: int) -> jax.Array:
        """Where windows begin and end within a block of ``stride`` pixels, ascending: int32 (cells,), the first 0.

        start: the episode's first position, int32 (). low, high: pixels at the window's near and far end that do not
        count. The cuts are the same in every block, and nothing changes between one and the next.
        """
        ends = {low, self.window - high} if (self.window - high - low) % self.stride else {low}
        fixed = {(residue + end) % self.stride for residue in self.fixed_residues for end in ends} | {0}
        cuts = [jnp.full_like(start, cut) for cut in sorted(fixed)]
        if len(self.fixed_residues) < self.stride:
            for end in sorted(ends):
                own = div_rem(start + end, self.stride)[1]
                for place, cut in enumerate(cuts):
                    cuts[place], own = jnp.minimum(cut, own), jnp.maximum(cut, own)
                cuts.append(own)
        return jnp.stack(cuts)


class Seen(NamedTuple):
    """A union of windows by cells: rows of pixels within a block of ``stride`` that were seen alike.

    columns: uint32 (words, cells, blocks), the pixels of each row of a cell. cuts: int32 (cells,), first row of each.
    """

    columns: jax.Array
    cuts: jax.Array


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
        return jnp.where(here, words[None, :], jnp.uint32(0))

    def seen(
        self, shown: jax.Array, start: jax.Array, rings: Sequence[tuple[int, int]], one: jax.Array
    ) -> list[Seen]:
        """The union of the windows at the positions ``shown``, for each of ``rings``.

        rings: (low, high), pixels at the near and the far sides of a window that do not count. start: the episode's
        first corner, int32 (2,). one: see ``compile_hints.materialised``.
        """
        words, x, y = bitmap.num_words(self.x.length), self.x, self.y
        span = jax.vmap(functools.partial(bitmap.span, words=words))

        def along_x() -> tuple[jax.Array, jax.Array]:
            """For each position along x: whether it was shown at each one along y, and the columns it covers."""
            bit = jnp.arange(x.count, dtype=jnp.uint32)[:, None] % jnp.uint32(bitmap.WORD_BITS)
            held = (jnp.repeat(shown.T, bitmap.WORD_BITS, axis=0)[: x.count] >> bit) & jnp.uint32(1)
            first = x.positions(start[0])
            columns = [
                span(first + low, jnp.minimum(first + x.window - high, x.length)) for low, high in rings
            ]
            return jnp.uint32(0) - held, jnp.stack(columns, axis=1)

        def columns() -> list[jax.Array]:
            """Columns seen at each position along y, uint32 (words, positions), for each of ``rings``."""
            held, covered = by_position
            return [joined_columns(held, covered[:, ring]) for ring in range(len(rings))]

        def joined_columns(held: jax.Array, covered: jax.Array) -> jax.Array:
            return _joined(lambda p: covered[p][:, None] & held[p][None, :], x.count)

        def cells() -> list[Seen]:
            return [cells_of(row, *ring) for row, ring in zip(rows, rings, strict=True)]

        def cells_of(row: jax.Array, low: int, high: int) -> Seen:
            cuts, first = y.cuts(start[1], low, high), y.positions(start[1])
            pixel = (cuts[:, None] + y.stride * jnp.arange(y.blocks, dtype=jnp.int32)[None, :]).reshape(-1)

            def covered(p: Any) -> jax.Array:
                inside = (pixel >= first[p] + low) & (pixel < first[p] + y.window - high)
                return jnp.where(inside[None, :], row[:, p, None], jnp.uint32(0))

            return Seen(_joined(covered, y.count).reshape(words, len(cuts), y.blocks), cuts)

        by_position = materialised(along_x, one)
        rows = materialised(columns, one)
        return materialised(cells, one)

    def pixels(self, seen: Seen) -> jax.Array:
        """A bitmap, uint32 (words, height)."""
        return self._rows(seen).reshape(seen.columns.shape[0], -1)[:, : self.y.length]

    def within(self, bits: jax.Array, seen: Seen) -> jax.Array:
        """The pixels of a bitmap, uint32 (words, height), that were seen: by blocks, (words, blocks, stride)."""
        spare = self.y.blocks * self.y.stride - self.y.length
        rows = jnp.pad(bits, [(0, 0), (0, spare)]) if spare else bits
        return rows.reshape(bits.shape[0], self.y.blocks, self.y.stride) & self._rows(seen)

    def _rows(self, seen: Seen) -> jax.Array:
        """The pixels of each row, uint32 (words, blocks, stride)."""
        pixel = jnp.arange(self.y.stride, dtype=jnp.int32)[None, None, :]
        rows = jnp.broadcast_to(seen.columns[:, 0, :, None], (*seen.columns.shape[::2], self.y.stride))
        for cell in range(1, seen.cuts.shape[0]):
            rows = jnp.where(pixel >= seen.cuts[cell], seen.columns[:, cell, :, None], rows)
        return rows

    def area(self, seen: Seen) -> jax.Array:
        """Pixels, int32 ()."""
        ends = jnp.concatenate([seen.cuts[1:], jnp.full((1,), self.y.stride, jnp.int32)])
        return jnp.sum(bitmap.popcount(seen.columns, axis=(0, 2)) * (ends - seen.cuts), dtype=jnp.int32)


def _joined(of: Callable[[Any], jax.Array], count: int) -> jax.Array:
    """The OR of ``of(0)``, ..., ``of(count - 1)``, uint32."""
    if count <= _UNROLL:
        return functools.reduce(jnp.bitwise_or, [of(number) for number in range(count)])
    nothing = jnp.zeros(jax.eval_shape(of, 0).shape, jnp.uint32)
    joined: jax.Array = jax.lax.fori_loop(0, count, lambda number, union: union | of(number), nothing)
    return joined
