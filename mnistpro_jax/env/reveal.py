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

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.compile_hints import materialised
from mnistpro_jax.env.lattice import Axis
from mnistpro_jax.env.types import pytree

# The unrolled cell arithmetic grows with the square of the cells in a window; beyond this many along an axis
# the pixel mask is both smaller to compile and faster.
MAX_WINDOW_CELLS = 12


@pytree
class Place:
    """A window's place in the episode's lattice: a few int32 () scalars.

    x_lines, y_lines: see ``Axis.lines``. columns, rows: first cell of the window, and first cell after it.
    """

    x_lines: tuple[jax.Array, ...]
    y_lines: tuple[jax.Array, ...]
    columns: tuple[jax.Array, jax.Array]
    rows: tuple[jax.Array, jax.Array]


@pytree
class Look:
    """What showing one window does, in few words; ``RevealedMask.strips`` expands it to pixels.

    rows: uint32, bits of fresh columns: one row of words per row of cells, (cells, words), or per pixel row,
    (words, window). borders: int32 () each, where the cells of one strip begin, in rows of the strip. area:
    int32 (), how many pixels are fresh.
    """

    rows: jax.Array
    borders: tuple[jax.Array, ...]
    area: jax.Array


class RevealedMask(Protocol):
    """Static object that interprets uint32 arrays of ``shape`` as sets of revealed pixels.

    Every question about a window is asked with its ``Place``, which holds what they have in common.
    """

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

    def place(self, start_xy: jax.Array, xy: jax.Array) -> Place:
        """Where the window at ``xy`` lies, in an episode that started at ``start_xy``."""
        ...

    def first_look(self, place: Place, xy: jax.Array) -> jax.Array:
        """The mask of an episode that has shown one window alone."""
        ...

    def look(self, mask: jax.Array, place: Place, xy: jax.Array) -> Look:
        """What is new in the window at ``xy`` (``first_look`` then adds it to the mask)."""
        ...

    def strips(self, look: Look) -> list[tuple[slice, jax.Array]]:
        """The counting pixels of the window that were not revealed before, strip by strip of its rows.

        Pairs of the window rows of a strip and its bitmap, uint32 (words, rows of the strip). Rows outside all
        strips hold none.
        """
        ...

    def pixels(self, mask: jax.Array, start_xy: jax.Array, one: jax.Array) -> jax.Array:
        """The revealed pixels of the canvas as a bitmap, uint32 (words, height).

        one: see ``compile_hints.materialised``.
        """
        ...

    def contains_corner(self, corners: jax.Array, place: Place, xy: jax.Array) -> jax.Array:
        """Whether the window position ``xy`` is in the set ``corners`` (same shape as the mask), bool ()."""
        ...

    def add_corner(self, corners: jax.Array, place: Place, xy: jax.Array) -> jax.Array:
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
        return jnp.asarray(bitmap.pack_constant(pixels))

    @property
    def interior_area(self) -> int:
        return max(0, self.x_axis.window - self.x_axis.low - self.x_axis.high) ** 2


