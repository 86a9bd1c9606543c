"""What was seen and what was made of it: ratios of an episode's exact counts.

Definitions are those of the benchmark, section 4 (arXiv 2608.31022). All functions are pure, take the counts
of any batch of episodes as numpy or JAX arrays (leading axes written ``...``) and return the same kind:
float64 ratios for numpy, float32 for JAX, between 0 and 1. Those that take ``statistics`` read attributes of
``mnistpro_jax.EpisodeStatistics``. Two definitions of "seen" exist throughout: the whole windows, as
published, and the *readable* windows, less the ring that the outline hides.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SEEN_THRESHOLD = 0.75
"""Share of a digit's stroke above which the benchmark calls the digit seen."""

TOPOLOGY: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"strokes": (1, 4, 7), "curves": (2, 3, 5), "loops": (0, 6, 8, 9)}
)
"""The benchmark's groups of digits by topology: plain strokes, open curves, closed loops."""

_GROUP_OF_DIGIT = tuple(
    next(number for number, digits in enumerate(TOPOLOGY.values()) if digit in digits) for digit in range(10)
)


def ratio(part: Any, whole: Any) -> Any:
    """``part / whole``, and 1 where ``whole`` is 0: of nothing, all was seen."""
    part, whole = _array(part), _array(whole)
    dtype = jnp.float32 if isinstance(part, jax.Array) or isinstance(whole, jax.Array) else np.float64
    nothing = (whole == 0).astype(dtype)
    return (part.astype(dtype) + nothing) / (whole.astype(dtype) + nothing)


def digit_stroke_coverage(statistics: Any) -> Any:
    """Share of each digit's stroke pixels inside the union of windows, (..., n).

    stroke_seen / stroke_total per digit; 1 for a digit without stroke.
    """
    return ratio(statistics.stroke_seen, statistics.stroke_total)


def digit_stroke_coverage_readable(statistics: Any) -> Any:
    """As ``digit_stroke_coverage``, of the readable windows: stroke_seen_readable / stroke_total, (...,
    n)."""
    return ratio(statistics.stroke_seen_readable, statistics.stroke_total)


def stroke_coverage(statistics: Any) -> Any:
    """Share of the canvas's stroke pixels inside the union of windows, (...): the published definition.

    Sum of stroke_seen over sum of stroke_total: a digit weighs as much as it has stroke. 1 for a canvas
    without stroke.
    """
    return ratio(_total(statistics.stroke_seen), _total(statistics.stroke_total))


def stroke_coverage_readable(statistics: Any) -> Any:
    """As ``stroke_coverage``, of the readable windows, (...). About 0.02 lower in the published setting."""
    return ratio(_total(statistics.stroke_seen_readable), _total(statistics.stroke_total))


def area_coverage(statistics: Any, canvas_pixels: int) -> Any:
    """Share of the canvas inside the union of windows, (...): area_seen / (height * width)."""
    return ratio(statistics.area_seen, np.int64(canvas_pixels))


def area_coverage_readable(statistics: Any, canvas_pixels: int) -> Any:
    """As ``area_coverage``, of the readable windows, (...)."""
    return ratio(statistics.area_seen_readable, np.int64(canvas_pixels))


def revisit_rate(statistics: Any) -> Any:
    """Share of an episode's observations whose window position had been shown before, (...), in [0, 1).

    revisits / (moves + 1): an episode shows one window after reset and one after each move. The average over
    episodes is the average of these.
    """
    return ratio(statistics.revisits, _array(statistics.moves) + np.int32(1))


def positional_accuracy(statistics: Any) -> Any:
    """Share of the digits that were answered right in their place, (...): mean of digits_correct.

    An episode without an answer has 0.
    """
    right = _array(statistics.digits_correct)
    return ratio(_total(right), np.int32(right.shape[-1]))


def all_digits_seen(digit_coverage: Any, threshold: float = SEEN_THRESHOLD) -> Any:
    """Whether every digit was seen: bool (...), all of ``digit_coverage`` (..., n) above ``threshold``.

    digit_coverage: see ``digit_stroke_coverage``. threshold: 0 to 1, exclusive ("over 75 % seen").
    """
    return (_array(digit_coverage) > threshold).all(axis=-1)


def topology_group(digit: Any) -> Any:
    """Number of each digit's group among the keys of ``TOPOLOGY``, an integer array of the same shape.

    digit: integers 0..9 (numpy: IndexError for others). Meaningful for labels that are digits.
    """
    digit = _array(digit)
    if isinstance(digit, jax.Array):
        return jnp.asarray(_GROUP_OF_DIGIT, jnp.int32)[digit]
    return np.asarray(_GROUP_OF_DIGIT, np.int32)[digit]


def path_entropy(kinds: Any, moves: int = 3) -> float:
    """How differently an agent looks: entropy of the paths of its first moves over episodes, bits.

    kinds: integers (N, T), the ``Kind`` of every action (``Trajectories.kinds``). moves: length of a path; episodes
    with fewer are left out. 0 where every episode takes one path (a locator that has collapsed), at most
    2 * moves; NaN without episodes that are long enough. From plain counts: few episodes give too little.
    """
    taken = np.asarray(kinds)[:, :moves]
    if moves < 1 or taken.shape[1] < moves:
        raise ValueError(
            f"moves is {moves}; expected 1 to {np.asarray(kinds).shape[1]}, the actions of an episode"
        )
    paths = taken[((taken >= 0) & (taken < 4)).all(axis=1)]
    if not len(paths):
        return float("nan")
    counts = np.unique(paths, axis=0, return_counts=True)[1]
    shares = counts / counts.sum()
    return float(-np.sum(shares * np.log2(shares)) + 0.0)


def _array(value: Any) -> Any:
    return value if isinstance(value, jax.Array) else np.asarray(value)


def _total(per_digit: Any) -> Any:
    """Sum over the digits; int32 on both sides."""
    return _array(per_digit).sum(axis=-1, dtype=np.int32)
