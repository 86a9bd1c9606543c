"""The full canvas with the path of the window over it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from mnistpro_jax.render.checked import Pixels, checked_windows
from mnistpro_jax.render.drawing import PAPER, PATH_FIRST, PATH_LAST, font_of
from mnistpro_jax.render.published import Colour
from mnistpro_jax.render.seen import seen_mask

_DISC_RADIUS = 10
# Lines and discs are drawn this much larger and reduced, which smooths their edges.
_SMOOTHING = 3


def path_panel(episode: dict[str, Any], canvas: Pixels, window: int, size: tuple[int, int]) -> Image.Image:
    """The full canvas, pale where never seen, with the way of the window's centre over it."""
    corners = checked_windows(episode["windows"], window, canvas)
    pale = (200 + 0.2 * (canvas.astype(np.float32) - 128)).astype(np.uint8)
    shown = np.where(seen_mask(canvas.shape, corners, window), canvas, pale)
    whole = size[0] % canvas.shape[1] == 0 and size[1] % canvas.shape[0] == 0
    resampling = Image.Resampling.NEAREST if whole else Image.Resampling.BICUBIC
    panel = Image.fromarray(shown).resize(size, resampling).convert("RGBA")

    zoom = _SMOOTHING * size[0] / canvas.shape[1]
    layer = Image.new("RGBA", (size[0] * _SMOOTHING, size[1] * _SMOOTHING), (*PAPER, 0))
    draw = ImageDraw.Draw(layer)
    unit = _SMOOTHING
    last = max(1, len(corners) - 1)
    for (x, y), colour in ((corners[0], PATH_FIRST), (corners[-1], PATH_LAST)):
        box = [x * zoom, y * zoom, (x + window) * zoom - 1, (y + window) * zoom - 1]
        draw.rectangle(box, outline=colour, width=2 * unit)

    centres = [((x + window / 2) * zoom, (y + window / 2) * zoom) for x, y in corners]
    for width, halo in ((7 * unit, True), (4 * unit, False)):
        for index in range(len(centres) - 1):
            colour = PAPER if halo else _along_path((index + 0.5) / last)
            draw.line([centres[index], centres[index + 1]], fill=colour, width=width)

    visits = Counter(corners)
    # Backwards, so that of stops that overlap the earlier lies on top.
    for index, corner in reversed(list(enumerate(corners))):
        if corner in corners[:index]:
            continue
        x, y = centres[index]
        colour = _along_path(index / last)
        if visits[corner] > 1:
            _draw_disc(draw, x, y, _DISC_RADIUS + 4, PAPER)
            _draw_disc(draw, x, y, _DISC_RADIUS + 2.5, colour)
        _draw_disc(draw, x, y, _DISC_RADIUS, PAPER)
        _draw_disc(draw, x, y, _DISC_RADIUS - 1.5, colour)
        draw.text((x, y), str(index), fill=PAPER, font=font_of(11 * unit), anchor="mm")
    panel.alpha_composite(layer.resize(size, Image.Resampling.LANCZOS))
    return panel.convert("RGB")


def _draw_disc(draw: ImageDraw.ImageDraw, x: float, y: float, radius: float, fill: Colour) -> None:
    """A disc on the enlarged layer; x and y on that layer, the radius in pixels of the sheet."""
    reach = radius * _SMOOTHING
    draw.ellipse([x - reach, y - reach, x + reach, y + reach], fill=fill)


def _along_path(share: float) -> Colour:
    """Colour of a point of the path: from the first window's to the last window's."""
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(PATH_FIRST, PATH_LAST, strict=True))
    return red, green, blue
