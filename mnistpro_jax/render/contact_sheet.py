"""One episode on one sheet: its path, its counts, and every frame in order."""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt
from PIL import Image, ImageDraw

from mnistpro_jax.render.checked import checked_canvas
from mnistpro_jax.render.drawing import (
    FAINT_INK,
    INK,
    PAPER,
    PATH_FIRST,
    PATH_LAST,
    RIGHT,
    RULE,
    WRONG,
    draw_bar,
    fitting_font,
    font_of,
    frame_around,
)
from mnistpro_jax.render.frames import episode_frames
from mnistpro_jax.render.path_panel import path_panel
from mnistpro_jax.render.seen import coverage_along
from mnistpro_jax.render.words import answer_text, digits_text, ending_text, verdict

# Layout, in pixels.
_MARGIN = 36
_GAP = 32
_PANEL = (896, 448)
_FACTS_WIDTH = 276
_FACTS_HEIGHT = 448
_TITLE_HEIGHT = 56
_LEGEND_HEIGHT = 32
_THUMB_HEIGHT = 112
_THUMB_GAP = 14
_CAPTION_HEIGHT = 38


def contact_sheet(
    episode: dict[str, Any],
    canvas: npt.ArrayLike,
    window: int = 64,
    outline: bool = True,
    remembered: bool = False,
) -> Image.Image:
    """One episode on one sheet, a Pillow RGB image of a size that depends on its length.

    At the top the full canvas, pale where it was never seen, with the path of the window drawn and its stops
    numbered; beside it answer and label, in green or red, and the counts. Below, every frame in order with
    its action and the stroke coverage so far, and the verdict as the last card. Arguments as in
    ``episode_frames``.

    Raises ValueError where canvas, window and record do not fit each other.
    """
    canvas = checked_canvas(canvas)
    frames = episode_frames(episode, canvas, window, outline, remembered)
    coverage = coverage_along(canvas, episode["windows"], window)

    height, width = canvas.shape
    panel_scale = min(_PANEL[0] / width, _PANEL[1] / height)
    panel_size = round(width * panel_scale), round(height * panel_scale)
    content = panel_size[0] + _GAP + _FACTS_WIDTH
    thumb_scale = min(_THUMB_HEIGHT / height, content / width)
    thumb_size = max(1, round(width * thumb_scale)), max(1, round(height * thumb_scale))
    columns = max(1, (content + _THUMB_GAP) // (thumb_size[0] + _THUMB_GAP))
    rows = math.ceil((len(frames) + 1) / columns)
    # Whatever the columns leave over goes between them, so that the grid ends flush with the header.
    pitch = (content - thumb_size[0]) / max(1, columns - 1)
    row_height = thumb_size[1] + _CAPTION_HEIGHT

    top_height = max(panel_size[1] + _LEGEND_HEIGHT, _FACTS_HEIGHT)
    grid_top = _MARGIN + _TITLE_HEIGHT + top_height + _GAP
    sheet = Image.new("RGB", (content + 2 * _MARGIN, grid_top + rows * row_height + _MARGIN), PAPER)
    draw = ImageDraw.Draw(sheet)

    _draw_title(draw, episode, sheet.width)
    top = _MARGIN + _TITLE_HEIGHT
    sheet.paste(path_panel(episode, canvas, window, panel_size), (_MARGIN, top))
    draw.rectangle(frame_around(_MARGIN, top, panel_size), outline=RULE)
    _draw_legend(draw, _MARGIN, top + panel_size[1] + 10)
    _draw_facts(draw, episode, _MARGIN + panel_size[0] + _GAP, top)

    for index in range(len(frames) + 1):
        left = _MARGIN + round(index % columns * pitch)
        upper = grid_top + index // columns * row_height
        if index == len(frames):
            _draw_verdict_card(draw, episode, left, upper, thumb_size)
            break
        sheet.paste(Image.fromarray(frames[index]).resize(thumb_size, Image.Resampling.BOX), (left, upper))
        action = "start" if index == 0 else episode["actions"][index - 1]
        baseline = upper + thumb_size[1] + 16
        draw.text((left, baseline), f"{index} {action}", fill=INK, font=font_of(12), anchor="ls")
        share = f"{coverage[index]:.0%}"
        draw.text((left + thumb_size[0], baseline), share, fill=FAINT_INK, font=font_of(12), anchor="rs")
        draw_bar(draw, left, baseline + 6, thumb_size[0], coverage[index])
    return sheet


def _draw_title(draw: ImageDraw.ImageDraw, episode: dict[str, Any], sheet_width: int) -> None:
    images = ", ".join(str(index) for index in episode["indices"])
    noun = "image" if len(episode["indices"]) == 1 else "images"
    where = f"level {episode['level']} \u00b7 {episode['source']} {episode['split']} \u00b7 {noun} {images}"
    baseline = _MARGIN + 22
    draw.text((_MARGIN, baseline), f"Episode {episode['episode']}", fill=INK, font=font_of(28), anchor="ls")
    draw.text((sheet_width - _MARGIN, baseline), where, fill=FAINT_INK, font=font_of(14), anchor="rs")
    draw.line([(_MARGIN, baseline + 16), (sheet_width - _MARGIN, baseline + 16)], fill=RULE, width=1)


def _draw_facts(draw: ImageDraw.ImageDraw, episode: dict[str, Any], left: int, top: int) -> None:
    """Answer and label in large figures, then the counts of the episode, one a line."""
    colour = RIGHT if episode["correct"] else WRONG
    half = _FACTS_WIDTH // 2
    figures = [("answer", answer_text(episode), colour), ("label", digits_text(episode["labels"]), INK)]
    for x, (name, value, fill) in zip((left, left + half), figures, strict=True):
        draw.text((x, top + 12), name, fill=FAINT_INK, font=font_of(14), anchor="ls")
        fitting = fitting_font(draw, value, 56, half - 24)
        draw.text((x, top + 68), value, fill=fill, font=fitting, anchor="ls")
    draw.text((left, top + 98), verdict(episode)[0], fill=colour, font=font_of(16), anchor="ls")

    lines = [
        ("ending", ending_text(episode)),
        ("steps", str(episode["steps"])),
        ("moves", str(episode["moves"])),
        ("revisits", str(episode["revisits"])),
        ("return", f"{episode['return']:.1f}"),
        ("stroke seen", f"{episode['stroke_coverage']:.1%}"),
        ("stroke seen, readable", f"{episode['stroke_coverage_readable']:.1%}"),
        ("area seen", f"{episode['area_coverage']:.1%}"),
    ]
    if episode["level"] > 1:
        shares = ", ".join(f"{share:.0%}" for share in episode["digit_stroke_coverage"][:4])
        more = ", ..." if episode["level"] > 4 else ""
        lines.append(("each digit", shares + more))
    for index, (name, value) in enumerate(lines):
        baseline = top + 140 + 30 * index
        draw.line([(left, baseline - 20), (left + _FACTS_WIDTH, baseline - 20)], fill=RULE, width=1)
        draw.text((left, baseline), name, fill=FAINT_INK, font=font_of(14), anchor="ls")
        draw.text((left + _FACTS_WIDTH, baseline), value, fill=INK, font=font_of(14), anchor="rs")


def _draw_legend(draw: ImageDraw.ImageDraw, left: int, top: int) -> None:
    x = left
    for colour, text in ((PATH_FIRST, "first window"), (PATH_LAST, "last window")):
        draw.rectangle([x, top + 1, x + 9, top + 10], outline=colour, width=2)
        draw.text((x + 16, top + 10), text, fill=FAINT_INK, font=font_of(12), anchor="ls")
        x += 16 + round(draw.textlength(text, font=font_of(12))) + 20
    text = "number: moves made \u00b7 ring: came again \u00b7 pale: never seen"
    draw.text((x, top + 10), text, fill=FAINT_INK, font=font_of(12), anchor="ls")


def _draw_verdict_card(
    draw: ImageDraw.ImageDraw, episode: dict[str, Any], left: int, top: int, size: tuple[int, int]
) -> None:
    """The last card of the grid: the answer in the colour of its verdict."""
    text, colour = verdict(episode)
    value = answer_text(episode)
    draw.rectangle(frame_around(left + 1, top + 1, (size[0] - 2, size[1] - 2)), outline=colour, width=2)
    centre = left + size[0] // 2, top + size[1] // 2
    draw.text(centre, value, fill=colour, font=fitting_font(draw, value, 64, size[0] - 32), anchor="mm")
    draw.text((left, top + size[1] + 16), text, fill=colour, font=font_of(12), anchor="ls")
