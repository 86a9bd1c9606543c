"""The published canvas pipeline in integer arithmetic, bit-exact to Pillow.

The pipeline (arXiv 2608.31022): 28 x 28 digits side by side, inverted, enlarged eight times with Pillow's bilinear
filter, 255 (background) where the value is above 200, else 0 (stroke). At whole factors that are powers of
two Pillow's fixed-point weights are exact fractions, so that two integer passes, horizontal then vertical
and each rounded to eight bits, give Pillow's bytes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.env import bitmap

NATIVE = 28
THRESHOLD = 200


def _enlarge(values: jax.Array, factor: int) -> jax.Array:
    """One bilinear pass of int32 (..., size): (..., size, factor), rounded half up, edges clamped."""
    # The centre of output pixel k of a cell lies (2k + 1 - factor) / (2 factor) cells from the cell's centre.
    phase = np.arange(factor).reshape((1,) * values.ndim + (factor,))
    far = np.abs(2 * phase + 1 - factor).astype(np.int32)
    before = jnp.concatenate([values[..., :1], values[..., :-1]], axis=-1)[..., None]
    after = jnp.concatenate([values[..., 1:], values[..., -1:]], axis=-1)[..., None]
    neighbour = jnp.where(phase < factor // 2, before, after)
    mixed = values[..., None] * (2 * factor - far) + neighbour * far
    # Values are not negative, so that the shift is the division by 2 * factor.
    return (mixed + factor) >> (factor.bit_length())


def strokes(images: jax.Array, factor: int = 8) -> jax.Array:
    """Stroke pixels of the canvas of each image, bool (..., factor h, factor w).

    images: uint8 (..., h, w), ink 0..255; for several digits, already side by side. factor: a power of two.
    """
    if factor < 1 or factor & (factor - 1):
        raise ValueError(f"factor is {factor}; the integer pipeline is exact for powers of two only")
    enlarged = _enlarge_rows(_columns(images, factor), factor)
    return jnp.swapaxes(enlarged, -1, -2) <= THRESHOLD


def packed_strokes(images: jax.Array, factor: int = 8) -> jax.Array:
    """``bitmap.pack(strokes(images, factor))``, several times faster: uint32 (N, words, 28 factor).

    images: uint8 (N, 28, 28). factor: a power of two that makes the width whole words (8, 16 or 32).
    """
    # Laid out so that everything heavy is elementwise over contiguous rows: lane b holds the columns that
    # become bit b of some word, after the horizontal pass, with one clamped row at either end.
    columns = jnp.pad(jnp.swapaxes(images, -1, -2), ((0, 0), (1, 1), (1, 1)), mode="edge")
    inverted = jnp.int16(255) - columns.astype(jnp.int16)
    words, per_word, inner = (
        NATIVE * factor // bitmap.WORD_BITS,
        bitmap.WORD_BITS // factor,
        slice(1, NATIVE + 1),
    )
    offsets = [2 * phase + 1 - factor for phase in range(factor)]
    phases = []
    for offset in offsets:
        far, side = abs(offset), 0 if offset < 0 else 2
        mixed = (2 * factor - far) * inverted[:, inner] + far * inverted[:, side : side + NATIVE]
        wide = (mixed + jnp.int16(factor)) >> jnp.int16(factor.bit_length())
        phases.append(wide.reshape(-1, words, per_word, NATIVE + 2))
    lanes = jnp.moveaxis(jnp.stack(phases), 3, 0).reshape(bitmap.WORD_BITS, -1, words, NATIVE + 2)

    def rows(weight_and_side: tuple[jax.Array, jax.Array]) -> jax.Array:
        far, side = weight_and_side
        neighbours = jax.lax.dynamic_slice_in_dim(lanes, side, NATIVE, axis=-1)
        packed = jnp.zeros((), jnp.uint32)
        for bit in range(bitmap.WORD_BITS):
            mixed = (jnp.int16(2 * factor) - far) * lanes[bit, ..., inner] + far * neighbours[bit]
            # Rounding and comparing in one: mixed + factor < (THRESHOLD + 1) * 2 * factor.
            stroke = mixed < (THRESHOLD + 1) * 2 * factor - factor
            packed = packed | jnp.where(stroke, jnp.uint32(1 << bit), jnp.uint32(0))
        return packed

    fars = jnp.asarray([abs(offset) for offset in offsets], jnp.int16)
    sides = jnp.asarray([0 if offset < 0 else 2 for offset in offsets], jnp.int32)
    by_phase = jax.lax.map(rows, (fars, sides))
    return jnp.moveaxis(by_phase, 0, -1).reshape(images.shape[0], words, NATIVE * factor)


def _columns(images: jax.Array, factor: int) -> jax.Array:
    """The horizontal pass, columns first: uint8 (..., h, w) -> int32 (..., factor w, h), inverted."""
    if factor < 1 or factor & (factor - 1):
        raise ValueError(f"factor is {factor}; the integer pipeline is exact for powers of two only")
    inverted = 255 - images.astype(jnp.int32)
    wide = _enlarge(inverted, factor) if factor > 1 else inverted[..., None]
    return jnp.swapaxes(wide.reshape(*images.shape[:-1], images.shape[-1] * factor), -1, -2)


def _enlarge_rows(columns: jax.Array, factor: int) -> jax.Array:
    """The vertical pass along the last axis: int32 (..., h) -> int32 (..., factor h)."""
    if factor == 1:
        return columns
    return _enlarge(columns, factor).reshape(*columns.shape[:-1], columns.shape[-1] * factor)


def canvas(images: jax.Array, factor: int = 8) -> jax.Array:
    """The published canvas of digits side by side: uint8 (n, 28, 28) -> uint8 (28 f, 28 f n) of {0, 255}."""
    side_by_side = jnp.concatenate(list(images), axis=-1)
    return jnp.where(strokes(side_by_side, factor), 0, 255).astype(jnp.uint8)
