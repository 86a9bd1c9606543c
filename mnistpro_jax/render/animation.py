"""An episode as an animated GIF, captions included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from mnistpro_jax.render.checked import Pixels, checked_canvas
from mnistpro_jax.render.drawing import FAINT_INK, INK, PAPER, draw_bar, font_of
from mnistpro_jax.render.frames import episode_frames
from mnistpro_jax.render.published import Colour
from mnistpro_jax.render.seen import coverage_along
from mnistpro_jax.render.words import verdict


def save_gif(
    path: str | Path,
    episode: dict[str, Any],
    canvas: npt.ArrayLike,
    window: int = 64,
    outline: bool = True,
    remembered: bool = False,
    scale: int = 2,
    milliseconds: int = 500,
) -> Path:
    """Write an episode as an endless animated GIF, with a caption under each picture; returns the path.

    One frame for each window shown (moves + 1), then one that uncovers the canvas and gives the verdict,
    held longer. Arguments as in ``episode_frames``; scale: enlargement, >= 1; milliseconds: time a frame.
    Missing folders are created.

    Raises ValueError where canvas, window and record do not fit each other, or for a bad scale or time.
    """
    if scale < 1 or milliseconds < 20:
        raise ValueError(f"scale must be >= 1 and milliseconds >= 20; got {scale} and {milliseconds}")
    canvas = checked_canvas(canvas)
    pictures = list(episode_frames(episode, canvas, window, outline, remembered))
    coverage = coverage_along(canvas, episode["windows"], window)
    names = ["start", *episode["actions"]]
    captions = [(f"step {index}: {names[index]}", INK) for index in range(len(pictures))]
    pictures.append(np.repeat(canvas[..., None], 3, axis=-1))
    coverage.append(coverage[-1])
    captions.append(verdict(episode))

    width = scale * canvas.shape[1]
    strips = [_caption_strip(width, *caption, seen) for caption, seen in zip(captions, coverage, strict=True)]

    # One palette for all frames holds every colour exactly, so the pictures survive the format unchanged.
    packed_pictures, packed_strips = [_packed(part) for part in pictures], [_packed(part) for part in strips]
    palette = np.unique(np.concatenate([np.unique(part) for part in packed_pictures + packed_strips]))
    assert len(palette) <= 256, "caption strips are drawn in few enough shades for one palette"
    entries = np.stack([palette >> 16, palette >> 8 & 255, palette & 255], axis=-1).astype(np.uint8).tobytes()
    images = []
    for picture, strip in zip(packed_pictures, packed_strips, strict=True):
        enlarged = picture.repeat(scale, axis=0).repeat(scale, axis=1)
        image = Image.fromarray(np.searchsorted(palette, np.concatenate([enlarged, strip])).astype(np.uint8))
        image.putpalette(entries)
        images.append(image)
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    durations = [milliseconds] * (len(images) - 1) + [4 * milliseconds]
    first, *rest = images
    first.save(
        path, format="GIF", save_all=True, append_images=rest, duration=durations, loop=0, optimize=False
    )
    return path


def _caption_strip(width: int, text: str, colour: Colour, coverage: float) -> Pixels:
    """What stands under a GIF frame: the text, the stroke coverage and a bar of it; uint8 (h, width, 3)."""
    size = min(max(width // 22, 10), 18)
    height = 2 * size + 10
    strip = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(strip)
    side = size // 2
    baseline = size + size // 2
    draw.text((side, baseline), text, fill=colour, font=font_of(size), anchor="ls")
    draw.text(
        (width - side, baseline), f"{coverage:.0%} seen", fill=FAINT_INK, font=font_of(size), anchor="rs"
    )
    draw_bar(draw, side, height - size // 2 - 2, width - 2 * side, coverage)
    # Sixteen shades a channel are plenty for smooth letters, and few enough for the palette of a GIF.
    return np.asarray(strip) // 16 * 17


def _packed(picture: Pixels) -> npt.NDArray[np.uint32]:
    """Colours as single numbers: uint8 (h, w, 3) -> uint32 (h, w)."""
    packed: npt.NDArray[np.uint32] = picture.astype(np.uint32) @ np.array(
        [1 << 16, 1 << 8, 1], dtype=np.uint32
    )
    return packed
