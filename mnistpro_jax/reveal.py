"""Which pixels an episode has seen: exact revealed masks in a handful of words.

Two representations with one interface. ``LatticeMask`` keeps one bit per lattice cell (``lattice.Axis``):
the published geometry needs 14 words. ``PixelMask`` keeps one bit per pixel and serves the geometries whose
windows hold too many cells. ``revealed_mask`` picks one; property tests hold them equal.

A mask is always used with the episode's start corner, which fixes the lattice.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax import bitmap
from mnistpro_jax.lattice import Axis

# The unrolled cell arithmetic grows with the square of the cells in a window; beyond this many along an axis
# the pixel mask is both smaller to compile and faster.
MAX_WINDOW_CELLS = 12


class RevealedMask(Protocol):
    """Static object that interprets uint32 arrays of ``shape`` as sets of revealed pixels."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def interior(self) -> jax.Array:
        """The pixels of a window that count, as its bitmap, uint32 (words, window)."""
        ...

    @property
    def interior_area(self) -> int:
        """Their number."""
        ...

    def first_look(self, xy: jax.Array) -> jax.Array:
        """The mask of an episode that has shown its start window alone."""
        ...

    def look(
        self, mask: jax.Array, start_xy: jax.Array, xy: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Show the window at ``xy``.

        Returns (fresh, area, mask): the window's bitmap of counting pixels not revealed before, uint32
        (words, window); their number, int32 (); and the mask with the window added.
        """
        ...

    def pixels(self, mask: jax.Array, start_xy: jax.Array) -> jax.Array:
        """The revealed pixels of the canvas as a bitmap, uint32 (words, height)."""
        ...

    def contains_corner(self, corners: jax.Array, start_xy: jax.Array, xy: jax.Array) -> jax.Array:
        """Whether the window position ``xy`` is in the set ``corners`` (same shape as the mask), bool ()."""
        ...

    def add_corner(self, corners: jax.Array, start_xy: jax.Array, xy: jax.Array) -> jax.Array:
        """The set ``corners`` with the window position ``xy`` added."""
        ...


def revealed_mask(
    height: int, width: int, window: int, stride: int, low: int = 0, high: int = 0
) -> RevealedMask:
    """The cheaper exact mask for a geometry; ``low`` and ``high`` as in ``lattice.Axis``."""
    x_axis = Axis(width, window, stride, low, high)
    y_axis = Axis(height, window, stride, low, high)
    if max(x_axis.window_cells, y_axis.window_cells) <= MAX_WINDOW_CELLS:
        return LatticeMask(x_axis, y_axis)
    return PixelMask(x_axis, y_axis)


@dataclasses.dataclass(frozen=True)
class _WindowMask:
    """What both representations share: the axes and the window's interior."""

    x_axis: Axis
    y_axis: Axis

    @property
    def interior(self) -> jax.Array:
        low, high = self.x_axis.low, self.x_axis.window - self.x_axis.high
        pixels = np.zeros((self.y_axis.window, self.x_axis.window), np.bool_)
        pixels[low:high, low:high] = True
        return bitmap.pack(jnp.asarray(pixels))

    @property
    def interior_area(self) -> int:
        return max(0, self.x_axis.window - self.x_axis.low - self.x_axis.high) ** 2


@dataclasses.dataclass(frozen=True)
class LatticeMask(_WindowMask):
    """One bit per lattice cell: uint32 (cell rows, words of cell columns)."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.y_axis.num_cells, bitmap.num_words(self.x_axis.num_cells)

    def look(
        self, mask: jax.Array, start_xy: jax.Array, xy: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        x_lines, y_lines = self.x_axis.lines(start_xy[0]), self.y_axis.lines(start_xy[1])
        x_low, x_high = self._interior(self.x_axis, xy[0])
        y_low, y_high = self._interior(self.y_axis, xy[1])
        first_column, first_row = self.x_axis.cell(x_low, x_lines), self.y_axis.cell(y_low, y_lines)
        columns, rows = self.x_axis.window_cells, self.y_axis.window_cells
        # Borders relative to the window; cells past its interior get no width.
        x_borders = [
            jnp.clip(border, x_low, x_high) - xy[0]
            for border in self.x_axis.borders(first_column, columns + 1, x_lines)
        ]
        y_borders = [
            jnp.clip(border, y_low, y_high) - xy[1]
            for border in self.y_axis.borders(first_row, rows + 1, y_lines)
        ]
        words = bitmap.num_words(self.x_axis.window)
        spans = [bitmap.span(x_borders[c], x_borders[c + 1], words) for c in range(columns)]
        widths = [x_borders[c + 1] - x_borders[c] for c in range(columns)]

        # One lane per cell row, one step per cell column.
        cell_rows = jax.lax.dynamic_slice_in_dim(mask, first_row, rows, axis=0)
        unseen = ~self._bits_from(cell_rows.T, first_column)
        fresh_rows = [jnp.zeros((rows,), jnp.uint32)] * words
        row_area = jnp.zeros((rows,), jnp.int32)
        for c in range(columns):
            bit = (unseen >> jnp.uint32(c)) & jnp.uint32(1)
            select = jnp.uint32(0) - bit
            fresh_rows = [word | (select & span) for word, span in zip(fresh_rows, spans[c], strict=True)]
            row_area = row_area + bit.astype(jnp.int32) * widths[c]
        tops = jnp.stack(y_borders)
        area = jnp.sum(row_area * (tops[1:] - tops[:-1]), dtype=jnp.int32)

        row_number = jnp.arange(self.y_axis.window, dtype=jnp.int32)
        fresh = []
        for word in range(words):
            column = jnp.where(row_number >= y_borders[0], fresh_rows[word][0], jnp.uint32(0))
            for r in range(1, rows):
                column = jnp.where(row_number >= y_borders[r], fresh_rows[word][r], column)
            fresh.append(jnp.where(row_number < y_borders[rows], column, jnp.uint32(0)))

        return jnp.stack(fresh), area, mask | self._window_cells(start_xy, xy)

    def first_look(self, xy: jax.Array) -> jax.Array:
        return self._window_cells(xy, xy)

    def _window_cells(self, start_xy: jax.Array, xy: jax.Array) -> jax.Array:
        """The mask of one window's cells."""
        x_lines, y_lines = self.x_axis.lines(start_xy[0]), self.y_axis.lines(start_xy[1])
        columns = [self.x_axis.cell(edge, x_lines) for edge in self._interior(self.x_axis, xy[0])]
        rows = [self.y_axis.cell(edge, y_lines) for edge in self._interior(self.y_axis, xy[1])]
        number = jnp.arange(self.shape[0], dtype=jnp.int32)[:, None]
        inside = (number >= rows[0]) & (number < rows[1])
        return jnp.where(inside, jnp.stack(bitmap.span(*columns, self.shape[1])), jnp.uint32(0))

    def pixels(self, mask: jax.Array, start_xy: jax.Array) -> jax.Array:
        x_lines, y_lines = self.x_axis.lines(start_xy[0]), self.y_axis.lines(start_xy[1])
        # A word of 32 pixels meets at most this many cells.
        count = len(x_lines) * -(-bitmap.WORD_BITS // self.x_axis.stride) + 1
        columns = []
        for word in range(bitmap.num_words(self.x_axis.length)):
            left = jnp.asarray(bitmap.WORD_BITS * word, jnp.int32)
            right = min(bitmap.WORD_BITS * (word + 1), self.x_axis.length)
            first = self.x_axis.cell(left, x_lines)
            borders = [
                jnp.clip(border, left, right) - left
                for border in self.x_axis.borders(first, count + 1, x_lines)
            ]
            bits = self._bits_from(mask.T, first)
            column = jnp.zeros(mask.shape[:1], jnp.uint32)
            for c in range(count):
                select = jnp.uint32(0) - ((bits >> jnp.uint32(c)) & jnp.uint32(1))
                column = column | (select & bitmap.span(borders[c], borders[c + 1], 1)[0])
            columns.append(column)
        rows = self.y_axis.cell(jnp.arange(self.y_axis.length, dtype=jnp.int32), y_lines)
        return jnp.stack(columns)[:, jnp.clip(rows, 0, mask.shape[0] - 1)]

    def contains_corner(self, corners: jax.Array, start_xy: jax.Array, xy: jax.Array) -> jax.Array:
        column, row = self._corner_cell(start_xy, xy)
        return _bit(jax.lax.dynamic_index_in_dim(corners, row, keepdims=False), column)

    def add_corner(self, corners: jax.Array, start_xy: jax.Array, xy: jax.Array) -> jax.Array:
        column, row = self._corner_cell(start_xy, xy)
        here = jnp.arange(corners.shape[0], dtype=jnp.int32)[:, None] == row
        bit = jnp.stack(bitmap.span(column, column + 1, corners.shape[1]))
        return corners | jnp.where(here, bit, jnp.uint32(0))

    def _corner_cell(self, start_xy: jax.Array, xy: jax.Array) -> tuple[jax.Array, jax.Array]:
        # The corner's own line is on the lattice, so different corners lie in different cells.
        x_low, y_low = xy[0] + self.x_axis.low, xy[1] + self.y_axis.low
        column = self.x_axis.cell(x_low, self.x_axis.lines(start_xy[0]))
        return column, self.y_axis.cell(y_low, self.y_axis.lines(start_xy[1]))

    @staticmethod
    def _interior(axis: Axis, corner: jax.Array) -> tuple[jax.Array, jax.Array]:
        return corner + axis.low, corner + (axis.window - axis.high)

    @staticmethod
    def _bits_from(words: jax.Array, first: jax.Array) -> jax.Array:
        """The 32 bits from bit ``first`` on of words[0], words[1], ... (leading axis: words)."""
        number, shift = bitmap.word_and_bit(first)
        if words.shape[0] == 1:
            return words[0] >> shift
        low, high = words[0], words[1]
        for word in range(1, words.shape[0]):
            following = words[word + 1] if word + 1 < words.shape[0] else jnp.zeros_like(low)
            low = jnp.where(number == word, words[word], low)
            high = jnp.where(number == word, following, high)
        return bitmap.funnel(low, high, shift)


@dataclasses.dataclass(frozen=True)
class PixelMask(_WindowMask):
    """One bit per pixel, as a bitmap: uint32 (words, height)."""

    @property
    def shape(self) -> tuple[int, int]:
        return bitmap.num_words(self.x_axis.length), self.y_axis.length

    def look(
        self, mask: jax.Array, start_xy: jax.Array, xy: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        window = self.x_axis.window
        fresh = self.interior & ~bitmap.crop(mask, xy, window, window)
        return fresh, bitmap.popcount(fresh), mask | self.first_look(xy)

    def first_look(self, xy: jax.Array) -> jax.Array:
        return self._rectangle(xy, self.shape, self.x_axis.low, self.x_axis.window - self.x_axis.high)

    def pixels(self, mask: jax.Array, start_xy: jax.Array) -> jax.Array:
        return mask

    def contains_corner(self, corners: jax.Array, start_xy: jax.Array, xy: jax.Array) -> jax.Array:
        return _bit(jax.lax.dynamic_index_in_dim(corners, xy[1], axis=1, keepdims=False), xy[0])

    def add_corner(self, corners: jax.Array, start_xy: jax.Array, xy: jax.Array) -> jax.Array:
        return corners | self._rectangle(xy, self.shape, 0, 1)

    @staticmethod
    def _rectangle(corner: jax.Array, shape: tuple[int, int], low: int, high: int) -> jax.Array:
        """The bitmap of the square whose sides run from corner + low to corner + high (exclusive)."""
        words, height = shape
        columns = jnp.stack(bitmap.span(corner[0] + low, corner[0] + high, words))[:, None]
        row = jnp.arange(height, dtype=jnp.int32)
        inside = (row >= corner[1] + low) & (row < corner[1] + high)
        return jnp.where(inside, columns, jnp.uint32(0))


def _bit(words: jax.Array, column: jax.Array) -> jax.Array:
    """Whether bit ``column`` of uint32 (words,) is set, bool ()."""
    number, bit = bitmap.word_and_bit(column)
    return ((words[number] >> bit) & jnp.uint32(1)) == 1
