from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.agents import Geometry, exact
from mnistpro_jax.agents.likelihood import PER_NAT, log_odds, native_counts
from mnistpro_jax.agents.reader import EmpiricalBayesReader, Posterior, build_reader, full_read
from mnistpro_jax.data import Dataset
from mnistpro_jax.env import pipeline
from mnistpro_jax.env.types import FusedCanvas
from tests.agents.helpers import fused, native

GEOMETRY = Geometry()
EXACT = 2 * 784
read = jax.jit(EmpiricalBayesReader.posterior)
read_all = jax.jit(jax.vmap(EmpiricalBayesReader.posterior, in_axes=(None, 0)))
scores_of_all = jax.jit(jax.vmap(EmpiricalBayesReader.scores, in_axes=(None, 0)))
read_whole = jax.jit(full_read)
stroke_pixels = jax.jit(pipeline.strokes)
WALK = [(80, 80), (112, 80), (112, 48), (80, 48), (80, 16)]


def strokes(images: np.ndarray) -> np.ndarray:
    return np.asarray(stroke_pixels(jnp.asarray(images)))


@pytest.fixture(scope="module")
def views(held_out: Dataset) -> FusedCanvas:
    """A batch: one canvas after 1 to 5 windows each."""
    made = [
        fused(GEOMETRY, picture, WALK[: 1 + k % 5]) for k, picture in enumerate(strokes(held_out.images[:20]))
    ]
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *made)


def test_native_counts_are_those_of_the_published_canvas(held_out: Dataset) -> None:
    expected = [native(GEOMETRY, picture) for picture in strokes(held_out.images[:5])]
    np.testing.assert_array_equal(native_counts(held_out.images[:5]), expected)


def shares(posterior: Posterior) -> np.ndarray:
    """Posterior of every image, summing to 1."""
    weights = np.asarray(posterior.weights, np.float64)
    return weights / weights.sum(-1, keepdims=True)


def test_posterior_is_normalised(reader: EmpiricalBayesReader, views: FusedCanvas) -> None:
    posterior = read_all(reader, views)
    np.testing.assert_allclose(posterior.classes.sum(-1), 1, rtol=1e-5)
    by_class = np.stack(
        [shares(posterior)[..., np.asarray(reader.labels) == c].sum(-1) for c in range(10)], axis=-1
    )
    np.testing.assert_allclose(posterior.classes, by_class, atol=1e-6)
    assert posterior.weights.shape == (20, 1, 400) and posterior.classes.shape == (20, 1, 10)
    assert (np.max(posterior.weights, -1) == 1 << 22).all() and (np.min(posterior.weights) >= 0)


