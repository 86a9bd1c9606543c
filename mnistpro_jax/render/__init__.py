"""Pictures of states and episodes: the published picture, memory canvases, GIFs and contact sheets.

The two pictures that a model is shown (arXiv 2608.31022 and its public reference code) are written with numpy
slices and equal the Pillow drawing of the published study byte for byte, for windows of 2 px and more. Files
and sheets need Pillow, which is imported where it is used.

Canvas means the full canvas everywhere: uint8 (H, W), 0 stroke and 255 background. Windows are top-left
corners (x, y) in pixels, x to the right and y down.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import Image, ImageDraw, ImageFont

Pixels = npt.NDArray[np.uint8]
Colour = tuple[int, int, int]

GREY: Colour = (128, 128, 128)
CYAN: Colour = (0, 229, 255)
PALETTE: tuple[Colour, ...] = (GREY, (0, 0, 0), (255, 255, 255), CYAN)
"""The four colours of the pictures that a model is shown."""
OUTLINE_WIDTH = 2

# Sheets and captions.
PAPER: Colour = (255, 255, 255)
INK: Colour = (32, 33, 36)
FAINT_INK: Colour = (110, 115, 122)
RULE: Colour = (218, 221, 226)
RIGHT: Colour = (24, 128, 56)
WRONG: Colour = (197, 34, 31)
PATH_FIRST: Colour = (37, 99, 235)
PATH_LAST: Colour = (234, 88, 12)
SEPARATOR: Colour = (40, 44, 52)

# How much of the contrast to mid-grey a remembered pixel keeps, so that the live window stands out.
_REMEMBERED_CONTRAST = 0.35

# Layout of the contact sheet and of captions, in pixels.
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
_BAR_HEIGHT = 3
_DISC_RADIUS = 10
# Lines and discs are drawn this much larger and reduced, which smooths their edges.
_SMOOTHING = 3


# ---- The pictures a model is shown ----


def published_picture(
    canvas: npt.ArrayLike, xy: npt.ArrayLike, window: int = 64, outline: bool = True
) -> Pixels:
    """The published observation: uint8 (H, W, 3), grey but for the window.

    canvas: uint8 (H, W) of 0 and 255. xy: (x, y), with the window inside the canvas. window: side in pixels.
    outline: draw the cyan outline, 2 px wide and with the far corner inclusive, as published; it covers the
    outer pixels of the window, of which columns and rows 2..window-2 stay readable.

    Raises ValueError for a canvas or a window position that is not as described.
    """
    return composite_picture(canvas, np.asarray(xy)[None], window, outline)


def composite_picture(
    canvas: npt.ArrayLike, windows: npt.ArrayLike, window: int = 64, outline: bool = False
) -> Pixels:
    """The visual-memory canvas: uint8 (H, W, 3), grey but for all windows (K, 2) shown at once.

    Arguments as in ``published_picture``. Outlines, if asked for, lie over all windows. K may be 0.
    Raises ValueError for a canvas or a window position that is not as described.
    """
    canvas = _checked_canvas(canvas)
    # one number for all channels: thrice as fast
    picture = np.full((*canvas.shape, 3), GREY[0], dtype=np.uint8)
    corners = _checked_windows(windows, window, canvas)
    return _show(picture, canvas[..., None], corners, window, CYAN if outline else None)


def composite_numbers(
    canvas: npt.ArrayLike, windows: npt.ArrayLike, window: int = 64, outline: bool = False
) -> Pixels:
    """``composite_picture`` as numbers of colours: uint8 (H, W), indices into ``PALETTE``.

    Raises ValueError as it does.
    """
    canvas = _checked_canvas(canvas)
    corners = _checked_windows(windows, window, canvas)
    # 0 and 255 to 1 and 2; grey is 0 and cyan 3.
    return _show(
        np.zeros_like(canvas), (canvas & np.uint8(1)) + np.uint8(1), corners, window, 3 if outline else None
    )


def _show(
    picture: Pixels,
    revealed: Pixels,
    corners: list[tuple[int, int]],
    window: int,
    ring: int | tuple[int, int, int] | None,
) -> Pixels:
    """Write what the windows reveal into a picture, and then their outlines where ``ring`` is a colour."""
    for x, y in corners:
        inside = slice(y, y + window), slice(x, x + window)
        picture[inside] = revealed[inside]
    if ring is not None:
        for x, y in corners:
            _draw_outline(picture, x, y, window, ring)
    return picture


def _draw_outline(picture: Pixels, x: int, y: int, window: int, colour: int | tuple[int, int, int]) -> None:
    """Draw a ring from (x, y) to (x + window, y + window), both included, clipped at the borders."""
    rows, columns = slice(y, y + window + 1), slice(x, x + window + 1)
    for near in range(OUTLINE_WIDTH):
        far = window - near
        picture[y + near : y + near + 1, columns] = colour
        picture[y + far : y + far + 1, columns] = colour
        picture[rows, x + near : x + near + 1] = colour
        picture[rows, x + far : x + far + 1] = colour


def grid(pictures: npt.ArrayLike, columns: int, separator: int = 2) -> Pixels:
    """A batch of equal pictures as one, row by row: uint8 (N, H, W[, 3]) -> (H', W'[, 3]).

    columns: pictures a row, >= 1. separator: width in pixels of the dark lines between pictures, >= 0. Cells
    that stay empty in the last row are dark too.

    Raises ValueError for an empty batch, another shape or dtype, or a bad number of columns or separator
    width.
    """
    batch = np.asarray(pictures)
    if batch.dtype != np.uint8 or batch.ndim not in (3, 4) or (batch.ndim == 4 and batch.shape[3] != 3):
        raise ValueError(
            f"pictures must be uint8 of shape (N, H, W) or (N, H, W, 3); got {batch.dtype} {batch.shape}"
        )
    if len(batch) == 0 or columns < 1 or separator < 0:
        raise ValueError(
            "a grid needs at least one picture, columns >= 1 and separator >= 0; "
            f"got {len(batch)} pictures, columns {columns}, separator {separator}"
        )
    number, height, width = batch.shape[:3]
    columns = min(columns, number)
    rows = math.ceil(number / columns)
    dark = SEPARATOR if batch.ndim == 4 else SEPARATOR[1]
    shape = (rows * (height + separator) - separator, columns * (width + separator) - separator)
    sheet = np.full(shape + batch.shape[3:], dark, dtype=np.uint8)
    for index, picture in enumerate(batch):
        top, left = (index // columns) * (height + separator), (index % columns) * (width + separator)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def states_grid(
    canvases: npt.ArrayLike,
    xys: npt.ArrayLike,
    window: int = 64,
    columns: int | None = None,
    outline: bool = True,
) -> Pixels:
    """Many states at a glance: the published pictures of a batch as one grid, uint8 (H', W', 3).

    canvases: uint8 (N, H, W) of 0 and 255. xys: (N, 2), the window of each. columns: pictures a row; by
    default as many as make the grid about square.

    Raises ValueError where the batch sizes differ, or for what ``published_picture`` and ``grid`` refuse.
    """
    canvases, xys = np.asarray(canvases), np.asarray(xys)
    if canvases.ndim != 3 or xys.shape != (len(canvases), 2):
        raise ValueError(
            f"expected canvases (N, H, W) and windows (N, 2) of the same N; "
            f"got {canvases.shape} and {xys.shape}"
        )
    pictures = np.empty((*canvases.shape, 3), dtype=np.uint8)
    for index, (canvas, xy) in enumerate(zip(canvases, xys, strict=True)):
        pictures[index] = published_picture(canvas, xy, window, outline)
    if columns is None:
        number, height, width = canvases.shape
        columns = max(1, round(math.sqrt(number * height / width)))
    return grid(pictures, columns)


# ---- Episodes ----


def episode_frames(
    episode: dict[str, Any],
    canvas: npt.ArrayLike,
    window: int = 64,
    outline: bool = True,
    remembered: bool = False,
) -> Pixels:
    """What the agent was shown, turn by turn: uint8 (moves + 1, H, W, 3) published pictures.

    episode: a record of ``read_episodes``. canvas: uint8 (H, W), the canvas of that episode. remembered:
    also show, dimly, what earlier windows had revealed (for people: the agent was not shown it).

    Raises ValueError where canvas, window and record do not fit each other.
    """
    canvas = _checked_canvas(canvas)
    corners = _checked_windows(episode["windows"], window, canvas)
    if not 1 <= len(corners) <= len(episode["actions"]) + 1:
        raise ValueError(
            "an episode shows one window after reset and one after each move; "
            f"got {len(corners)} windows and {len(episode['actions'])} actions"
        )
    frames = np.empty((len(corners), *canvas.shape, 3), dtype=np.uint8)
    for index, corner in enumerate(corners):
        picture = published_picture(canvas, corner, window, outline)
        if remembered:
            hidden = (picture == GREY).all(axis=-1) & _seen(corners[:index], window, canvas)
            dim = GREY[0] + _REMEMBERED_CONTRAST * (canvas[hidden].astype(np.float32) - GREY[0])
            picture[hidden] = np.rint(dim).astype(np.uint8)[:, None]
        frames[index] = picture
    return frames


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
    from PIL import Image

    if scale < 1 or milliseconds < 20:
        raise ValueError(f"scale must be >= 1 and milliseconds >= 20; got {scale} and {milliseconds}")
    canvas = _checked_canvas(canvas)
    pictures = list(episode_frames(episode, canvas, window, outline, remembered))
    coverage = _coverage_so_far(episode, canvas, window)
    names = ["start", *episode["actions"]]
    captions = [(f"step {index}: {names[index]}", INK) for index in range(len(pictures))]
    pictures.append(np.repeat(canvas[..., None], 3, axis=-1))
    coverage.append(coverage[-1])
    captions.append(_verdict(episode))

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
    from PIL import Image, ImageDraw

    canvas = _checked_canvas(canvas)
    frames = episode_frames(episode, canvas, window, outline, remembered)
    coverage = _coverage_so_far(episode, canvas, window)

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
    sheet.paste(_path_panel(episode, canvas, window, panel_size), (_MARGIN, top))
    draw.rectangle(_frame_around(_MARGIN, top, panel_size), outline=RULE)
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
        draw.text((left, baseline), f"{index} {action}", fill=INK, font=_font(12), anchor="ls")
        share = f"{coverage[index]:.0%}"
        draw.text((left + thumb_size[0], baseline), share, fill=FAINT_INK, font=_font(12), anchor="rs")
        _draw_bar(draw, left, baseline + 6, thumb_size[0], coverage[index])
    return sheet


# ---- Parts of the contact sheet and the captions ----


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Pillow's own font: the same on every machine."""
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _fitting_font(
    draw: ImageDraw.ImageDraw, text: str, size: int, width: int
) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """The font at the given size, or as much smaller as the text needs to fit the width (but legible)."""
    while size > 12 and draw.textlength(text, font=_font(size)) > width:
        size -= 2
    return _font(size)


