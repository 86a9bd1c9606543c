"""Banks and seams: every canvas is Pillow's, every crop and count is that of the canvas."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mnistpro_jax import data
from mnistpro_jax.env import bitmap
from mnistpro_jax.env.bank import Bank, scale
from mnistpro_jax.env.seams import SeamEdges, SeamTable, seams
from mnistpro_jax.env.types import Action
from mnistpro_jax.worlds.digits import digit_bank, episode_bank
from tests.episodes import edge_digits, pack, pillow_canvas, world

AT_EDGE = 18  # digits of edge_digits with ink in an outermost column; they come first
SEAMS = ["table", "edges"]


@functools.cache
def pair_bank(kind: str, level: int = 2) -> Bank:
    """Pairs of edge digits, with the seams looked up or computed."""
    bank = digit_bank(edge_digits(), level)
    assert isinstance(bank.seams, SeamTable)
    if kind == "table":
        return bank
    return dataclasses.replace(bank, seams=seams(edge_digits().images, 8, table_bytes=0))


@functools.cache
def pairs() -> NDArray[np.int32]:
    """Every ordered pair of digits with ink at the edge, and some with one such digit or none."""
    rng = np.random.default_rng(0)
    edge = list(itertools.product(range(AT_EDGE), repeat=2))
    return np.array(edge + rng.integers(64, size=(76, 2)).tolist(), np.int32)


@functools.cache
def pair_strokes() -> NDArray[np.bool_]:
    return strokes_of(edge_digits(), pairs(), 224)


def strokes_of(dataset: data.Dataset, indices: NDArray[np.integer], size: int) -> NDArray[np.bool_]:
    """Stroke pixels by Pillow, bool (E, H, W)."""
    return np.stack([pillow_canvas(dataset.images[row], size) == 0 for row in indices])


def mapped(function: Any, *axes: Any) -> Any:
    return jax.jit(jax.vmap(function, in_axes=axes))


# ---- Seams ----------------------------------------------------------------------------------------------------


def test_seam_strips_come_from_a_table_or_are_computed() -> None:
    assert isinstance(seams(edge_digits().images, 8), SeamTable)
    assert isinstance(seams(edge_digits().images, 8, table_bytes=0), SeamEdges)
    table = seams(edge_digits().images, 8)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(table)) < 2**20


def test_some_pairs_differ_from_their_digits_side_by_side() -> None:
    alone = strokes_of(edge_digits(), np.arange(64)[:, None], 224)
    side_by_side = np.concatenate([alone[pairs()[:, 0]], alone[pairs()[:, 1]]], axis=-1)
    changed = (side_by_side != pair_strokes()).any(axis=(1, 2))
    assert changed[: AT_EDGE**2].sum() > 50


@pytest.mark.parametrize("kind", SEAMS)
def test_canvases_of_pairs_equal_pillow(kind: str) -> None:
    bank = pair_bank(kind)
    words = mapped(lambda bank, scene: bank.canvas(scene), None, 0)(bank, jnp.asarray(pairs()))
    np.testing.assert_array_equal(words, pack(pair_strokes()))


@pytest.mark.parametrize("kind", SEAMS)
def test_stroke_totals_of_pairs(kind: str) -> None:
    totals = mapped(lambda bank, scene: bank.stroke_total(scene), None, 0)(
        pair_bank(kind), jnp.asarray(pairs())
    )
    left, right = pair_strokes()[..., :224], pair_strokes()[..., 224:]
    np.testing.assert_array_equal(totals, np.stack([left.sum(axis=(1, 2)), right.sum(axis=(1, 2))], axis=-1))


@pytest.mark.parametrize("kind", SEAMS)
def test_seams_of_one_kind_equal_the_other(kind: str) -> None:
    """Noise in both outer columns: far more ink at the seam than any digit has."""
    images = np.random.default_rng(1).integers(256, size=(6, 28, 28), dtype=np.uint8)
    seam = seams(images, 8, table_bytes=2**20 if kind == "table" else 0)
    assert isinstance(seam, SeamTable if kind == "table" else SeamEdges)
    left, right = (jnp.asarray(side, jnp.int32) for side in np.indices((6, 6)).reshape(2, -1))
    rows, counts, gain = mapped(
        lambda a, b: (seam.rows(a, b, jnp.int32(0), 224), seam.counts(a, b), seam.stroke_gain(a, b)), 0, 0
    )(left, right)
    for number, (a, b) in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        pair = pillow_canvas(images[[a, b]], 224) == 0
        alone = np.concatenate([pillow_canvas(images[[k]], 224) == 0 for k in (a, b)], axis=1)
        np.testing.assert_array_equal(rows[number], pack(pair[:, 220:228])[0])
        gained = pair.astype(int) - alone
        np.testing.assert_array_equal(counts[number], np.cumsum(gained.sum(axis=1)))
        assert gain[number].tolist() == [gained[:, :224].sum(), gained[:, 224:].sum()]


@pytest.mark.parametrize("kind", SEAMS)
def test_three_digits_have_two_seams(kind: str) -> None:
    scenes = np.random.default_rng(2).integers(AT_EDGE, size=(40, 3)).astype(np.int32)
    bank = pair_bank(kind, level=3)
    words, totals, label = mapped(lambda b, s: (b.canvas(s), b.stroke_total(s), b.label(s)), None, 0)(
        bank, jnp.asarray(scenes)
    )
    stroke = strokes_of(edge_digits(), scenes, 224)
    np.testing.assert_array_equal(words, pack(stroke))
    np.testing.assert_array_equal(totals, stroke.reshape(40, 224, 3, 224).sum(axis=(1, 3)))
    np.testing.assert_array_equal(label, edge_digits().labels[scenes])
    assert (bank.width, bank.height, bank.num_digits, bank.num_tiles) == (672, 224, 3, 64)


# ---- Crops ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "window"), [("table", 1), ("table", 33), ("table", 64), ("edges", 64), ("table", 224)]
)
def test_crops_of_pairs(kind: str, window: int) -> None:
    rng = np.random.default_rng(window)
    count = len(pairs())
    # Half of them around the seam, where columns 220 to 227 are mixed.
    x = np.where(
        rng.random(count) < 0.5,
        rng.integers(210 - window, 235, count),
        rng.integers(449 - window, size=count),
    )
    x, y = np.clip(x, 0, 448 - window), rng.integers(225 - window, size=count)
    x[:2], y[:2] = (0, 448 - window), (0, 224 - window)
    corners = jnp.asarray(np.stack([x, y], axis=-1), jnp.int32)
    crop = mapped(lambda bank, scene, xy: bank.crop(scene, xy, window), None, 0, 0)
    words = crop(pair_bank(kind), jnp.asarray(pairs()), corners)
    assert words.dtype == jnp.uint32
    expected = [s[b : b + window, a : a + window] for s, a, b in zip(pair_strokes(), x, y, strict=True)]
    np.testing.assert_array_equal(words, pack(np.stack(expected)))


def test_a_window_may_meet_two_seams() -> None:
    """As wide as a digit, it ends in one seam and begins in the other."""
    window = 224
    bank = pair_bank("table", level=3)
    x = np.repeat([0, 200, 219, 220, 221, 224, 227, 228, 380, 448], 6)
    scenes = np.random.default_rng(3).integers(AT_EDGE, size=(len(x), 3)).astype(np.int32)
    stroke = strokes_of(edge_digits(), scenes, 224)
    corners = jnp.asarray(np.stack([x, np.zeros_like(x)], axis=-1), jnp.int32)
    words = mapped(lambda b, s, xy: b.crop(s, xy, window), None, 0, 0)(bank, jnp.asarray(scenes), corners)
    expected = np.stack([s[:, a : a + window] for s, a in zip(stroke, x, strict=True)])
    np.testing.assert_array_equal(words, pack(expected))


@pytest.mark.parametrize(
    ("level", "size", "window"),
    [(1, 224, 64), (1, 100, 41), (2, 100, 64), (1, 448, 130), (2, 448, 448), (2, 30, 30)],
)
def test_other_sizes(level: int, size: int, window: int) -> None:
    """Made on the device or by Pillow on the host, scene by scene or digit by digit."""
    indices = np.random.default_rng(size).integers(AT_EDGE, size=(10, level))
    bank = episode_bank(edge_digits(), indices, size=size)
    assert (bank.height, bank.width, bank.num_digits) == (size, size * level, level)
    assert bank.native_factor == (size // 28 if size % 28 == 0 else 0)
    assert bank.episodes is not None
    stroke = strokes_of(edge_digits(), indices, size)
    x = np.random.default_rng(0).integers(size * level - window + 1, size=10)
    y = np.random.default_rng(1).integers(size - window + 1, size=10)

    def everything(bank: Bank, scene: jax.Array, xy: jax.Array) -> Any:
        return (
            bank.canvas(scene),
            bank.crop(scene, xy, window),
            bank.stroke_total(scene),
            bank.label(scene),
            bank.source_indices(scene),
        )

    corners = jnp.asarray(np.stack([x, y], axis=-1), jnp.int32)
    canvas, crop, totals, label, source = mapped(everything, None, 0, 0)(bank, bank.episodes.scenes, corners)
    np.testing.assert_array_equal(canvas, pack(stroke))
    expected = np.stack([s[b : b + window, a : a + window] for s, a, b in zip(stroke, x, y, strict=True)])
    np.testing.assert_array_equal(crop, pack(expected))
    np.testing.assert_array_equal(totals, stroke.reshape(10, size, level, size).sum(axis=(1, 3)))
    np.testing.assert_array_equal(label, edge_digits().labels[indices])
    np.testing.assert_array_equal(source, indices)


# ---- Draws ----------------------------------------------------------------------------------------------------


_scale = jax.jit(scale)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**31 - 1))
def test_scale_is_the_high_half_of_the_product(bits: int, limit: int) -> None:
    scaled = _scale(jnp.uint32(bits), jnp.int32(limit))
    assert scaled.dtype == jnp.int32
    assert int(scaled) == bits * limit >> 32


@pytest.mark.parametrize(("kind", "level"), [("table", 1), ("table", 2), ("edges", 2)])
@pytest.mark.parametrize("scene", [(0, 1), (5, 3), (40, 50)])
def test_every_stroke_pixel_has_its_share_of_the_bits(kind: str, level: int, scene: tuple[int, int]) -> None:
    """The bits fall into equal stretches, one for each stroke pixel in row-major order."""
    bank = pair_bank(kind) if level == 2 else digit_bank(edge_digits())
    stroke = strokes_of(edge_digits(), np.array([scene[:level]]), 224)[0]
    pixels = np.argwhere(stroke)[:, ::-1]
    total = len(pixels)
    first = np.array(
        [-(-(rank << 32) // total) for rank in range(total)], np.uint64
    )  # the first bits of each
    last = np.append(first[1:] - 1, 2**32 - 1)
    draw = _draw_pixels()
    for bits in (first, last):
        padded = np.resize(bits, 30_000).astype(np.uint32)
        found, any_stroke = draw(bank, jnp.asarray(scene[:level], jnp.int32), jnp.asarray(padded))
        assert any_stroke.all()
        np.testing.assert_array_equal(found[:total], pixels)


@functools.cache
def _draw_pixels() -> Any:
    return mapped(lambda bank, scene, bits: bank.stroke_pixel(scene, bits, jnp.int32(1)), None, None, 0)


@pytest.mark.parametrize("size", [224, 20, 100])
def test_stroke_pixels_of_short_and_long_canvases(size: int) -> None:
    indices = np.arange(20, 26)[:, None]
    bank = episode_bank(edge_digits(), indices, size=size)
    bits = np.random.default_rng(0).integers(2**32, size=2000, dtype=np.uint32)
    for number, stroke in enumerate(strokes_of(edge_digits(), indices, size)[:2]):
        found, _ = _draw_pixels()(bank, jnp.asarray([number], jnp.int32), jnp.asarray(bits))
        pixels = np.argwhere(stroke)[:, ::-1]
        np.testing.assert_array_equal(found, pixels[bits.astype(np.uint64) * len(pixels) >> np.uint64(32)])


def test_long_canvases_are_pillows_and_have_every_stroke_pixel() -> None:
    """Six digits: more words a row than are looked through without a loop, and seams between them."""
    bank, scene = pair_bank("table", 6), np.array([0, 5, 3, 17, 9, 40], np.int32)
    canvas = pillow_canvas(edge_digits().images[scene], 224) == 0
    packed = jax.jit(lambda bank, scene: bank.canvas(scene))(bank, jnp.asarray(scene))
    np.testing.assert_array_equal(packed, pack(canvas))
    totals = jax.jit(lambda bank, scene: bank.stroke_total(scene))(bank, jnp.asarray(scene))
    np.testing.assert_array_equal(totals, canvas.reshape(224, 6, 224).sum(axis=(0, 2)))
    y, x = np.nonzero(canvas)  # in row-major order
    ranks = np.unique(np.linspace(0, len(y) - 1, 200).astype(np.int64))
    bits = ((ranks * 2**32 + len(y) - 1) // len(y)).astype(np.uint32)  # the first that give each rank
    pixel_of = jax.vmap(
        lambda bits, bank: bank.stroke_pixel(jnp.asarray(scene), bits, jnp.int32(1))[0], (0, None)
    )
    pixels = jax.jit(pixel_of)(jnp.asarray(bits), bank)
    np.testing.assert_array_equal(pixels, np.stack([x[ranks], y[ranks]], axis=1))


def test_programs_do_not_grow_with_the_digits() -> None:
    """Else 99 of them could not be compiled."""
    sizes = []
    for level in (9, 99):
        env, params = world(level)
        zeros = jnp.zeros(level, jnp.int32)
        _, state = jax.eval_shape(env.reset_to, zeros, zeros[:2], params)
        action = Action(zeros[0], zeros)
        reset = jax.make_jaxpr(env.reset)(jax.random.key(0), params)
        step = jax.make_jaxpr(env.step)(jax.random.key(0), state, action, params)
        sizes.append([len(str(program).splitlines()) for program in (reset, step)])
    few, many = np.array(sizes)
    assert (many < 1.1 * few).all(), sizes


def test_a_canvas_without_stroke_has_no_pixel() -> None:
    blank = data.Dataset(np.zeros((2, 28, 28), np.uint8), np.zeros(2, np.int32), 10, "blank", "test")
    for level in (1, 2):
        bank = digit_bank(blank, level)
        scene = jnp.zeros(level, jnp.int32)
        assert not bank.canvas(scene).any()
        assert bank.stroke_total(scene).tolist() == [0] * level
        _, any_stroke = jax.jit(lambda bank, scene, bits: bank.stroke_pixel(scene, bits, jnp.int32(1)))(
            bank, scene, jnp.uint32(5)
        )
        assert not bool(any_stroke)


def test_scenes_are_drawn_uniformly_and_independently() -> None:
    bank = pair_bank("table")
    bits = jax.random.bits(jax.random.key(0), (40_960, 2), jnp.uint32)
    scenes, episode = mapped(lambda bank, bits: bank.draw(bits), None, 0)(bank, bits)
    assert (scenes.dtype, scenes.shape) == (jnp.int32, (40_960, 2))
    assert (np.asarray(episode) == -1).all()
    counts = np.bincount(np.asarray(scenes[:, 0] * 64 + scenes[:, 1]), minlength=4096)
    chi_square = ((counts - 10) ** 2 / 10).sum()
    assert abs(chi_square - 4095) < 4 * np.sqrt(2 * 4095)


def test_the_extremes_of_the_bits_stay_in_the_bank() -> None:
    bank = pair_bank("table")
    scene, _ = bank.draw(jnp.asarray([0, 2**32 - 1], jnp.uint32))
    assert scene.tolist() == [0, 63]


def test_episodes_are_drawn_whole() -> None:
    indices = np.array([[3, 60], [60, 3], [7, 7]])
    starts = np.array([[1, 2], [3, 4], [5, 6]])
    bank = episode_bank(edge_digits(), indices, starts=starts)
    bits = jnp.asarray([[0, 0], [2**31, 1], [2**32 - 1, 9]], jnp.uint32)
    scenes, numbers = jax.vmap(bank.draw)(bits)
    assert numbers.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(jax.vmap(bank.source_indices)(scenes), indices)
    assert bank.num_tiles == 3  # only images in use are kept
    assert bank.episodes is not None
    np.testing.assert_array_equal(bank.episodes.starts, starts)


def test_scene_banks_are_reproducible() -> None:
    """Sizes of several digits that Pillow makes: a pool of scenes, from a seed."""
    banks = [digit_bank(edge_digits(), 2, size=30, num_scenes=25, seed=seed) for seed in (4, 4, 5)]
    assert [bank.num_tiles for bank in banks] == [25] * 3
    np.testing.assert_array_equal(banks[0].indices, banks[1].indices)
    assert not np.array_equal(banks[0].indices, banks[2].indices)


# ---- The pytree -----------------------------------------------------------------------------------------------


def test_a_bank_is_a_pytree_of_arrays() -> None:
    bank = pair_bank("table")
    leaves, structure = jax.tree.flatten(bank)
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    assert bank.nbytes == sum(leaf.nbytes for leaf in leaves)
    again = jax.tree.unflatten(structure, leaves)
    assert (again.tile_width, again.tiles_per_scene, again.num_classes, again.native_factor) == (
        224,
        2,
        10,
        8,
    )
    assert not any(leaf.weak_type for leaf in leaves)


def test_word_columns_are_major() -> None:
    bank = digit_bank(edge_digits())
    words = bank.canvas(jnp.asarray([20], jnp.int32))
    assert words.shape == (bitmap.num_words(224), 224)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"indices": np.zeros(3, int)}, "indices has shape"),
        ({"indices": np.zeros((0, 1), int)}, "indices has shape"),
        ({"indices": np.array([[64]])}, "indices span"),
        ({"indices": np.array([[-1]])}, "indices span"),
        ({"indices": np.array([[0]]), "starts": np.zeros((2, 2))}, "starts has shape"),
        ({"indices": np.array([[0]]), "size": 0}, "size is 0"),
    ],
)
def test_bad_episode_lists_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        episode_bank(edge_digits(), **arguments)


@pytest.mark.parametrize(("level", "size", "message"), [(0, 224, "level is 0"), (1, -5, "size is -5")])
def test_bad_digit_banks_are_refused(level: int, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        digit_bank(edge_digits(), level, size=size)
