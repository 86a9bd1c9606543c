"""What sheets and captions are drawn with: colours, the font, bars and frames."""

from __future__ import annotations

from PIL import ImageDraw, ImageFont

from mnistpro_jax.render.published import Colour

PAPER: Colour = (255, 255, 255)
INK: Colour = (32, 33, 36)
FAINT_INK: Colour = (110, 115, 122)
RULE: Colour = (218, 221, 226)
RIGHT: Colour = (24, 128, 56)
WRONG: Colour = (197, 34, 31)
PATH_FIRST: Colour = (37, 99, 235)
PATH_LAST: Colour = (234, 88, 12)

_BAR_HEIGHT = 3


def font_of(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font: the same on every machine."""
    return ImageFont.load_default(size)


def fitting_font(
    draw: ImageDraw.ImageDraw, text: str, size: int, width: int
) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font at the given size, or as much smaller as the text needs to fit the width (but legible)."""
    while size > 12 and draw.textlength(text, font=font_of(size)) > width:
        size -= 2
    return font_of(size)


def draw_bar(draw: ImageDraw.ImageDraw, left: int, top: int, width: int, share: float) -> None:
    """A flat bar of ``width`` pixels, filled from the left by ``share``, 0..1."""
    draw.rectangle([left, top, left + width - 1, top + _BAR_HEIGHT - 1], fill=RULE)
    if round(share * width) > 0:
        draw.rectangle([left, top, left + round(share * width) - 1, top + _BAR_HEIGHT - 1], fill=PATH_FIRST)


def frame_around(left: int, top: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The rectangle one pixel outside an area."""
    return left - 1, top - 1, left + size[0], top + size[1]
