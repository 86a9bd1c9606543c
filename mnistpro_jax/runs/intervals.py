"""Confidence intervals: of proportions, and of means over episodes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Z95 = 1.959963984540054
"""Two-sided 95 % quantile of the standard normal distribution."""
_DRAWN_AT_ONCE = 2_000_000  # numbers of a resampling that are held at a time


def wilson(successes: int, trials: int, z: float = Z95) -> tuple[float, float]:
    """The Wilson score interval of a proportion: (low, high), within 0..1.

    With p = successes / trials: centre (p + z^2 / 2n) / (1 + z^2 / n), half-width z sqrt(p (1 - p) / n + z^2
    / 4n^2) / (1 + z^2 / n). It holds its level for the small samples and the proportions near 0 and 1 that
    benchmarks have, where the textbook interval p +- z sqrt(p (1 - p) / n) does not (Wilson 1927; Brown, Cai
    and DasGupta 2001). (0, 1) without trials.

    successes: 0..trials. z: quantile of the level. Raises ValueError where the counts contradict each other.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"successes is {successes} of {trials} trials; expected 0 <= successes <= trials")
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    spread = z * z / trials
    centre = share + spread / 2
    half = z * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    # At the ends the formula gives exactly 0 and 1, but floating point may miss them.
    low = 0.0 if successes == 0 else (centre - half) / (1 + spread)
    high = 1.0 if successes == trials else (centre + half) / (1 + spread)
    return low, high


def bootstrap_mean(
    values: npt.ArrayLike, resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """The percentile bootstrap interval of a mean: (low, high) (Efron 1979).

    values: numbers (N,), one an episode; whole episodes are drawn, so that what goes together within one stays
    together. The same values and seed give the same interval. (nan, nan) without values; of one value, that value.

    Raises ValueError for values of another shape.
    """
    sample = np.asarray(values, np.float64)
    if sample.ndim != 1:
        raise ValueError(f"values have shape {sample.shape}; expected one number an episode")
    if not len(sample):
        return math.nan, math.nan
    rng = np.random.default_rng(seed)
    means = np.empty(resamples)
    at_once = max(1, _DRAWN_AT_ONCE // len(sample))
    for first in range(0, resamples, at_once):
        rows = rng.integers(len(sample), size=(min(at_once, resamples - first), len(sample)))
        means[first : first + at_once] = sample[rows].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
