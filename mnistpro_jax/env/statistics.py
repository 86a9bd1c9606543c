"""The counts of an episode, from its state: what was decided, and how much of the canvas was seen."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.env import bitmap
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.compile_hints import materialised
from mnistpro_jax.env.positions import Positions, Seen
from mnistpro_jax.env.types import Ending, EpisodeStatistics, State


def episode_statistics(
    state: State, bank: Bank, positions: Positions, seen: Seen, readable: Seen, one: jax.Array
) -> EpisodeStatistics:
    """Exact counts of the episode so far. seen, readable: its windows, and these less their outline."""
    label, canvas = bank.label(state.scene), bank.canvas(state.scene)
    digits_correct = state.answer == label
    # Every step but a last answer or invalid action was a move.
    still = (state.ending == Ending.ANSWERED) | (state.ending == Ending.INVALID_ACTION)
    # By row of a block first, which compilers vectorise; as one sum they would not.
    by_row = materialised(
        lambda: [
            strokes_by_row(positions.within(canvas, what), bank.width, bank.num_digits)
            for what in (seen, readable)
        ],
        one,
    )
    strokes, strokes_readable = (jnp.sum(rows, axis=-1, dtype=jnp.int32) for rows in by_row)
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
        area_seen=positions.area(seen),
        area_seen_readable=positions.area(readable),
        episode_return=state.episode_return,
    )


def strokes_by_row(strokes: jax.Array, width: int, parts: int) -> jax.Array:
    """Set pixels in each part of equal width, summed over blocks: int32 (parts, rows).

    strokes: uint32 (words, blocks, rows). width: pixels.
    """
    size = width // parts
    if size % bitmap.WORD_BITS == 0:
        by_part = strokes.reshape(parts, size // bitmap.WORD_BITS, *strokes.shape[1:])
        return bitmap.popcount(by_part, axis=(1, 2))
    counts = []
    for part in range(parts):
        begin, end = part * size, (part + 1) * size
        own = strokes[begin // bitmap.WORD_BITS : bitmap.num_words(end)]
        if begin % bitmap.WORD_BITS or end % bitmap.WORD_BITS:
            columns = np.zeros((1, width), np.bool_)
            columns[:, begin:end] = True
            within = bitmap.pack_constant(columns)[begin // bitmap.WORD_BITS : bitmap.num_words(end)]
            own = own & within[:, :, None]
        counts.append(bitmap.popcount(own, axis=(0, 1)))
    return jnp.stack(counts)
