"""Directions in whole numbers against numpy's eigenvectors and Python's unbounded integers."""

from __future__ import annotations

import numpy as np
import pytest

from mnistpro_jax.agents.directions import LONGEST, principal_directions


def rows(count: int, size: int, spread: float = 0.8) -> np.ndarray:
    """Rows that differ in few directions more than in the others, int8 (count, size)."""
    rng = np.random.default_rng(count)
    turned = np.linalg.qr(rng.normal(size=(size, size)))[0]
    drawn = rng.normal(size=(count, size)) * 200 * spread ** np.arange(size)
    return np.clip(np.rint(drawn @ turned + 10), -126, 126).astype(np.int8)


def rest(terms: np.ndarray, directions: np.ndarray) -> float:
    """Variance that directions leave out."""
    centred = terms - terms.mean(0)
    kept = np.linalg.qr(directions.astype(np.float64))[0]
    return float(np.square(centred).sum() - np.square(centred @ kept).sum())


@pytest.mark.parametrize(("count", "size", "rank"), [(500, 60, 12), (40, 60, 12), (500, 60, 59)])
def test_they_leave_out_little_more_than_the_best(count: int, size: int, rank: int) -> None:
    terms = rows(count, size)
    found = principal_directions(terms, rank, LONGEST)
    best = np.linalg.eigh(np.cov(terms.T))[1][:, -rank:]
    assert found.shape == (size, rank) and found.dtype == np.int32
    assert rest(terms, found) < 1.25 * rest(terms, best)


@pytest.mark.parametrize("length", [LONGEST, 256])
def test_they_are_orthogonal_and_of_one_length(length: int) -> None:
    found = principal_directions(rows(500, 60), 12, length).astype(np.int64)
    np.testing.assert_allclose(found.T @ found / length**2, np.eye(12), atol=8 / length)


def test_all_axes_lose_nothing() -> None:
    np.testing.assert_array_equal(principal_directions(rows(9, 7), 20, 64), 64 * np.eye(7))


def test_few_images_span_few_directions() -> None:
    terms = np.concatenate([rows(6, 60)] * 2)
    found = principal_directions(terms, 12, LONGEST)
    assert found.shape == (60, 5)  # six images, less their mean
    assert rest(terms, found) < 1e-5 * np.square(terms.astype(np.float64)).sum()


def test_the_order_of_sums_does_not_matter() -> None:
    """With products added in another order by another library, the same whole numbers."""
    terms = rows(500, 60)
    found = principal_directions(terms, 12, LONGEST)

    class Backwards(np.ndarray):
        def __matmul__(self, other: np.ndarray) -> np.ndarray:
            left, right = (np.asarray(side)[..., ::-1] for side in (self, np.asarray(other).T))
            return np.einsum("ik,jk->ij", left, right, optimize=False).view(Backwards)

    again = principal_directions(terms.view(Backwards), 12, LONGEST)
    np.testing.assert_array_equal(found, np.asarray(again))
