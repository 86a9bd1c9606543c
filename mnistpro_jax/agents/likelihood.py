"""What evidence is multiplied by: Bernoulli terms of template images in whole numbers, and directions that carry them.

A template says of every native pixel how likely a stroke is there; each revealed pixel then adds a term to its
log-likelihood. All is counted in whole steps of a nat, so that the numbers are the same on every machine
(``agents.exact``, ``agents.directions``).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.agents.directions import principal_directions
from mnistpro_jax.agents.exact import EXACT
from mnistpro_jax.env import bitmap, pipeline

FLOOR = 0.02  # no template is surer than this of any pixel
BLUR = (85, 342, 85)  # of 512: a Gaussian of 0.6 native pixels: strokes are displaced by about that much
TEMPLATE_FACTOR = 8  # templates are counts over 8 x 8 published pixels whatever the canvas size
PER_NAT = 32  # steps of the bank's terms: all fit in 8 bits
_LEVELS = 1024  # of a blurred share
_CHUNK = 1024
_BASIS_IMAGES = 12_000  # images that the directions are found from


def native_counts(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Stroke pixels of the published canvas in each native pixel, 0..64: uint8 (N, 28, 28) for the same."""
    return _in_chunks(_native_counts, images)


@jax.jit
def _native_counts(images: jax.Array) -> jax.Array:
    words = pipeline.packed_strokes(images, TEMPLATE_FACTOR)  # (N, words, 224)
    per_word = bitmap.WORD_BITS // TEMPLATE_FACTOR
    octets = [(words >> jnp.uint32(TEMPLATE_FACTOR * k)) & jnp.uint32(0xFF) for k in range(per_word)]
    bits = jax.lax.population_count(jnp.stack(octets, axis=2))  # (N, words, per word, 224)
    cells = bits.reshape(len(images), pipeline.NATIVE, pipeline.NATIVE, TEMPLATE_FACTOR)
    return cells.sum(-1, dtype=jnp.uint32).swapaxes(-1, -2).astype(jnp.uint8)


def log_odds(templates: jax.Array, per_nat: int = PER_NAT) -> tuple[jax.Array, jax.Array]:
    """Bernoulli terms of templates: counts (..., h, w) -> int32 (..., h, w) twice, in steps of 1 / per_nat nats.

    A revealed share r with stroke share s of a native pixel adds s * first + r * second to the log-likelihood. The
    first is within +-3.9 nats, the second between -3.92 and -0.02.
    """
    levels = _blurred(templates)
    first, second = (jnp.asarray(table) for table in _term_tables(per_nat))
    return (
        first.at[levels].get(mode="promise_in_bounds"),
        second.at[levels].get(mode="promise_in_bounds"),
    )


def _blurred(templates: jax.Array) -> jax.Array:
    """Blurred shares as levels, int32, 0..1024: whole sums of at most 64 * 512 ** 2."""
    sums = templates.astype(jnp.int32)
    for axis in (-1, -2):
        padding = [(0, 0)] * sums.ndim
        padding[axis] = (1, 1)
        padded = jnp.pad(sums, padding)
        size = sums.shape[axis]
        parts = [
            jnp.int32(tap) * jax.lax.slice_in_dim(padded, k, k + size, axis=axis % sums.ndim)
            for k, tap in enumerate(BLUR)
        ]
        sums = functools.reduce(jnp.add, parts)
    step = TEMPLATE_FACTOR**2 * sum(BLUR) ** 2 // _LEVELS
    return (sums + step // 2) // step


@functools.cache
def _term_tables(per_nat: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    stroke = [FLOOR + (1 - 2 * FLOOR) * level / _LEVELS for level in range(_LEVELS + 1)]
    first = [round(per_nat * (math.log(p) - math.log1p(-p))) for p in stroke]
    second = [round(per_nat * math.log1p(-p)) for p in stroke]
    return np.asarray(first, np.int32), np.asarray(second, np.int32)


def factorise(
    templates: NDArray[np.uint8], rank: int, grid: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Low-rank factors (2 P, R) and (R, N) of the bank's log-likelihood terms, less their mean: int32.

    The directions are those of ``principal_directions``, exact for rank 2 P, found from an even sample of the bank; a
    unit is ``grid`` long. The second factor is the exact product of the terms, in ``PER_NAT`` steps, with them
    as they were rounded. The mean over the bank adds the same to every image's score: the softmax does not see it.
    """
    sample = _in_chunks(_terms, templates[:: -(-len(templates) // _BASIS_IMAGES)])
    basis = principal_directions(sample, rank, grid)
    mean = (sample.sum(axis=0, dtype=np.int64) // len(sample)).astype(np.int32)
    codes = np.empty((basis.shape[1], len(templates)), np.int32)
    longest = math.sqrt(float(np.square(basis, dtype=np.int64).sum(axis=0).max()))
    for start in range(0, len(templates), _CHUNK):  # the terms of the whole bank would take 94 MB
        chunk = _in_chunks(_terms, templates[start : start + _CHUNK]) - mean
        largest = math.sqrt(float(np.square(chunk, dtype=np.int64).sum(axis=1).max()))
        # Both are exact; no partial sum passes the product of the lengths.
        exact = np.float32 if longest * largest < EXACT else np.float64
        codes[:, start : start + _CHUNK] = basis.T.astype(exact) @ chunk.T.astype(exact)
    return basis, codes


@jax.jit
def _terms(templates: jax.Array) -> jax.Array:
    """What evidence is multiplied by: counts (N, h, w) -> int8 (N, 2 P), in ``PER_NAT`` steps."""
    parts = [part.reshape(*part.shape[:-2], -1) for part in log_odds(templates)]
    return jnp.concatenate(parts, axis=-1).astype(jnp.int8)


def _in_chunks(function: Callable[[jax.Array], jax.Array], images: NDArray[np.uint8]) -> NDArray[Any]:
    """A function of many images, a fixed number at a time: bounded memory, and one compilation."""
    parts = []
    for start in range(0, len(images), _CHUNK):
        chunk = images[start : start + _CHUNK]
        padded = np.pad(chunk, ((0, _CHUNK - len(chunk)), (0, 0), (0, 0)))
        parts.append(np.asarray(function(jnp.asarray(padded)))[: len(chunk)])
    return np.concatenate(parts)