@dataclasses.dataclass(frozen=True)
class LatticeMask(_WindowMask):
    """One bit per lattice cell: uint32 (cell rows, words of cell columns)."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.y_axis.num_cells, bitmap.num_words(self.x_axis.num_cells)

    def place(self, start_xy: jax.Array, xy: jax.Array) -> Place:
        x_lines, y_lines = self.x_axis.lines(start_xy[0]), self.y_axis.lines(start_xy[1])
        x_low, x_high = _interior(self.x_axis, xy[0])
        y_low, y_high = _interior(self.y_axis, xy[1])
        return Place(
            tuple(x_lines),
            tuple(y_lines),
            (self.x_axis.cell(x_low, x_lines), self.x_axis.cell(x_high, x_lines)),
            (self.y_axis.cell(y_low, y_lines), self.y_axis.cell(y_high, y_lines)),
        )

    def look(self, mask: jax.Array, place: Place, xy: jax.Array) -> Look:
        x_borders = self._borders(self.x_axis, place.columns[0], place.x_lines, xy[0])
        # The first strip begins with the interior, at its first cell.
        borders = self.y_axis.borders(place.rows[0], self.y_axis.lines_per_stride, list(place.y_lines))
        y_borders = [border - (xy[1] + self.y_axis.low) for border in borders]
        words = bitmap.num_words(self.x_axis.window)
        # One lane per cell row, one step per cell column.
        cell_rows = jax.lax.dynamic_slice_in_dim(mask, place.rows[0], self.y_axis.window_cells, axis=0)
        unseen = ~self._bits_from(cell_rows.T, place.columns[0])
        fresh_rows = jnp.zeros((self.y_axis.window_cells, words), jnp.uint32)
        left = bitmap.below(x_borders[0], words)
        for c in range(self.x_axis.window_cells):
            right = bitmap.below(x_borders[c + 1], words)
            bit = (unseen >> jnp.uint32(c)) & jnp.uint32(1)
            fresh_rows = fresh_rows | ((jnp.uint32(0) - bit)[:, None] & (right & ~left))
            left = right
        return Look(fresh_rows, tuple(y_borders), self._area(fresh_rows, y_borders))

    @staticmethod
    def _borders(
        axis: Axis, first: jax.Array, lines: tuple[jax.Array, ...], corner: jax.Array
    ) -> list[jax.Array]:
        """Where the cells from ``first`` on begin, from the window's corner; past its interior, its end."""
        # The first cell begins at the interior's near side, so that only the far side needs a clamp.
        borders = axis.borders(first, axis.window_cells + 1, list(lines))
        return [jnp.minimum(border - corner, axis.window - axis.high) for border in borders]

    def strips(self, look: Look) -> list[tuple[slice, jax.Array]]:
        pitch = self.y_axis.lines_per_stride
        strips = []
        for number, rows in enumerate(self._strip_rows()):
            row = jnp.arange(rows.stop - rows.start, dtype=jnp.int32)
            cells = look.rows[number * pitch : (number + 1) * pitch]
            fresh = jnp.broadcast_to(cells[0][:, None], (cells.shape[1], len(row)))
            for k in range(1, pitch):
                fresh = jnp.where(row >= look.borders[k], cells[k][:, None], fresh)
            strips.append((rows, fresh))
        return strips

    def _strip_rows(self) -> list[slice]:
        # Lines repeat with the stride: cut the interior into strips of ``stride`` rows, and all have the same
        # borders, so that a pixel is compared with the few of one strip.
        low, end = self.y_axis.low, self.y_axis.window - self.y_axis.high
        return [
            slice(first, min(first + self.y_axis.stride, end))
            for first in range(low, end, self.y_axis.stride)
        ]

    def _area(self, fresh_rows: jax.Array, borders: list[jax.Array]) -> jax.Array:
        """Fresh pixels, from the cells' widths and heights: far fewer words than the pixels."""
        pitch = self.y_axis.lines_per_stride
        widths = bitmap.popcount(fresh_rows, axis=-1)
        area = jnp.zeros((), jnp.int32)
        for number, rows in enumerate(self._strip_rows()):
            length = jnp.asarray(rows.stop - rows.start, jnp.int32)
            edges = [jnp.zeros((), jnp.int32), *(jnp.minimum(b, length) for b in borders[1:pitch]), length]
            for k in range(pitch):
                area = area + widths[number * pitch + k] * (edges[k + 1] - edges[k])
        return area

    def first_look(self, place: Place, xy: jax.Array) -> jax.Array:
        number = jnp.arange(self.shape[0], dtype=jnp.int32)[:, None]
        inside = (number >= place.rows[0]) & (number < place.rows[1])
        return jnp.where(inside, bitmap.span(*place.columns, self.shape[1]), jnp.uint32(0))

    def pixels(self, mask: jax.Array, start_xy: jax.Array, one: jax.Array) -> jax.Array:
        def columns() -> tuple[jax.Array, list[jax.Array]]:
            return self._expand_columns(mask, start_xy[0]), self.y_axis.lines(start_xy[1])

        return self._expand_rows(*materialised(columns, one))

    def _expand_columns(self, mask: jax.Array, start_x: jax.Array) -> jax.Array:
        """Pixel columns for cell columns: uint32 (canvas words, cell rows)."""
        axis = self.x_axis
        lines = axis.lines(start_x)
        # A word of 32 pixels meets at most this many cells.
        count = len(lines) * -(-bitmap.WORD_BITS // axis.stride) + 1
        left = bitmap.WORD_BITS * jnp.arange(bitmap.num_words(axis.length), dtype=jnp.int32)
        first = axis.cell(left, lines)
        end = jnp.minimum(axis.length - left, bitmap.WORD_BITS)
        borders = [jnp.clip(border - left, 0, end) for border in axis.borders(first, count + 1, lines)]
        bits = self._bits_from(mask.T[:, None, :], first[:, None])
        columns = jnp.zeros(bits.shape, jnp.uint32)
        for c in range(count):
            select = jnp.uint32(0) - ((bits >> jnp.uint32(c)) & jnp.uint32(1))
            cell = _below_word(borders[c + 1]) & ~_below_word(borders[c])
            columns = columns | (select & cell[:, None])
        return columns

    def _expand_rows(self, columns: jax.Array, lines: list[jax.Array]) -> jax.Array:
        """Pixel rows for cell rows: uint32 (canvas words, canvas height)."""
        axis = self.y_axis
        blocks = -(-axis.length // axis.stride)
        row = jnp.arange(axis.stride, dtype=jnp.int32)
        pitch = len(lines)

        def cells(number: int) -> jax.Array:
            return columns[:, number : number + pitch * (blocks - 1) + 1 : pitch, None]

        # Cell number ``pitch * block - first`` ends where the block's first line lies.
        known = 1 if axis.starts_at_zero else 0
        pixels = jnp.broadcast_to(cells(0), (columns.shape[0], blocks, axis.stride))
        for k in range(known, pitch):
            pixels = jnp.where(row >= lines[k], cells(k + 1 - known), pixels)
        return pixels.reshape(columns.shape[0], blocks * axis.stride)[:, : axis.length]

    def contains_corner(self, corners: jax.Array, place: Place, xy: jax.Array) -> jax.Array:
        # A corner lies on a line of its own, so that different corners are the starts of different cells.
        words = jax.lax.dynamic_index_in_dim(corners, place.rows[0], keepdims=False)
        return _bit(words, place.columns[0])

    def add_corner(self, corners: jax.Array, place: Place, xy: jax.Array) -> jax.Array:
        here = jnp.arange(corners.shape[0], dtype=jnp.int32)[:, None] == place.rows[0]
        bit = bitmap.span(place.columns[0], place.columns[0] + 1, corners.shape[1])
        return corners | jnp.where(here, bit, jnp.uint32(0))

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

    def place(self, start_xy: jax.Array, xy: jax.Array) -> Place:
        return Place((), (), (xy[0], xy[0] + self.x_axis.window), (xy[1], xy[1] + self.y_axis.window))

    def look(self, mask: jax.Array, place: Place, xy: jax.Array) -> Look:
        window = self.x_axis.window
        fresh = self.interior & ~bitmap.crop(mask, xy, window, window)
        return Look(fresh, (), bitmap.popcount(fresh))

    def strips(self, look: Look) -> list[tuple[slice, jax.Array]]:
        return [(slice(0, self.y_axis.window), look.rows)]

    def first_look(self, place: Place, xy: jax.Array) -> jax.Array:
        return self._rectangle(xy, self.shape, self.x_axis.low, self.x_axis.window - self.x_axis.high)

    def pixels(self, mask: jax.Array, start_xy: jax.Array, one: jax.Array) -> jax.Array:
        return mask

    def contains_corner(self, corners: jax.Array, place: Place, xy: jax.Array) -> jax.Array:
        return _bit(jax.lax.dynamic_index_in_dim(corners, xy[1], axis=1, keepdims=False), xy[0])

    def add_corner(self, corners: jax.Array, place: Place, xy: jax.Array) -> jax.Array:
        return corners | self._rectangle(xy, self.shape, 0, 1)

    @staticmethod
    def _rectangle(corner: jax.Array, shape: tuple[int, int], low: int, high: int) -> jax.Array:
        """The bitmap of the square whose sides run from corner + low to corner + high (exclusive)."""
        words, height = shape
        columns = bitmap.span(corner[0] + low, corner[0] + high, words)[:, None]
        row = jnp.arange(height, dtype=jnp.int32)
        inside = (row >= corner[1] + low) & (row < corner[1] + high)
        return jnp.where(inside, columns, jnp.uint32(0))


def _bit(words: jax.Array, column: jax.Array) -> jax.Array:
    """Whether bit ``column`` of uint32 (words,) is set, bool ()."""
    number, bit = bitmap.word_and_bit(column)
    found: jax.Array = ((words[number] >> bit) & jnp.uint32(1)) == 1
    return found


def _interior(axis: Axis, corner: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The positions from which on, and up to which, pixels of a window count."""
    return corner + axis.low, corner + (axis.window - axis.high)


def _below_word(limit: jax.Array) -> jax.Array:
    """The bits of columns < ``limit`` (int32, >= 0) in one word each, uint32."""
    return ~jax.lax.shift_left(jnp.full(limit.shape, 0xFFFFFFFF, jnp.uint32), limit.astype(jnp.uint32))
