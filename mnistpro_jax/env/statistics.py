"""The counts of an episode, from its state: what was decided, and how much of the canvas was seen."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.types import Ending, EpisodeStatistics, State


def episode_statistics(state: State, bank: Bank, seen: jax.Array, readable: jax.Array) -> EpisodeStatistics:
    """Exact counts of the episode so far.

    seen, readable: the pixels inside its windows, and inside them less their outline, bitmaps uint32 (words, height).
    """
    label, canvas = bank.label(state.scene), bank.canvas(state.scene)
    digits_correct = state.answer == label
    # Every step but a last answer or invalid action was a move.
    still = (state.ending == Ending.ANSWERED) | (state.ending == Ending.INVALID_ACTION)
    strokes, strokes_readable = (
        strokes_by_part(canvas & m, bank.width, bank.num_digits) for m in (seen, readable)
    )
    return EpisodeStatistics(
        steps=state.step,
        moves=state.step - still.astype(jnp.int32),
        revisits=state.revisits,
        ending=state.ending,
        answer=state.answer,
        label=label,
        correct=jnp.all(digits_correct),
        digits_correct=digits_correct,
        stroke_total=bank.stroke_total(state.scene),
        stroke_seen=strokes,
        stroke_seen_readable=strokes_readable,
        area_seen=_set_bits(seen),
        area_seen_readable=_set_bits(readable),
        episode_return=state.episode_return,
    )


def strokes_by_part(strokes: jax.Array, width: int, parts: int) -> jax.Array:
    """Set pixels of a bitmap, uint32 (words, height), in each part of equal width, int32 (parts,). width: pixels."""
    size = width // parts
    counts = []
    for part in range(parts):
        begin, end = part * size, (part + 1) * size
        own = strokes[begin // bitmap.WORD_BITS : bitmap.num_words(end)]
        if begin % bitmap.WORD_BITS or end % bitmap.WORD_BITS:
            columns = np.zeros((1, width), np.bool_)
            columns[:, begin:end] = True
            own = own & bitmap.pack_constant(columns)[begin // bitmap.WORD_BITS : bitmap.num_words(end)]
        counts.append(_set_bits(own))
    return jnp.stack(counts)


def _set_bits(words: jax.Array) -> jax.Array:
    """``bitmap.popcount`` of all words, int32 ()."""
    # Over the words first: elementwise along the rows, which compilers vectorise.
    by_row = functools.reduce(jnp.add, [jax.lax.population_count(column) for column in words])
    return jnp.sum(by_row.astype(jnp.int32), dtype=jnp.int32)
