"""Banks of digit scenes, from a data set of 28 x 28 images.

Canvases of the published size, and of any size that is a power-of-two multiple of 28, are made on the device
by ``pipeline``; scenes of several digits are then drawn on the fly from single digits (``seams``). Other sizes
are made by Pillow on the host, whole scenes at a time where there are several digits.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.data import Dataset
from mnistpro_jax.data.dataset import checked_dataset
from mnistpro_jax.data.numbers import whole_number
from mnistpro_jax.env import bitmap, pipeline
from mnistpro_jax.env.bank import Bank, Episodes, block_ends
from mnistpro_jax.env.seams import seams
from mnistpro_jax.worlds.published import PUBLISHED_SIZE

_CHUNK = 1024  # digits enlarged at once: bounds the memory of building a bank


def digit_bank(
    dataset: Dataset,
    level: int = 1,
    *,
    size: int = PUBLISHED_SIZE,
    num_scenes: int | None = None,
    seed: int | None = None,
) -> Bank:
    """A bank that draws ``level`` independent digits of ``dataset`` for every episode.

    size: height of the canvas and width per digit, pixels. num_scenes (10,000), seed (0): where a size has to be
    made by Pillow and level > 1, that many random scenes are made beforehand and drawn from.

    Raises TypeError or ValueError for anything else, and for num_scenes or a seed where nothing is made beforehand.
    """
    level, size = _checked(dataset, level, size)
    count = whole_number("num_scenes", 10_000 if num_scenes is None else num_scenes, "scenes", 1)
    first = whole_number("seed", 0 if seed is None else seed, "", 0)
    if level == 1 or _exact_factor(size):
        if num_scenes is not None or seed is not None:
            raise TypeError(
                f"num_scenes and seed would do nothing for {level} digits of {size} pixels: scenes are drawn from "
                "single digits as they are shown; leave them out"
            )
        return _tile_bank(dataset, np.arange(len(dataset.labels)), level, size, None)
    indices = np.random.default_rng(first).integers(0, len(dataset.labels), (count, level))
    return _scene_bank(dataset, indices, size, None)


def episode_bank(
    dataset: Dataset,
    indices: NDArray[np.integer],
    *,
    size: int = PUBLISHED_SIZE,
    starts: NDArray[np.integer] | None = None,
) -> Bank:
    """A bank of a fixed list of episodes.

    indices: (E, n), images of each episode, left to right. starts: (E, 2), window corners (x, y), for the start
    rules ``published`` and ``episode``.
    """
    indices = np.asarray(indices)
    if indices.ndim != 2 or 0 in indices.shape:
        raise ValueError(f"indices has shape {indices.shape}; expected (episodes, digits), neither of them 0")
    if indices.min() < 0 or indices.max() >= len(dataset.labels):
        raise ValueError(
            f"indices span {indices.min()}..{indices.max()}, but {dataset.source} {dataset.split} "
            f"has images 0..{len(dataset.labels) - 1}"
        )
    if starts is not None and np.shape(starts) != (len(indices), 2):
        raise ValueError(
            f"starts has shape {np.shape(starts)}; expected {(len(indices), 2)}: one (x, y) each"
        )
    level, size = _checked(dataset, indices.shape[1], size)
    if level > 1 and not _exact_factor(size):
        return _scene_bank(dataset, indices, size, starts)
    used, scenes = np.unique(indices, return_inverse=True)
    return _tile_bank(dataset, used, level, size, _episodes(scenes.reshape(indices.shape), starts))


def _checked(dataset: Any, level: Any, size: Any) -> tuple[int, int]:
    checked_dataset(dataset)
    return whole_number("level", level, "digits", 1), whole_number("size", size, "pixels per digit", 1)


def _exact_factor(size: int) -> int:
    """The power-of-two factor that the integer pipeline enlarges by to ``size`` whole words, or 0."""
    factor = size // pipeline.NATIVE
    exact = size % pipeline.NATIVE == 0 and factor & (factor - 1) == 0 and 2 <= factor <= bitmap.WORD_BITS
    return factor if exact and size % bitmap.WORD_BITS == 0 else 0


def _episodes(scenes: NDArray[np.integer], starts: NDArray[np.integer] | None) -> Episodes:
    return Episodes(
        jax.device_put(scenes.astype(np.int32)),
        None if starts is None else jax.device_put(np.asarray(starts, np.int32)),
    )


def _native_factor(size: int) -> int:
    return size // pipeline.NATIVE if size % pipeline.NATIVE == 0 else 0


def _tile_bank(
    dataset: Dataset, used: NDArray[np.integer], level: int, size: int, episodes: Episodes | None
) -> Bank:
    """One digit a tile. used: (T,), which images."""
    images = dataset.images[used]
    factor = _exact_factor(size)
    tiles, row_ends = _tiles(images, factor) if factor else _pillow_tiles(images, size)
    return Bank(
        tiles=jax.device_put(tiles),
        row_ends=jax.device_put(row_ends),
        block_ends=jax.device_put(block_ends(row_ends)),
        stroke_totals=jax.device_put(row_ends[:, -1:]),
        answers=jax.device_put(dataset.labels[used][:, None].astype(np.int32)),
        indices=jax.device_put(used[:, None].astype(np.int32)),
        seams=seams(images, factor) if level > 1 else None,
        episodes=episodes,
        tile_width=size,
        tiles_per_scene=level,
        num_classes=dataset.num_classes,
        native_factor=_native_factor(size),
    )


def _scene_bank(
    dataset: Dataset, indices: NDArray[np.integer], size: int, starts: NDArray[np.integer] | None
) -> Bank:
    """One whole scene a tile. indices: (E, n)."""
    count, level = indices.shape
    side_by_side = dataset.images[indices].swapaxes(1, 2).reshape(count, pipeline.NATIVE, -1)
    tiles, row_ends = _pillow_tiles(side_by_side, size)
    device_tiles = jax.device_put(tiles)
    totals = [
        bitmap.popcount(device_tiles & _part_span(part, size, tiles.shape[1])[:, None], axis=(1, 2))
        for part in range(level)
    ]
    return Bank(
        tiles=device_tiles,
        row_ends=jax.device_put(row_ends),
        block_ends=jax.device_put(block_ends(row_ends)),
        stroke_totals=jnp.stack(totals, axis=-1),
        answers=jax.device_put(dataset.labels[indices].astype(np.int32)),
        indices=jax.device_put(indices.astype(np.int32)),
        seams=None,
        episodes=_episodes(np.arange(count)[:, None], starts),
        tile_width=size * level,
        tiles_per_scene=1,
        num_classes=dataset.num_classes,
        native_factor=_native_factor(size),
    )


def _part_span(part: int, size: int, words: int) -> jax.Array:
    return bitmap.span(jnp.asarray(part * size, jnp.int32), jnp.asarray((part + 1) * size, jnp.int32), words)


_packed = jax.jit(pipeline.packed_strokes, static_argnames="factor")


def _tiles(images: NDArray[np.uint8], factor: int) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """``Bank.tiles`` and ``Bank.row_ends`` of uint8 (N, 28, 28) digits, a chunk at a time."""
    count = len(images)
    size = pipeline.NATIVE * factor
    tiles = np.empty((count, bitmap.num_words(size) + 1, size), np.uint32)
    row_ends = np.empty((count, size), np.int32)

    def fill(start: int) -> None:
        # The last chunk reaches back, so that every chunk has the same shape and compiles once.
        first = max(0, min(start, count - _CHUNK))
        packed = np.asarray(_packed(jax.device_put(images[first : first + _CHUNK]), factor=factor))
        tiles[first : first + _CHUNK, :-1] = packed
        tiles[first : first + _CHUNK, -1] = 0
        # On the host: another small program would take longer to compile than to run.
        strokes = np.bitwise_count(packed).sum(axis=1, dtype=np.int32)
        np.cumsum(strokes, axis=-1, out=row_ends[first : first + _CHUNK])

    fill(0)  # compiles before the threads start
    # One chunk keeps one core busy.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        list(pool.map(fill, range(_CHUNK, count, _CHUNK)))
    return tiles, row_ends


def _pillow_tiles(images: NDArray[np.uint8], size: int) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
    """As ``_tiles``, from uint8 (N, 28, 28 n) images and at any size, through Pillow on the host."""
    from PIL import Image

    count, _, width = images.shape
    target = (size * (width // pipeline.NATIVE), size)
    stroke = np.empty((count, target[1], target[0]), np.bool_)
    for number, image in enumerate(images):
        enlarged = Image.fromarray(255 - image).resize(target, Image.Resampling.BILINEAR)
        stroke[number] = np.asarray(enlarged) <= pipeline.THRESHOLD
    padding = (bitmap.num_words(target[0]) + 1) * bitmap.WORD_BITS - target[0]
    octets = np.packbits(np.pad(stroke, ((0, 0), (0, 0), (0, padding))), axis=-1, bitorder="little")
    words = np.ascontiguousarray(octets).view("<u4").swapaxes(-1, -2)
    row_ends = np.cumsum(stroke.sum(axis=-1), axis=-1, dtype=np.int32)
    return np.ascontiguousarray(words), row_ends