def _ending_text(episode: dict[str, Any]) -> str:
    return str(episode["ending"]).lower().replace("_", " ")


def _answer_text(episode: dict[str, Any]) -> str:
    return "none" if episode["answer"] is None else _digits(episode["answer"])


def _digits(values: Sequence[int]) -> str:
    return "".join(str(value) for value in values)


def _verdict(episode: dict[str, Any]) -> tuple[str, Colour]:
    """How the episode ended, in a few words, and the colour to say it in."""
    label = _digits(episode["labels"])
    if episode["answer"] is None:
        return f"{_ending_text(episode)}, label {label}", WRONG
    answer = _digits(episode["answer"])
    if episode["correct"]:
        return f"answer {answer}: right", RIGHT
    return f"answer {answer}, label {label}: wrong", WRONG


def _draw_title(draw: ImageDraw.ImageDraw, episode: dict[str, Any], sheet_width: int) -> None:
    images = ", ".join(str(index) for index in episode["indices"])
    noun = "image" if len(episode["indices"]) == 1 else "images"
    where = f"level {episode['level']} \u00b7 {episode['source']} {episode['split']} \u00b7 {noun} {images}"
    baseline = _MARGIN + 22
    draw.text((_MARGIN, baseline), f"Episode {episode['episode']}", fill=INK, font=_font(28), anchor="ls")
    draw.text((sheet_width - _MARGIN, baseline), where, fill=FAINT_INK, font=_font(14), anchor="rs")
    draw.line([(_MARGIN, baseline + 16), (sheet_width - _MARGIN, baseline + 16)], fill=RULE, width=1)


