"""The Wilson interval against published values and its own equation."""

from __future__ import annotations

import math

import pytest

from mnistpro_jax.runs.intervals import Z95, wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # Newcombe 1998, table I, method 3 (score without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_known_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("successes", "trials"), [(1, 7), (50, 100), (88, 100), (9_731, 10_000)])
def test_bounds_solve_the_score_equation(successes: int, trials: int) -> None:
    share = successes / trials
    for bound in wilson(successes, trials):
        assert abs(share - bound) == pytest.approx(Z95 * math.sqrt(bound * (1 - bound) / trials), rel=1e-9)


@pytest.mark.parametrize("trials", [1, 3, 100, 12_345])
def test_ends_are_exact_and_mirror_each_other(trials: int) -> None:
    nothing, everything = wilson(0, trials), wilson(trials, trials)
    assert nothing[0] == 0.0
    assert everything[1] == 1.0
    assert everything[0] == pytest.approx(1 - nothing[1])


def test_without_trials_nothing_is_known() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5)])
def test_contradictions_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="0 <= successes <= trials"):
        wilson(successes, trials)
