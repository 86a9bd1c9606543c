"""The published study as data: its episode list, canvases, window starts and best figures.

Source: "MNIST-PRO: MNIST is Back as a Partially Observable World for AI Agents" (arXiv 2608.31022) and its
public reference code. Everything here runs on the host with numpy and the standard library, and is
bit-exact: the same images, the same canvas bytes and the same first glimpse as in the study. Pillow, which
the study used to draw its canvases, is not needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mnistpro_jax import data

PUBLISHED_SEED = 42
PUBLISHED_EPISODES = 100
PUBLISHED_LEVELS = (1, 2)
PUBLISHED_WINDOW = 64
PUBLISHED_SIZE = 224
"""Pixels of a canvas, a digit."""

UPSCALING = 8
STROKE = 0
BACKGROUND = 255
_THRESHOLD = 200
_CLASSES = 10


@dataclasses.dataclass(frozen=True)
class PublishedFigure:
    """One result of the published study.

    accuracy_percent: exact-match accuracy over the 100 episodes, 0..100. mean_steps: actions an episode, the
    answer included. model, setting: who, and how it was run. source: where the figure is printed.
    """

    accuracy_percent: float
    mean_steps: float
    model: str
    setting: str
    source: str


PUBLISHED_BEST: Mapping[int, PublishedFigure] = MappingProxyType(
    {
        1: PublishedFigure(88.0, 15.67, "Gemini-3.7-Flash", "tool harness", "arXiv 2608.31022"),
        2: PublishedFigure(63.0, 41.00, "Gemini-3.7-Flash", "tool harness", "arXiv 2608.31022"),
    }
)
"""The best published agent of each level: the numbers to beat."""

_NATIVE = "native multi-turn"
PUBLISHED_FIGURES: Mapping[int, tuple[PublishedFigure, ...]] = MappingProxyType(
    {
        level: tuple(
            PublishedFigure(accuracy, steps, model, setting, "arXiv 2608.31022")
            for accuracy, steps, model, setting in figures
        )
        for level, figures in {
            1: (
                (88.0, 15.67, "Gemini-3.7-Flash", "tool harness"),
                (68.0, 5.56, "Gemini-3.7-Flash", "online memory canvas"),
                (37.0, 5.74, "GPT-5.6-Sol", _NATIVE),
                (29.0, 4.62, "Qwen-3.8-27B", _NATIVE),
                (23.0, 15.96, "Claude-5-Sonnet", _NATIVE),
                (13.0, 2.76, "GLM-4.6V", _NATIVE),
            ),
            2: (
                (63.0, 41.00, "Gemini-3.7-Flash", "tool harness"),
                (38.0, 20.40, "Gemini-3.7-Flash", "online memory canvas"),
                (0.0, 43.24, "Claude-5-Sonnet", _NATIVE),
                (0.0, 13.99, "GPT-5.6-Sol", _NATIVE),
                (0.0, 9.23, "Qwen-3.8-27B", _NATIVE),
                (0.0, 5.25, "GLM-4.6V", _NATIVE),
            ),
        }.items()
    }
)
"""Published agents whose accuracy and steps are both printed, best first."""


@dataclasses.dataclass(frozen=True, eq=False)
class PublishedEpisodes:
    """The 100 episodes of one published level, in published order.

    level: n, digits an episode. window: side of the glimpse window in pixels that ``start_xy`` belongs to.
    indices: int32 (100, n), rows of the MNIST test split. labels: int32 (100, n), the answers, left to
    right. start_xy: int32 (100, 2), top-left corner (x, y) of the first window. images: uint8 (100, n, 28,
    28), ink bright as in MNIST.
    """

    level: int
    indices: npt.NDArray[np.int32]
    labels: npt.NDArray[np.int32]
    start_xy: npt.NDArray[np.int32]
    window: int
    images: npt.NDArray[np.uint8]

    def canvases(self) -> npt.NDArray[np.uint8]:
        """All canvases, uint8 (100, 224, 224n): 0 stroke, 255 background."""
        return canvas_of(self.images)


def published_episodes(level: int, window: int = PUBLISHED_WINDOW) -> PublishedEpisodes:
    """The published episodes of level 1 (one digit) or level 2 (two digits side by side).

    ``window`` is 64 in the main tables; the glimpse-size study also has 32 and 128. It moves the start,
    because the window is centred on the same stroke pixel, and nothing else. Reads the MNIST test split.

    Raises ValueError for a level that was not published or a window that does not fit the canvas.
    """
    if level not in PUBLISHED_LEVELS or isinstance(level, bool):
        raise ValueError(
            f"level {level!r} was not published: expected one of {PUBLISHED_LEVELS} (the number of digits). "
            "For more digits draw scenes with published_indices or build a bank of your own."
        )
    dataset = data.load("mnist", "test")
    indices = published_indices(dataset.labels, level)
    images = dataset.images[indices]
    starts = [published_start(canvas, window) for canvas in canvas_of(images)]
    return PublishedEpisodes(
        level=level,
        indices=indices,
        labels=dataset.labels[indices].astype(np.int32),
        start_xy=np.asarray(starts, dtype=np.int32),
        window=window,
        images=images,
    )


def published_indices(
    labels: npt.NDArray[np.integer], level: int, num_episodes: int = PUBLISHED_EPISODES
) -> npt.NDArray[np.int32]:
    """Which images the published episode list shows: int32 (num_episodes, level), rows of ``labels``.

    labels: integers (N,) in 0..9, the labels of the split in file order (published: MNIST test). level:
    digits an episode, >= 1. num_episodes: >= 0; a shorter list is the beginning of a longer one.

    Level 1 goes through the classes 0..9 in turn and draws one image of each, so every ten episodes are
    balanced. Higher levels draw the labels of an episode independently, then an image for each label.

    Raises ValueError for a bad level or number, labels outside 0..9, or a class without any image.
    """
    labels = np.asarray(labels)
    if isinstance(level, bool) or not isinstance(level, int | np.integer) or level < 1:
        raise ValueError(f"level must be a whole number of digits, 1 or more; got {level!r}")
    if num_episodes < 0:
        raise ValueError(f"num_episodes must not be negative; got {num_episodes}")
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"labels must be integers of shape (N,); got {labels.dtype} {labels.shape}")
    by_class = [np.flatnonzero(labels == digit).tolist() for digit in range(_CLASSES)]
    if sum(map(len, by_class)) != len(labels) or not all(by_class):
        raise ValueError(
            f"the published list needs labels 0..{_CLASSES - 1}, each at least once; got {np.unique(labels)}"
        )

    # A generator of its own: the same draws as seeding the module-level functions, without touching theirs.
    rng = random.Random(PUBLISHED_SEED)
    rows: list[list[int]] = []
    while len(rows) < num_episodes:
        if level == 1:
            rows.extend([rng.choice(members)] for members in by_class)
        else:
            drawn = [rng.randint(0, _CLASSES - 1) for _ in range(level)]
            rows.append([rng.choice(by_class[digit]) for digit in drawn])
    return np.asarray(rows[:num_episodes], dtype=np.int32).reshape(num_episodes, level)


def published_start(canvas: npt.NDArray[np.uint8], window: int = PUBLISHED_WINDOW) -> tuple[int, int]:
    """Top-left corner (x, y) of the first window of the published study: a fixed function of the canvas.

    canvas: uint8 (H, W), 0 stroke and 255 background. window: side in pixels, 1..min(H, W). The window is
    centred on one stroke pixel and clamped into the canvas; which pixel, the MD5 of the canvas bytes
    decides. Without any stroke the window is in the middle.

    Raises ValueError for a canvas of another dtype or rank, or a window that does not fit.
    """
    if canvas.ndim != 2 or canvas.dtype != np.uint8:
        raise ValueError(f"canvas must be uint8 of shape (H, W); got {canvas.dtype} {canvas.shape}")
    height, width = canvas.shape
    if not 1 <= window <= min(height, width):
        raise ValueError(
            f"window must be 1..{min(height, width)} to fit the canvas {canvas.shape}; got {window}"
        )
    ys, xs = np.nonzero(canvas == STROKE)
    if len(ys) == 0:
        return (width - window) // 2, (height - window) // 2
    digest = hashlib.md5(canvas.tobytes(), usedforsecurity=False).digest()
    seed = int.from_bytes(digest, "big") % 2**32
    pixel = np.random.RandomState(seed).randint(len(ys))
    x = min(max(int(xs[pixel]) - window // 2, 0), width - window)
    y = min(max(int(ys[pixel]) - window // 2, 0), height - window)
    return x, y


def canvas_of(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The canvas of n digits side by side: uint8 (..., n, h, w) -> uint8 (..., 8h, 8nw) of 0 and 255.

    images: ink bright on 0, as in MNIST (h = w = 28, canvas 224 x 224n). Result: 0 stroke, 255 background.
    Bit-exact to the published pipeline: concatenate, invert, enlarge eightfold with Pillow's bilinear
    filter, then threshold (above 200 is background). Neighbours matter: ink in the outermost column of a
    digit reaches into the digit beside it, so a pair is not always its two single canvases glued together.

    Raises ValueError for another dtype or less than three axes.
    """
    images = np.asarray(images)
    if images.ndim < 3 or images.dtype != np.uint8:
        raise ValueError(f"images must be uint8 of shape (..., n, h, w); got {images.dtype} {images.shape}")
    *batch, digits, height, width = images.shape
    row = np.moveaxis(images, -3, -2).reshape(*batch, height, digits * width)
    wide = _enlarge_rows(255 - row)
    both = _enlarge_rows(wide.swapaxes(-1, -2)).swapaxes(-1, -2)
    return np.where(both > _THRESHOLD, np.uint8(BACKGROUND), np.uint8(STROKE))


def _enlarge_rows(pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """One pass of Pillow's bilinear resize by 8 along the last axis: uint8 (..., m) -> uint8 (..., 8m).

    The centre of output r of a source pixel lies (2r - 7)/16 source pixels beside its middle, so the weight
    of the nearer neighbour is |2r - 7| exact sixteenths, and the fixed-point arithmetic of Pillow, rounded
    to uint8 after each pass, reduces to the integers below. Beyond the border there is no neighbour; Pillow
    gives its weight to the border pixel.
    """
    count = pixels.shape[-1]
    position = np.arange(UPSCALING * count)
    own, offset = position // UPSCALING, 2 * (position % UPSCALING) - (UPSCALING - 1)
    neighbour = np.clip(own + np.sign(offset), 0, count - 1)
    weight = np.abs(offset).astype(np.uint16)
    wide = pixels.astype(np.uint16)
    mixed = weight * wide[..., neighbour] + (2 * UPSCALING - weight) * wide[..., own]
    rounded: npt.NDArray[np.uint8] = ((mixed + UPSCALING) // (2 * UPSCALING)).astype(np.uint8)
    return rounded
