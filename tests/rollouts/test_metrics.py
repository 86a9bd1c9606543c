"""Ratios against values worked out by hand, on numpy and on JAX arrays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.rollouts import metrics

# Three episodes with two digits: one ordinary, one that saw everything, one with an empty second digit.
COUNTS = {
    "stroke_total": [[100, 300], [10, 30], [50, 0]],
    "stroke_seen": [[80, 20], [10, 30], [25, 0]],
    "stroke_seen_readable": [[75, 5], [10, 30], [20, 0]],
    "area_seen": [4096, 100_352, 50_176],
    "area_seen_readable": [3721, 90_000, 25_088],
    "moves": [0, 9, 3],
    "revisits": [0, 4, 1],
    "digits_correct": [[True, False], [True, True], [False, False]],
}
CANVAS = 224 * 448


def statistics(kind: str) -> Any:
    """The counts above as numpy (int32, as an environment has them) or as JAX arrays."""
    arrays: dict[str, Any] = {
        name: np.asarray(rows, bool if name == "digits_correct" else np.int32)
        for name, rows in COUNTS.items()
    }
    if kind == "jax":
        arrays = {name: jnp.asarray(array) for name, array in arrays.items()}
    return SimpleNamespace(**arrays)


EXPECTED: dict[str, Any] = {
    "stroke_coverage": [0.25, 1.0, 0.5],
    "stroke_coverage_readable": [0.2, 1.0, 0.4],
    "digit_stroke_coverage": [[0.8, 20 / 300], [1.0, 1.0], [0.5, 1.0]],
    "digit_stroke_coverage_readable": [[0.75, 5 / 300], [1.0, 1.0], [0.4, 1.0]],
    "revisit_rate": [0.0, 0.4, 0.25],
    "positional_accuracy": [0.5, 1.0, 0.0],
}


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize("name", EXPECTED)
def test_ratios_by_hand(name: str, kind: str) -> None:
    values = getattr(metrics, name)(statistics(kind))
    np.testing.assert_allclose(values, EXPECTED[name], rtol=1e-6)
    assert values.dtype == (np.float64 if kind == "numpy" else np.float32)
    assert isinstance(values, jax.Array) == (kind == "jax")


@pytest.mark.parametrize("kind", ["numpy", "jax"])
def test_area_by_hand(kind: str) -> None:
    counts = statistics(kind)
    np.testing.assert_allclose(metrics.area_coverage(counts, CANVAS), [4096 / CANVAS, 1.0, 0.5], rtol=1e-6)
    readable = metrics.area_coverage_readable(counts, CANVAS)
    np.testing.assert_allclose(readable, [3721 / CANVAS, 90_000 / CANVAS, 0.25], rtol=1e-6)


def test_a_canvas_without_stroke_counts_as_seen() -> None:
    empty = SimpleNamespace(
        stroke_total=np.zeros((1, 2), np.int32),
        stroke_seen=np.zeros((1, 2), np.int32),
        stroke_seen_readable=np.zeros((1, 2), np.int32),
    )
    assert metrics.stroke_coverage(empty) == 1
    assert metrics.stroke_coverage_readable(empty) == 1
    assert metrics.digit_stroke_coverage(empty).tolist() == [[1, 1]]


def test_any_leading_axes_and_jit() -> None:
    counts = statistics("jax")
    one = jax.tree.map(lambda leaf: leaf[0], vars(counts))
    assert float(metrics.stroke_coverage(SimpleNamespace(**one))) == 0.25
    blocks = {name: jnp.broadcast_to(leaf, (4, *leaf.shape)) for name, leaf in vars(counts).items()}
    jitted = jax.jit(lambda leaves: metrics.stroke_coverage(SimpleNamespace(**leaves)))
    np.testing.assert_allclose(jitted(blocks), [EXPECTED["stroke_coverage"]] * 4, rtol=1e-6)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_all_digits_seen_is_over_the_threshold(array: Any) -> None:
    coverage = array([[0.76, 0.9], [0.75, 1.0], [1.0, 0.1]])
    assert metrics.all_digits_seen(coverage).tolist() == [True, False, False]
    assert metrics.all_digits_seen(coverage, 0.05).tolist() == [True, True, True]


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_topology(array: Any) -> None:
    names = list(metrics.TOPOLOGY)
    groups = [names[number] for number in metrics.topology_group(array(np.arange(10)))]
    assert groups == "loops strokes curves curves strokes curves loops strokes loops loops".split()
    assert metrics.topology_group(array([[1, 2], [0, 9]])).shape == (2, 2)


def test_topology_covers_every_digit_once() -> None:
    assert sorted(digit for digits in metrics.TOPOLOGY.values() for digit in digits) == list(range(10))


def test_path_entropy() -> None:
    paths = np.array([[0, 1, 2, 4], [0, 1, 2, 0], [3, 3, 3, 3], [3, 3, 3, 4], [0, 4, -1, -1]])
    assert metrics.path_entropy(paths) == pytest.approx(1.0)  # two paths, the last episode is too short
    assert metrics.path_entropy(paths, 1) == pytest.approx(-(0.6 * np.log2(0.6) + 0.4 * np.log2(0.4)))
    assert metrics.path_entropy(paths[:2]) == 0
    assert np.isnan(metrics.path_entropy(paths[4:]))
    every = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)
    assert metrics.path_entropy(every) == pytest.approx(6.0)
    with pytest.raises(ValueError, match="1 to 4"):
        metrics.path_entropy(paths, 5)
