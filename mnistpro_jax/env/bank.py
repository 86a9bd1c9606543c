"""A bank of bit-packed scenes: the data that an environment shows, as one pytree.

A scene is one or more *tiles* side by side; its answer is the tiles' answers in order. Digits are tiles of
one answer each, so that 10,000 digits make 10^8 pairs without storing one; a world whose scenes are whole
pictures has one tile a scene. The environment knows this file and nothing of where tiles come from.

The bank travels in the environment's params, an argument of every jitted function: a bank that a function
closes over is compiled into it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.compile_hints import materialised
from mnistpro_jax.env.content import content_hash, same_content
from mnistpro_jax.env.positions import div_rem
from mnistpro_jax.env.seams import SeamEdges, SeamTable
from mnistpro_jax.env.types import pytree, static_field

Found = tuple[jax.Array, jax.Array, jax.Array]

Counts = TypeVar("Counts", jax.Array, NDArray[np.int32])

BLOCK = 16  # rows per entry of Bank.block_ends
_UNROLL = 32  # words of a row that are looked through in code without a loop


@pytree
class Episodes:
    """A fixed list of episodes. scenes: int32 (E, m), tile numbers. starts: int32 (E, 2) or None."""

    scenes: jax.Array
    starts: jax.Array | None


class Origin(Protocol):
    """How a bank is made again, so that a pickle need not hold its arrays."""

    def reduced(self, bank: Bank) -> tuple[Callable[..., Bank], tuple[Any, ...]]:
        """What ``__reduce_ex__`` returns: a function, and the arguments that make the bank again."""
        ...


@pytree
class Bank:
    """Tiles, their answers, and how scenes are made of them.

    tiles: uint32 (T, words + 1, H), stroke bitmaps (``bitmap``) and one empty word, so that the words around any
    window can be read at once. row_ends: int32 (T, H), stroke pixels in the rows
    up to and including each; block_ends: int32 (T, blocks), the same at the end of every ``BLOCK`` rows.
    stroke_totals: int32 (T, a), stroke pixels per answer part (the tile cut into a
    parts of equal width). answers: int32 (T, a). indices: int32 (T, a), where the parts came from in their data
    set. seams: how touching tiles change each other, None where they do not. episodes: None to draw scenes.
    tile_width: pixels. tiles_per_scene: m. num_classes: answers are in [0, num_classes). native_factor: canvas
    pixels per native pixel, 0 where there is no native resolution. origin: how to make it again; None where that is not
    known. Known of the very object that was built alone: whatever JAX makes of a bank has none.
    """

    tiles: jax.Array
    row_ends: jax.Array
    block_ends: jax.Array
    stroke_totals: jax.Array
    answers: jax.Array
    indices: jax.Array
    seams: SeamTable | SeamEdges | None
    episodes: Episodes | None
    tile_width: int = static_field()
    tiles_per_scene: int = static_field()
    num_classes: int = static_field()
    native_factor: int = static_field()
    origin: Origin | None = dataclasses.field(default=None, init=False, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        """Equal where all arrays are; NotImplemented for anything but a bank."""
        return same_content(self, other) if isinstance(other, Bank) else NotImplemented

    def __hash__(self) -> int:
        return content_hash(self)

    def __copy__(self) -> Bank:
        """Itself: nothing in it can change, and it may fill hundreds of megabytes."""
        return self

    def __deepcopy__(self, memo: Any) -> Bank:
        """As ``__copy__``."""
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return super().__reduce_ex__(protocol) if self.origin is None else self.origin.reduced(self)

    @property
    def height(self) -> int:
        """Canvas height in pixels."""
        return int(self.tiles.shape[-1])

    @property
    def width(self) -> int:
        """Canvas width in pixels."""
        return self.tile_width * self.tiles_per_scene

    @property
    def num_digits(self) -> int:
        """Parts of a scene's answer."""
        return int(self.answers.shape[-1]) * self.tiles_per_scene

    @property
    def num_tiles(self) -> int:
        """Tiles in the bank."""
        return int(self.tiles.shape[0])

    @property
    def _words(self) -> int:
        """Words of a tile's row."""
        return int(self.tiles.shape[1]) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self))

    def draw(self, bits: jax.Array) -> tuple[jax.Array, jax.Array]:
        """A random scene from uint32 (m,) random bits: (int32 (m,) tile numbers, int32 () episode number).

        With a list of episodes, one of them; otherwise independent uniform tiles, and episode number -1.
        """
        if self.episodes is None:
            return scale(bits, jnp.asarray(self.num_tiles, jnp.int32)), jnp.asarray(-1, jnp.int32)
        episode = scale(bits[0], jnp.asarray(self.episodes.scenes.shape[0], jnp.int32))
        return self.episodes.scenes[episode], episode

    def label(self, scene: jax.Array) -> jax.Array:
        """The right answer, int32 (n,)."""
        return self.answers[scene].reshape(self.num_digits)

    def source_indices(self, scene: jax.Array) -> jax.Array:
        """Where the parts of the scene came from in their data set, int32 (n,)."""
        return self.indices[scene].reshape(self.num_digits)

    def stroke_total(self, scene: jax.Array) -> jax.Array:
        """Stroke pixels per part of the exact canvas, int32 (n,)."""
        totals = self.stroke_totals[scene].reshape(self.num_digits)
        if self.seams is None:
            return totals
        # Seams exist between tiles of one part each.
        gains = jax.vmap(self.seams.stroke_gain)(scene[:-1], scene[1:])
        return totals.at[:-1].add(gains[:, 0]).at[1:].add(gains[:, 1])

    def canvas(self, scene: jax.Array) -> jax.Array:
        """The whole stroke bitmap, uint32 (m words, H)."""
        return self.rows(scene, jnp.zeros((), jnp.int32), self.height)

    def rows(self, scene: jax.Array, y: jax.Array, height: int) -> jax.Array:
        """Rows y to y + height of the exact canvas, uint32 (m words, height)."""

        def of_tile(tile: jax.Array) -> jax.Array:
            first_word = jnp.zeros((), jnp.int32)
            return jax.lax.dynamic_slice(self.tiles, (tile, first_word, y), (1, self._words, height))[0]

        words = jax.vmap(of_tile)(scene)
        if self.seams is not None:
            # Each strip lies half in its left tile's last word, half in its right tile's first.
            seam_rows = functools.partial(self.seams.rows, y=y, height=height)
            strips = jax.vmap(seam_rows)(scene[:-1], scene[1:])
            half = self.seams.factor // 2
            ends, begins = np.zeros((2, *words.shape[:2], 1), np.bool_)
            ends[:-1, -1], begins[1:, 0] = True, True
            upper = jnp.uint32(bitmap.WORD_BITS - half)
            left = jnp.pad(strips << upper, ((0, 1), (0, 0)))[:, None, :]
            right = jnp.pad(strips >> jnp.uint32(half), ((1, 0), (0, 0)))[:, None, :]
            below, above = (jnp.uint32(1) << upper) - jnp.uint32(1), ~jnp.uint32((1 << half) - 1)
            words = jnp.where(ends, (words & below) | left, words)
            words = jnp.where(begins, (words & above) | right, words)
        return words.reshape(-1, height)

    def crop(self, scene: jax.Array, xy: jax.Array, window: int) -> jax.Array:
        """The window whose corner is ``xy``, a bitmap uint32 (ceil(window / 32), window).

        The window must lie inside the canvas.
        """
        words = self._crop_tiles(scene, xy, window)
        if self.seams is None:
            return words
        factor, half = self.seams.factor, self.seams.factor // 2
        joints = self.tiles_per_scene - 1
        # The first seam that ends right of the window's left side, and as many more as a window can meet.
        first = div_rem(jnp.maximum(xy[0] - half, 0), self.tile_width)[0] + 1
        for step in range(min(joints, (window + factor - 2) // self.tile_width + 1)):
            k = jnp.minimum(first + step, joints)
            strip = self.seams.rows(scene[k - 1], scene[k], xy[1], window)
            column = k * self.tile_width - half - xy[0]
            covered = bitmap.span(column, column + factor, words.shape[0])[:, None]
            words = (words & ~covered) | (_place(strip, column, words.shape[0]) & covered)
        return bitmap.trim(words, window)

    def _crop_tiles(self, scene: jax.Array, xy: jax.Array, height: int) -> jax.Array:
        count = bitmap.num_words(height) + 1
        first, shift = bitmap.word_and_bit(xy[0])
        if self.tiles_per_scene == 1:
            gathered = jax.lax.dynamic_slice(self.tiles, (scene[0], first, xy[1]), (1, count, height))[0]
            return bitmap.trim(bitmap.funnel(gathered[:-1], gathered[1:], shift), height)
        # The last word is needed only where the shift is not zero, and then it exists.
        last = self._words * self.tiles_per_scene - 1
        columns = jnp.minimum(first + jnp.arange(count, dtype=jnp.int32), last)
        position, columns = div_rem(columns, self._words)

        def column_rows(tile: jax.Array, column: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice(self.tiles, (tile, column, xy[1]), (1, 1, height))[0, 0]

        gathered = jax.vmap(column_rows)(scene[position], columns)
        return bitmap.trim(bitmap.funnel(gathered[:-1], gathered[1:], shift), height)

    def stroke_pixel(self, scene: jax.Array, bits: jax.Array, one: jax.Array) -> tuple[jax.Array, jax.Array]:
        """A uniformly random stroke pixel: (int32 (2,) its (x, y), bool () whether the scene has any).

        bits: uint32 (), random. The pixel is number ``bits * total / 2^32`` in row-major order. one: see
        ``compile_hints.materialised``.
        """
        # Two contiguous look-ups find the row: the block of rows by the block ends, then the row in it. What is looked
        # up lies in memory before it is used: each use would gather it again.
        zero = jnp.zeros((), jnp.int32)
        blocks = materialised(lambda: self._counts(scene, zero, self.block_ends.shape[1], blocks=True), one)

        def find_block() -> tuple[jax.Array, jax.Array, jax.Array]:
            rank = scale(bits, blocks[-1])
            passed = blocks <= rank
            block = jnp.minimum(jnp.sum(passed, dtype=jnp.int32), blocks.shape[0] - 1)
            # The last block may be short: then its window of rows reaches back into the block before.
            first = jnp.minimum(BLOCK * block, max(0, self.height - BLOCK))
            return rank, first, jnp.max(jnp.where(passed, blocks, 0))

        rank, first, before_block = materialised(find_block, one)
        rows = materialised(lambda: self._counts(scene, first, min(BLOCK, self.height), blocks=False), one)

        def find_row() -> tuple[jax.Array, jax.Array]:
            passed = rows <= rank
            y = jnp.minimum(first + jnp.sum(passed, dtype=jnp.int32), self.height - 1)
            return y, rank - jnp.maximum(before_block, jnp.max(jnp.where(passed, rows, 0)))

        y, rank_in_row = materialised(find_row, one)
        words = materialised(lambda: self.rows(scene, y, 1)[:, 0], one)

        def next_word(word: Any, found: Found) -> Found:
            number, chosen, rank = found
            count = jax.lax.population_count(chosen).astype(jnp.int32)
            later = (number == word - 1) & (rank >= count)
            rank = rank - jnp.where(later, count, 0)
            return jnp.where(later, word, number), jnp.where(later, words[word], chosen), rank

        found = (zero, words[0], rank_in_row)
        if words.shape[0] <= _UNROLL:
            for word in range(1, words.shape[0]):
                found = next_word(word, found)
        else:
            found = jax.lax.fori_loop(1, words.shape[0], next_word, found)
        number, chosen, rank_in_row = found
        x = bitmap.WORD_BITS * number + bitmap.select_bit(chosen, rank_in_row)
        return jnp.stack([x, y]), blocks[-1] > 0

    def _counts(self, scene: jax.Array, first: jax.Array, count: int, *, blocks: bool) -> jax.Array:
        """Running stroke counts of the exact canvas at rows (or block ends) first, first + 1, ...: (count,)."""
        table = self.block_ends if blocks else self.row_ends

        def of_tile(tile: jax.Array) -> jax.Array:
            return jax.lax.dynamic_slice(table, (tile, first), (1, count))[0]

        counts = jnp.sum(jax.vmap(of_tile)(scene), axis=0, dtype=jnp.int32)
        if self.seams is not None:
            by_seam = jax.vmap(self.seams.counts)(scene[:-1], scene[1:])
            gained = jnp.sum(by_seam, axis=0, dtype=jnp.int32)
            gained = block_ends(gained) if blocks else jax.lax.dynamic_slice_in_dim(gained, first, count)
            counts = counts + gained
        return counts


def block_ends(row_ends: Counts) -> Counts:
    """Entries of (..., H) running counts at the end of every ``BLOCK`` rows, the last row included."""
    height = row_ends.shape[-1]
    ends = np.array([min(end, height) - 1 for end in range(BLOCK, height + BLOCK, BLOCK)], np.int32)
    return row_ends[..., ends]


def scale(bits: jax.Array, limit: jax.Array) -> jax.Array:
    """floor(bits * limit / 2^32): a whole number in [0, limit) from 32 random bits; limit < 2^31.

    Without 64-bit integers: the product is formed in halves. The bias is at most limit / 2^32.
    """
    limit = limit.astype(jnp.uint32)
    sixteen, low = jnp.uint32(16), jnp.uint32(0xFFFF)
    high_bits, low_bits = bits >> sixteen, bits & low
    high_limit, low_limit = limit >> sixteen, limit & low
    lowest = low_bits * low_limit
    middle = high_bits * low_limit + (lowest >> sixteen)
    other = low_bits * high_limit + (middle & low)
    product: jax.Array = high_bits * high_limit + (middle >> sixteen) + (other >> sixteen)
    return product.astype(jnp.int32)


def _place(strip: jax.Array, column: jax.Array, words: int) -> jax.Array:
    """uint32 (rows,) strips of bits moved to start at ``column`` (-31..32 words) of (words, rows)."""
    placed = []
    for word in range(words):
        shift = column - bitmap.WORD_BITS * word
        left = strip << jnp.clip(shift, 0, 31).astype(jnp.uint32)
        right = strip >> jnp.clip(-shift, 0, 31).astype(jnp.uint32)
        placed.append(jnp.where(shift >= 0, left, right))
    return jnp.stack(placed)
