"""One-bit images packed in 32-bit words, word-column major.

A bitmap of height H and width W is uint32 (words, H) with words = ceil(W / 32): bit b (least significant
first) of word j in row y is the pixel (x = 32 j + b, y). Rows are the contiguous axis, so that the rows of a
window are one contiguous run per word column, which is what CPUs and GPUs gather and vectorise best. Bits
past the width are zero.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

WORD_BITS = 32
_FULL = 0xFFFFFFFF


def num_words(width: int) -> int:
    """Words that hold ``width`` pixels."""
    return -(-width // WORD_BITS)


def pack(bits: jax.Array) -> jax.Array:
    """Pack (..., H, W) of booleans or {0, 1} into uint32 (..., words, H)."""
    width = bits.shape[-1]
    words = num_words(width)
    padding = [(0, 0)] * (bits.ndim - 1) + [(0, words * WORD_BITS - width)]
    lanes = jnp.pad(bits.astype(jnp.uint32), padding).reshape(*bits.shape[:-1], words, WORD_BITS)
    bit = jnp.arange(WORD_BITS, dtype=jnp.uint32).reshape((1,) * bits.ndim + (WORD_BITS,))
    packed = jnp.sum(lanes << bit, axis=-1, dtype=jnp.uint32)
    return jnp.swapaxes(packed, -1, -2)


def pack_constant(bits: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """``pack`` of (H, W) booleans on the host, for constants of a program."""
    padding = num_words(bits.shape[1]) * WORD_BITS - bits.shape[1]
    octets = np.packbits(np.pad(bits, ((0, 0), (0, padding))), axis=1, bitorder="little")
    return np.ascontiguousarray(octets.view("<u4").T.astype(np.uint32))


def unpack(words: jax.Array, width: int) -> jax.Array:
    """Unpack uint32 (..., words, H) into uint8 (..., H, width), 1 = set."""
    # In bytes, so that a vector register holds 32 pixels rather than the 8 that words would give.
    octets = jax.lax.bitcast_convert_type(words, jnp.uint8)  # (..., words, H, 4)
    octets = jnp.swapaxes(octets, -3, -2)
    octets = octets.reshape(*octets.shape[:-2], octets.shape[-2] * 4, 1)
    wide = jnp.broadcast_to(octets, (*octets.shape[:-1], 8)).reshape(*octets.shape[:-2], octets.shape[-2] * 8)
    bits = (
        np.tile(1 << np.arange(8), octets.shape[-2]).astype(np.uint8).reshape((1,) * (wide.ndim - 1) + (-1,))
    )
    return ((wide & bits) != 0).astype(jnp.uint8)[..., :width]


def pool(words: jax.Array, width: int, factor: int) -> jax.Array:
    """Set pixels per ``factor`` x ``factor`` cell, uint8 (..., H / factor, width / factor); factor <= 15."""
    if factor == 8 and width % WORD_BITS == 0:
        # Bytes are the cells' rows: count bits in bytes, add eight rows; no byte overflows.
        counts = words - ((words >> jnp.uint32(1)) & jnp.uint32(0x55555555))
        counts = (counts & jnp.uint32(0x33333333)) + ((counts >> jnp.uint32(2)) & jnp.uint32(0x33333333))
        counts = (counts + (counts >> jnp.uint32(4))) & jnp.uint32(0x0F0F0F0F)
        rows = counts.reshape(*words.shape[:-1], words.shape[-1] // 8, 8)
        cells = jax.lax.bitcast_convert_type(jnp.sum(rows, axis=-1, dtype=jnp.uint32), jnp.uint8)
        cells = jnp.swapaxes(cells, -2, -3)
        return cells.reshape(*cells.shape[:-2], width // 8)
    pixels = unpack(words, width)
    cells = pixels.reshape(*pixels.shape[:-2], pixels.shape[-2] // factor, factor, width // factor, factor)
    return jnp.sum(cells, axis=(-3, -1), dtype=jnp.uint8)


def popcount(words: jax.Array, axis: int | tuple[int, ...] | None = None) -> jax.Array:
    """Number of set bits, summed over ``axis`` (all axes if None), int32."""
    return jnp.sum(jax.lax.population_count(words).astype(jnp.int32), axis=axis, dtype=jnp.int32)


def funnel(low: jax.Array, high: jax.Array, shift: jax.Array) -> jax.Array:
    """The 32 bits that start ``shift`` (0..31) bits into the 64-bit pair (low, high)."""
    # A shift by 32 is undefined, so the upper word is shifted in two parts.
    carried: jax.Array = (high << jnp.uint32(1)) << (jnp.uint32(31) - shift)
    return (low >> shift) | carried


def word_and_bit(column: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Word number, int32, and bit number, uint32, of a column >= 0."""
    return column >> jnp.int32(5), (column & jnp.int32(31)).astype(jnp.uint32)


def below(limit: jax.Array, words: int) -> jax.Array:
    """The bits of columns < ``limit`` (int32 (), any value) in a row of ``words`` words, uint32 (words,)."""
    # One array over the words: joining scalars would leave a branch in the middle of every fused loop.
    limits = limit - WORD_BITS * jnp.arange(words, dtype=jnp.int32)
    # lax shifts give 0 for shifts of 32 and more.
    return ~jax.lax.shift_left(
        jnp.full((words,), _FULL, jnp.uint32), jnp.maximum(limits, 0).astype(jnp.uint32)
    )


def span(start: jax.Array, stop: jax.Array, words: int) -> jax.Array:
    """The bits of columns start <= column < stop (int32, any values), uint32 (words,)."""
    return below(stop, words) & ~below(start, words)


def crop(words: jax.Array, xy: jax.Array, width: int, height: int) -> jax.Array:
    """The ``width`` x ``height`` region of uint32 (words, H) whose top-left corner is ``xy`` (x, y).

    Returns uint32 (ceil(width / 32), height). The region must lie inside the bitmap.
    """
    first, shift = word_and_bit(xy[0])
    columns = jnp.minimum(first + jnp.arange(num_words(width) + 1, dtype=jnp.int32), words.shape[0] - 1)
    gathered = jax.vmap(lambda column: jax.lax.dynamic_slice(words, (column, xy[1]), (1, height))[0])(columns)
    return trim(funnel(gathered[:-1], gathered[1:], shift), width)


def trim(words: jax.Array, width: int) -> jax.Array:
    """Clear the bits past ``width`` in the last word of uint32 (words, H)."""
    spare = words.shape[-2] * WORD_BITS - width
    if spare == 0:
        return words
    last = jnp.full((words.shape[-2], 1), _FULL, jnp.uint32).at[-1].set(jnp.uint32(_FULL >> spare))
    return words & last


def select_bit(word: jax.Array, rank: jax.Array) -> jax.Array:
    """Index (0..31) of the set bit number ``rank`` (0-based, from bit 0 up) of a uint32 scalar.

    ``rank`` must be smaller than the number of set bits.
    """
    position = jnp.zeros_like(rank)
    for width in (16, 8, 4, 2, 1):
        chunk = (word >> position.astype(jnp.uint32)) & jnp.uint32((1 << width) - 1)
        count = jax.lax.population_count(chunk).astype(rank.dtype)
        upper = rank >= count
        position = position + jnp.where(upper, width, 0).astype(rank.dtype)
        rank = rank - jnp.where(upper, count, 0).astype(rank.dtype)
    return position
