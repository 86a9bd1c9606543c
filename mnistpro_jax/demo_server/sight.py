"""What one picture shows: which canvas pixels, where their strokes are, and where the window is.

Published pictures (arXiv 2608.31022) are grey where nothing was seen; the outline, cyan and two pixels wide, hides
what is under it. The same rules read a picture of one window, one of several (the fused canvas) and the whole
canvas.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from mnistpro_jax.demo_server.wire import WireError
from mnistpro_jax.env.picture import HIDDEN, OUTLINE
from mnistpro_jax.env.pipeline import NATIVE
from mnistpro_jax.worlds.published import PUBLISHED_SIZE

Mask = npt.NDArray[np.bool_]
Pixels = npt.NDArray[np.uint8]

_PREFIX = "data:image/png;base64,"
_LARGEST = 4096  # pixels along a side: bounds what a request can make us decode


@dataclasses.dataclass(frozen=True, eq=False)
class Picture:
    """A picture at the canvas's own resolution.

    known: bool (H, W), pixels of the canvas that it shows. stroke: bool (H, W), those of them that are ink.
    window: (x, y, side) of the one window that it shows, None for several windows or the whole canvas. outlined:
    whether an outline is drawn.
    """

    known: Mask
    stroke: Mask
    window: tuple[int, int, int] | None
    outlined: bool

    @property
    def whole(self) -> bool:
        """Whether nothing is hidden: the control."""
        return bool(self.known.all())

    @property
    def visible(self) -> int:
        """Pixels that it shows."""
        return int(self.known.sum())


def decode(url: str) -> Pixels:
    """The pixels of a PNG data URL, uint8 (h, w, 3). Raises WireError for anything else."""
    if not url.startswith(_PREFIX):
        raise WireError(
            400,
            f"image_url is {url[:40]!r}...; expected a PNG as a data URL ({_PREFIX}...)",
            "invalid_image_url",
        )
    try:
        with Image.open(
            io.BytesIO(base64.b64decode(url[len(_PREFIX) :], validate=True)), formats=["PNG"]
        ) as image:
            if max(image.size) > _LARGEST:
                raise WireError(
                    400, f"the picture is {image.size} pixels; at most {_LARGEST} along a side are read"
                )
            return np.asarray(image.convert("RGB"))
    except (binascii.Error, OSError, SyntaxError, ValueError) as error:
        raise WireError(400, f"the picture is not a complete PNG ({error})", "invalid_image") from None


def look(pixels: Pixels) -> Picture:
    """What a picture shows. pixels: uint8 (h, w, 3), the published picture enlarged by a whole factor or not.

    Raises WireError for a picture of another size or with other colours than published pictures have.
    """
    pixels = _at_canvas_size(pixels)
    red, green, blue = (pixels[:, :, channel] for channel in range(3))
    grey = (red == HIDDEN) & (green == HIDDEN) & (blue == HIDDEN)
    cyan = (red == OUTLINE[0]) & (green == OUTLINE[1]) & (blue == OUTLINE[2])
    even = (red == green) & (green == blue)
    stroke, paper = even & (red == 0), even & (red == 255)
    known = stroke | paper
    if not (known | grey | cyan).all():
        raise WireError(
            400,
            "the picture has colours that published pictures do not have (expected black, white, grey 128 and the "
            "cyan outline alone; was it resampled or stored with losses?)",
            "invalid_image",
        )
    outlined = bool(cyan.any())
    return Picture(known, stroke, _window(~grey, cyan if outlined else None), outlined)


def _at_canvas_size(pixels: Pixels) -> Pixels:
    height, width, _ = pixels.shape
    if height % NATIVE or width % height:
        raise WireError(
            400,
            f"the picture is {width} x {height} pixels; expected n digits side by side, {PUBLISHED_SIZE} n x "
            f"{PUBLISHED_SIZE} or a whole multiple",
            "invalid_image",
        )
    factor = height // PUBLISHED_SIZE if height % PUBLISHED_SIZE == 0 else 1
    if factor == 1:
        return pixels
    small = pixels[::factor, ::factor]
    if not (small.repeat(factor, axis=0).repeat(factor, axis=1) == pixels).all():
        raise WireError(
            400, f"the picture is not enlarged by repeating pixels {factor} times", "invalid_image"
        )
    return small


def _window(shown: Mask, cyan: Mask | None) -> tuple[int, int, int] | None:
    """The one square window that is shown, from its outline or its extent; None where it is not one."""
    rows, columns = np.flatnonzero(shown.any(axis=1)), np.flatnonzero(shown.any(axis=0))
    if not len(rows) or shown.all():
        return None
    top, bottom, left, right = rows[0], rows[-1], columns[0], columns[-1]
    if not shown[top : bottom + 1, left : right + 1].all():
        return None
    middle_y, middle_x = (top + bottom) // 2, (left + right) // 2
    if cyan is None:
        width, height = right - left + 1, bottom - top + 1
    else:
        width = _side(left, right, shown.shape[1], cyan[middle_y])
        height = _side(top, bottom, shown.shape[0], cyan[:, middle_x])
    if width != height:
        return None
    return int(left), int(top), int(width)


def _side(low: int, high: int, length: int, cyan: Mask) -> int:
    """Side of the window along an axis, from the outline's first and last pixel on a line through its middle.

    The outline's far corner is inclusive: its far side lies one pixel outside the window. At the canvas's border
    that pixel may be cut off, and then the line there is one pixel wide.
    """
    cut_off = high == length - 1 and not cyan[high - 1]
    return int(high - low + cut_off)