def _draw_facts(draw: ImageDraw.ImageDraw, episode: dict[str, Any], left: int, top: int) -> None:
    """Answer and label in large figures, then the counts of the episode, one a line."""
    colour = RIGHT if episode["correct"] else WRONG
    half = _FACTS_WIDTH // 2
    figures = [("answer", _answer_text(episode), colour), ("label", _digits(episode["labels"]), INK)]
    for x, (name, value, fill) in zip((left, left + half), figures, strict=True):
        draw.text((x, top + 12), name, fill=FAINT_INK, font=_font(14), anchor="ls")
        font = _fitting_font(draw, value, 56, half - 24)
        draw.text((x, top + 68), value, fill=fill, font=font, anchor="ls")
    draw.text((left, top + 98), _verdict(episode)[0], fill=colour, font=_font(16), anchor="ls")

    lines = [
        ("ending", _ending_text(episode)),
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
        draw.text((left, baseline), name, fill=FAINT_INK, font=_font(14), anchor="ls")
        draw.text((left + _FACTS_WIDTH, baseline), value, fill=INK, font=_font(14), anchor="rs")


def _draw_legend(draw: ImageDraw.ImageDraw, left: int, top: int) -> None:
    x = left
    for colour, text in ((PATH_FIRST, "first window"), (PATH_LAST, "last window")):
        draw.rectangle([x, top + 1, x + 9, top + 10], outline=colour, width=2)
        draw.text((x + 16, top + 10), text, fill=FAINT_INK, font=_font(12), anchor="ls")
        x += 16 + round(draw.textlength(text, font=_font(12))) + 20
    text = "number: moves made \u00b7 ring: came again \u00b7 pale: never seen"
    draw.text((x, top + 10), text, fill=FAINT_INK, font=_font(12), anchor="ls")


def _draw_verdict_card(
    draw: ImageDraw.ImageDraw, episode: dict[str, Any], left: int, top: int, size: tuple[int, int]
) -> None:
    """The last card of the grid: the answer in the colour of its verdict."""
    text, colour = _verdict(episode)
    value = _answer_text(episode)
    draw.rectangle(_frame_around(left + 1, top + 1, (size[0] - 2, size[1] - 2)), outline=colour, width=2)
    centre = left + size[0] // 2, top + size[1] // 2
    draw.text(centre, value, fill=colour, font=_fitting_font(draw, value, 64, size[0] - 32), anchor="mm")
    draw.text((left, top + size[1] + 16), text, fill=colour, font=_font(12), anchor="ls")


def _draw_bar(draw: ImageDraw.ImageDraw, left: int, top: int, width: int, share: float) -> None:
    draw.rectangle([left, top, left + width - 1, top + _BAR_HEIGHT - 1], fill=RULE)
    if round(share * width) > 0:
        draw.rectangle([left, top, left + round(share * width) - 1, top + _BAR_HEIGHT - 1], fill=PATH_FIRST)


def _frame_around(left: int, top: int, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The rectangle one pixel outside an area."""
    return left - 1, top - 1, left + size[0], top + size[1]


def _path_panel(episode: dict[str, Any], canvas: Pixels, window: int, size: tuple[int, int]) -> Image.Image:
    """The full canvas, pale where never seen, with the way of the window's centre over it."""
    from PIL import Image, ImageDraw

    corners = _checked_windows(episode["windows"], window, canvas)
    pale = (200 + 0.2 * (canvas.astype(np.float32) - 128)).astype(np.uint8)
    shown = np.where(_seen(corners, window, canvas), canvas, pale)
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
        draw.text((x, y), str(index), fill=PAPER, font=_font(11 * unit), anchor="mm")
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


def _caption_strip(width: int, text: str, colour: Colour, coverage: float) -> Pixels:
    """What stands under a GIF frame: the text, the stroke coverage and a bar of it; uint8 (h, width, 3)."""
    from PIL import Image, ImageDraw

    size = min(max(width // 22, 10), 18)
    height = 2 * size + 10
    strip = Image.new("RGB", (width, height), PAPER)
    draw = ImageDraw.Draw(strip)
    side = size // 2
    baseline = size + size // 2
    draw.text((side, baseline), text, fill=colour, font=_font(size), anchor="ls")
    draw.text((width - side, baseline), f"{coverage:.0%} seen", fill=FAINT_INK, font=_font(size), anchor="rs")
    _draw_bar(draw, side, height - size // 2 - 2, width - 2 * side, coverage)
    # Sixteen shades a channel are plenty for smooth letters, and few enough for the palette of a GIF.
    return np.asarray(strip) // 16 * 17


def _packed(picture: Pixels) -> npt.NDArray[np.uint32]:
    """Colours as single numbers: uint8 (h, w, 3) -> uint32 (h, w)."""
    packed: npt.NDArray[np.uint32] = picture.astype(np.uint32) @ np.array(
        [1 << 16, 1 << 8, 1], dtype=np.uint32
    )
    return packed


# ---- Canvas and windows ----


def _seen(corners: Sequence[tuple[int, int]], window: int, canvas: Pixels) -> npt.NDArray[np.bool_]:
    """Union of windows: bool (H, W)."""
    mask = np.zeros(canvas.shape, dtype=bool)
    for x, y in corners:
        mask[y : y + window, x : x + window] = True
    return mask


def _coverage_so_far(episode: dict[str, Any], canvas: Pixels, window: int) -> list[float]:
    """Share of the stroke inside the union of windows (as published), after each of them: moves + 1."""
    hidden = canvas == 0
    total = max(1, int(hidden.sum()))
    shares = []
    for x, y in _checked_windows(episode["windows"], window, canvas):
        hidden[y : y + window, x : x + window] = False
        shares.append(1 - int(hidden.sum()) / total)
    return shares


def _checked_canvas(canvas: npt.ArrayLike) -> Pixels:
    array = np.asarray(canvas)
    if array.ndim != 2 or array.dtype != np.uint8 or not ((array == 0) | (array == 255)).all():
        raise ValueError(
            "canvas must be uint8 of shape (H, W), 0 stroke and 255 background and nothing else; "
            f"got {array.dtype} {array.shape} with values {np.unique(array)[:4]}"
        )
    return array


def _checked_windows(windows: npt.ArrayLike, window: int, canvas: Pixels) -> list[tuple[int, int]]:
    """The corners as Python integers, each with its window inside the canvas."""
    array = np.asarray(windows)
    if array.size == 0:
        array = array.reshape(0, 2).astype(np.int32)
    if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"window positions must be integer pairs (x, y); got {array.dtype} {array.shape}")
    height, width = canvas.shape
    if not 1 <= window <= min(height, width):
        raise ValueError(
            f"window must be 1..{min(height, width)} to fit the canvas {canvas.shape}; got {window}"
        )
    limit = np.array([width - window, height - window])
    outside = ((array < 0) | (array > limit)).any(axis=1)
    if outside.any():
        raise ValueError(
            f"window {window} at (x, y) = {tuple(array[outside][0].tolist())} leaves the canvas of "
            f"{width} x {height}: expected 0..{limit[0]} and 0..{limit[1]}"
        )
    return [(int(x), int(y)) for x, y in array]
