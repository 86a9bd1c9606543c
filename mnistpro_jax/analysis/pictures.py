"""Picture files of stored episodes: contact sheets, GIFs and a grid of what was seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from mnistpro_jax.data.whole_file import whole_file
from mnistpro_jax.render.animation import save_gif
from mnistpro_jax.render.contact_sheet import contact_sheet
from mnistpro_jax.render.grid import grid
from mnistpro_jax.render.published import composite_picture

Pixels = npt.NDArray[np.uint8]


def write_episode_pictures(
    folder: Path,
    record: dict[str, Any],
    canvas: Pixels,
    *,
    window: int,
    outline: bool,
    remembered: bool = False,
    sheet: bool = True,
    gif: bool = True,
) -> list[Path]:
    """Write ``episode-0000.png`` (contact sheet) and ``.gif`` of an episode to ``folder``; returns their
    paths.

    Arguments as in ``render.frames.episode_frames``. Existing files of these names are replaced.
    """
    written = []
    if sheet:
        target = folder / f"episode-{record['episode']:04d}.png"
        image = contact_sheet(record, canvas, window, outline, remembered)
        written.append(_write(target, lambda path: image.save(path, format="PNG")))
    if gif:
        target = folder / f"episode-{record['episode']:04d}.gif"
        written.append(
            _write(target, lambda path: save_gif(path, record, canvas, window, outline, remembered))
        )
    return written


def write_grid(
    path: Path, records: Sequence[dict[str, Any]], canvases: Sequence[Pixels], window: int
) -> Path:
    """Write one picture of what each episode had seen at its end (grey: never seen), row by row."""
    pictures = [
        composite_picture(canvas, record["windows"], window)
        for record, canvas in zip(records, canvases, strict=True)
    ]
    height, width = canvases[0].shape
    columns = max(1, round(math.sqrt(len(pictures) * height / width)))
    image = Image.fromarray(grid(np.stack(pictures), columns, separator=4))
    return _write(path, lambda unfinished: image.save(unfinished, format="PNG"))


def _write(path: Path, save: Callable[[Path], object]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as unfinished:
        save(unfinished)
    return path
