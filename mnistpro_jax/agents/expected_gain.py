"""What a window is expected to tell about the answer, from a few likely images: whole numbers throughout.

Measured in whole steps, so that all machines see the same gains (``agents.exact``): sums along a window's rows are
exact, and shortened to 1 / 256 nats before those along its columns.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from mnistpro_jax.agents import exact
from mnistpro_jax.agents.likelihood import TEMPLATE_FACTOR, log_odds

_BLOCK = 256  # images per block of the two-stage search in systematic_resample
_FULL = TEMPLATE_FACTOR**2  # a native pixel that is all stroke, or all seen
_PER_NAT = 128  # steps of log-odds: 28 * 15 canvas rows of 64 * 3.92 nats are within 2 ** 24 of them
_ROW_PER_NAT = (
    256  # the same of what a row of windows shows: 28 rows of 3.92 nats, and 28 * 15 canvas columns of it
)
_FRACTION_BITS = 24  # of the exponent of a weight


def gain_per_nat(particles: int) -> float:
    """Steps of ``expected_gain`` in a nat."""
    bits, _, fine = _resolution(particles)
    return particles * fine * 2.0**bits / math.log(2)


def expected_gain(
    templates: jax.Array,
    one_hot: jax.Array,
    rate: jax.Array,
    hidden: jax.Array,
    rows: jax.Array,
    columns: jax.Array,
    factor: int,
) -> jax.Array:
    """Expected drop of class entropy under K equally likely images, for every window: int32 (Y, X).

    In 1 / ``gain_per_nat(K)`` nats. templates: uint8 (K, h, w) counts. one_hot: float32 (K, C), their classes. rate:
    int32 (), halvings per nat in 2 ** -12. hidden: int32 (h, w), hidden canvas pixels of each native pixel. rows: int32
    (Y, h), columns: int32 (X, w), canvas pixels that a window shows. factor: static, canvas pixels per native pixel.
    """
    particles = templates.shape[0]
    # What is hidden of each native pixel, and how much of that is stroke where k is the truth: 0..64.
    cell = factor**2
    unseen = (hidden * _FULL + cell // 2) // cell
    strokes = (unseen[None] * templates.astype(jnp.int32) + _FULL // 2) // _FULL
    # Log-likelihood of hypothesis j where k is the truth, over what each window newly shows. Rows are contracted first:
    # the K x K product is then taken once per row of windows, not once per window.
    odds, background = log_odds(templates, _PER_NAT)
    by_row = exact.product("yr,krc,jrc->ycjk", rows, strokes, odds)
    for_all = exact.product("yr,rc,jrc->ycj", rows, unseen, background)
    by_row = exact.whole(by_row + for_all[..., None]) // (factor * _FULL * _PER_NAT // _ROW_PER_NAT)
    fits = exact.whole(exact.product("xc,ycjk->yxjk", columns, by_row))
    distance = jnp.max(fits, axis=2, keepdims=True) - fits
    per_step = (rate << (_FRACTION_BITS - exact.RATE_BITS)) // jnp.int32(_ROW_PER_NAT * factor)
    _, weight_bits, fine = _resolution(particles)
    weights = exact.halved(distance, jnp.maximum(per_step, 1), _FRACTION_BITS, weight_bits)
    classes = exact.whole(exact.product("yxjk,jc->yxkc", weights, one_hot))
    table = jnp.asarray(exact.log_table(particles << weight_bits)[0])

    def logs(numbers: jax.Array) -> jax.Array:
        return table.at[numbers].get(mode="promise_in_bounds")

    # Entropy of S_c / T is (T log T - sum S_c log S_c) / T; an answer is floored to a whole step.
    total = jnp.sum(classes, axis=-1, dtype=jnp.int32)
    after = (logs(total) - jnp.sum(logs(classes), axis=-1, dtype=jnp.int32)) // total
    counts = exact.whole(jnp.sum(one_hot, axis=0))
    before = logs(jnp.int32(particles)) - jnp.sum(logs(counts), dtype=jnp.int32)
    return jnp.int32(fine) * (before - jnp.sum(after, axis=-1, dtype=jnp.int32))


def _resolution(particles: int) -> tuple[int, int, int]:
    """(fraction bits of entropies, bits of a weight, factor of gains that makes their steps fine)."""
    weight_bits = max(6, min(10, 14 - math.ceil(math.log2(particles))))
    return exact.log_table(particles << weight_bits)[1], weight_bits, max(1, 256 // particles)


def systematic_resample(key: jax.Array, weights: jax.Array, count: int) -> jax.Array:
    """``count`` indices in proportion to the weights, evenly spaced along their sum: int32 (count,), rising.

    weights: int32 (N,), 0..2 ** 22, the largest at least ``count``. An image of share w is drawn floor(count w) or that
    plus one times (within 2 ** -22 where the sum passes 2 ** 31). Raises ValueError for a count above 2 ** 15.
    """
    if not 1 <= count <= 1 << 15:
        raise ValueError(f"{count} particles; expected 1 to {1 << 15}")
    # Two stages, blocks and then images of a block: a running sum over all N would cost more than reading.
    full = weights.shape[0] // _BLOCK
    blocks, rest = weights[: full * _BLOCK].reshape(full, _BLOCK), weights[full * _BLOCK :]
    sums = jnp.concatenate(  # at most 2 ** 30 each
        [jnp.sum(blocks, axis=-1, dtype=jnp.int32), jnp.sum(rest, dtype=jnp.int32)[None]]
    )
    # Blocks count in 2 ** shift, so that the whole sum stays below 2 ** 31.
    most = jnp.sum((sums >> 12) + 1, dtype=jnp.int32)
    shift = jnp.maximum(jnp.int32(32 - 19) - jax.lax.clz(most), 0)
    ends = jnp.cumsum(sums >> shift, dtype=jnp.int32)
    even, odd = ends[-1] // count, ends[-1] % count
    numbers = jnp.arange(count, dtype=jnp.int32)
    targets = numbers * even + (numbers * odd) // count + exact.draw(key, even)
    block = jnp.sum(ends[None, :] <= targets[:, None], axis=-1, dtype=jnp.int32)
    begin = jnp.where(block > 0, ends[block - 1], jnp.int32(0))
    members = block[:, None] * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)[None, :]
    inside = jnp.cumsum(weights.at[members].get(mode="fill", fill_value=0), axis=-1, dtype=jnp.int32)
    within = jnp.sum(inside <= ((targets - begin) << shift)[:, None], axis=-1, dtype=jnp.int32)
    return (block * _BLOCK + within).astype(jnp.int32)