def test_scores_and_class_sums_are_exact(reader: EmpiricalBayesReader, views: FusedCanvas) -> None:
    """Against 64-bit whole numbers: no float32 product has rounded anything."""
    basis, codes = np.asarray(reader.basis), np.asarray(reader.codes)
    assert (basis == np.rint(basis)).all() and (codes == np.rint(codes)).all()
    full = FusedCanvas(*(jnp.full((20, 28, 28), 64, jnp.uint8),) * 2)  # the longest evidence there is
    for seen in (views, full):
        evidence = np.concatenate([np.asarray(c).reshape(20, -1) for c in (seen.stroke, seen.revealed)], 1)
        projected = evidence.astype(np.int64) @ basis.astype(np.int64)
        projected = (projected + (1 << reader.shift) // 2) >> reader.shift
        scores = projected @ codes.astype(np.int64)
        assert np.abs(scores).max() < exact.EXACT
        lengths = np.sqrt(
            np.square(projected).sum(1).max() * np.square(codes.astype(np.float64)).sum(0).max()
        )
        assert lengths < exact.EXACT  # and so is every partial sum
        np.testing.assert_array_equal(scores_of_all(reader, seen)[:, 0], scores)
        posterior = read_all(reader, seen)
        weights = np.asarray(posterior.weights, np.int64)[:, 0]
        sums = np.stack([weights[:, np.asarray(reader.labels) == c].sum(1) for c in range(10)], 1)
        sums = sums.astype(np.float32)  # one rounding
        total = np.zeros(20, np.float32)
        for c in range(10):
            total += sums[:, c]
        np.testing.assert_array_equal(posterior.classes[:, 0], sums * (np.float32(1) / total)[:, None])


def test_vmap_and_jit_agree_with_single_episodes(reader: EmpiricalBayesReader, views: FusedCanvas) -> None:
    batched = read_all(reader, views)
    for k in range(3):
        single = read(reader, jax.tree.map(lambda leaf, k=k: leaf[k], views))
        np.testing.assert_allclose(single.classes, batched.classes[k], atol=1e-4)


def test_a_batch_is_one_product_with_the_bank(reader: EmpiricalBayesReader, views: FusedCanvas) -> None:
    text = str(jax.make_jaxpr(jax.vmap(lambda v: reader.posterior(v).classes))(views))
    with_bank = [
        line for line in text.splitlines() if "dot_general" in line and ",400]" in line.split("=")[0]
    ]
    assert len(with_bank) == 1


def test_the_order_of_the_bank_does_not_matter(train: Dataset, views: FusedCanvas) -> None:
    order = np.random.default_rng(0).permutation(200)
    plain = Dataset(train.images[:200], train.labels[:200], 10, "mnist", "train")
    mixed = Dataset(train.images[order], train.labels[order], 10, "mnist", "train")
    one, other = (build_reader(d, rank=EXACT) for d in (plain, mixed))
    a, b = read_all(one, views), read_all(other, views)
    np.testing.assert_allclose(a.classes, b.classes, atol=2e-3)
    np.testing.assert_allclose(shares(a)[..., order], shares(b), atol=2e-3)


def test_full_rank_is_the_tempered_masked_likelihood(train: Dataset, views: FusedCanvas) -> None:
    few = Dataset(train.images[:100], train.labels[:100], 10, "mnist", "train")
    reader = build_reader(few, rank=EXACT)
    stroke, background = (np.asarray(term, np.float64) / PER_NAT for term in log_odds(reader.templates))
    for k in range(5):
        seen, shown = np.asarray(views.stroke[k]) / 64, np.asarray(views.revealed[k]) / 64
        likelihood = (seen * stroke + shown * background).sum((1, 2))
        informative = (shown * np.asarray(reader.information)).sum()
        scores = 0.17 * informative**-0.6 * likelihood
        expected = np.exp(scores - scores.max())
        got = shares(read(reader, jax.tree.map(lambda leaf, k=k: leaf[k], views)))[0]
        np.testing.assert_allclose(got / got.max(), expected, rtol=0.1, atol=2e-3)


def test_terms_are_bernoulli_log_odds(reader: EmpiricalBayesReader) -> None:
    counts = np.asarray(reader.templates[:20], np.float64) / 64
    taps = np.array([0.166, 0.668, 0.166])
    for axis in (1, 2):
        counts = np.apply_along_axis(np.convolve, axis, counts, taps, "same")
    p = 0.02 + 0.96 * counts
    first, second = (np.asarray(term) for term in log_odds(reader.templates[:20], 1000))
    np.testing.assert_allclose(first, 1000 * np.log(p / (1 - p)), atol=30)
    np.testing.assert_allclose(second, 1000 * np.log(1 - p), atol=30)


def test_low_rank_keeps_the_answer(train: Dataset, reader: EmpiricalBayesReader, views: FusedCanvas) -> None:
    exact = read_all(build_reader(train, rank=EXACT), views)
    low = read_all(reader, views)
    assert float(jnp.mean(jnp.abs(exact.classes - low.classes))) < 0.01


def test_seeing_more_of_a_training_image_raises_its_weight(
    train: Dataset, reader: EmpiricalBayesReader
) -> None:
    rose = 0
    for k, picture in enumerate(strokes(train.images[:10])):
        few, more = (shares(read(reader, fused(GEOMETRY, picture, WALK[:n])))[0, k] for n in (1, 5))
        everything = shares(read_whole(reader, jnp.asarray(native(GEOMETRY, picture))))[0]
        rose += int(few < more)
        assert int(everything.argmax()) == k and everything[k] > few
    assert rose >= 9


def test_digits_are_read_apart(reader: EmpiricalBayesReader, held_out: Dataset) -> None:
    left, right = (native(GEOMETRY, picture) for picture in strokes(held_out.images[:2]))
    pair = read_whole(reader, jnp.asarray(np.concatenate([left, right], axis=1)))
    for k, half in enumerate((left, right)):
        alone = read_whole(reader, jnp.asarray(half))
        np.testing.assert_allclose(pair.classes[k], alone.classes[0], atol=1e-4)
    assert float(pair.confidence) == pytest.approx(float(jnp.prod(jnp.max(pair.classes, -1))), rel=1e-6)


def test_nothing_seen_gives_the_prior(train: Dataset, reader: EmpiricalBayesReader) -> None:
    nothing = jnp.zeros((28, 28), jnp.uint8)
    classes = read(reader, FusedCanvas(nothing, nothing)).classes[0]
    np.testing.assert_allclose(classes, np.bincount(train.labels, minlength=10) / 400, atol=1e-5)


def test_it_reads(reader: EmpiricalBayesReader, held_out: Dataset) -> None:
    counts = jnp.asarray(native_counts(held_out.images))
    answers = jax.jit(jax.vmap(lambda reader, c: full_read(reader, c).digits[0], (None, 0)))(reader, counts)
    assert float(np.mean(np.asarray(answers) == held_out.labels)) > 0.8  # 400 images alone


def test_dtypes_are_pinned(reader: EmpiricalBayesReader, views: FusedCanvas) -> None:
    posterior = read(reader, jax.tree.map(lambda leaf: leaf[0], views))
    for leaf in (posterior.classes, posterior.confidence):
        assert leaf.dtype == jnp.float32 and not leaf.weak_type
    for leaf in (posterior.weights, posterior.rate):
        assert leaf.dtype == jnp.int32 and not leaf.weak_type
    assert posterior.digits.dtype == jnp.int32


def test_errors(train: Dataset, reader: EmpiricalBayesReader) -> None:
    wrong = jnp.zeros((28, 30), jnp.uint8)
    with pytest.raises(ValueError, match="expected \\(28, 28 n\\)"):
        reader.posterior(FusedCanvas(wrong, wrong))
    with pytest.raises(ValueError, match="rank"):
        build_reader(train, rank=0)
    with pytest.raises(ValueError, match="native_factor"):
        build_reader(train, native_factor=16)
