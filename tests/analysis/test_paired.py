"""Paired tests against brute force and published examples."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from mnistpro_jax.analysis.paired import PairedTest, compare, holm, mcnemar
from mnistpro_jax.runs.intervals import bootstrap_mean


@pytest.mark.parametrize("first_only", range(6))
@pytest.mark.parametrize("second_only", range(6))
def test_mcnemar_is_the_share_of_splits_that_are_as_unequal(first_only: int, second_only: int) -> None:
    count = first_only + second_only
    gap = abs(first_only - second_only)
    splits = [sum(coins) for coins in itertools.product((0, 1), repeat=count)]
    as_unequal = sum(abs(2 * heads - count) >= gap for heads in splits) / len(splits)
    assert mcnemar(first_only, second_only) == pytest.approx(as_unequal, abs=1e-15)


def test_mcnemar_of_large_counts_stays_exact() -> None:
    # Doubling one tail of Binomial(n, 1/2), by its logarithm.
    n, k = 4000, 1900
    terms = [
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) - n * math.log(2)
        for i in range(k + 1)
    ]
    tail = sum(map(math.exp, terms))
    assert mcnemar(k, n - k) == pytest.approx(2 * tail, rel=1e-9)
    assert mcnemar(3000, 1000) > 0


def test_compare_counts_and_bounds() -> None:
    first = np.array([1, 1, 1, 0, 0, 1, 0, 0, 0, 0], bool)
    second = np.array([1, 1, 0, 1, 1, 1, 1, 0, 0, 0], bool)
    test = compare(first, second)
    assert test == PairedTest(both=3, first_only=1, second_only=3, neither=3)
    assert test.difference == pytest.approx(second.mean() - first.mean())
    assert test.p == mcnemar(1, 3)
    low, high = test.interval
    assert low < test.difference < high
    # Agresti and Min: (b - c)/(n + 2) -+ z sqrt((b + c + 1) - (b - c)^2/(n + 2))/(n + 2).
    half = 1.959964 * math.sqrt(5 - 4 / 12) / 12
    assert (low, high) == pytest.approx((2 / 12 - half, 2 / 12 + half), abs=1e-6)
    swapped = compare(second, first)
    assert swapped.interval == pytest.approx((-high, -low))
    with pytest.raises(ValueError, match="same episodes"):
        compare(first, second[:3])
    with pytest.raises(ValueError, match="0 or more"):
        mcnemar(-1, 2)


def test_holm() -> None:
    # Holm 1979's procedure by hand: sorted 0.01, 0.02, 0.03, 0.04 times 4, 3, 2, 1, made monotone.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_bootstrap_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for trial in range(200):
        sample = rng.exponential(2.0, size=60)
        low, high = bootstrap_mean(sample, resamples=400, seed=trial)
        hits += low <= 2.0 <= high
    assert 0.86 <= hits / 200 <= 0.99
    assert bootstrap_mean([3.0]) == (3.0, 3.0)
    assert bootstrap_mean(sample) == bootstrap_mean(sample)
    assert all(map(math.isnan, bootstrap_mean([])))
    with pytest.raises(ValueError, match="one number an episode"):
        bootstrap_mean(np.zeros((2, 2)))
