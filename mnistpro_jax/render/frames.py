"""The frames of an episode: what the agent was shown, turn by turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax.render.checked import Pixels, checked_canvas, checked_windows
from mnistpro_jax.render.published import GREY, published_picture
from mnistpro_jax.render.seen import seen_mask

# How much of the contrast to mid-grey a remembered pixel keeps, so that the live window stands out.
_REMEMBERED_CONTRAST = 0.35


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
    canvas = checked_canvas(canvas)
    corners = checked_windows(episode["windows"], window, canvas)
    if not 1 <= len(corners) <= len(episode["actions"]) + 1:
        raise ValueError(
            "an episode shows one window after reset and one after each move; "
            f"got {len(corners)} windows and {len(episode['actions'])} actions"
        )
    frames = np.empty((len(corners), *canvas.shape, 3), dtype=np.uint8)
    for index, corner in enumerate(corners):
        picture = published_picture(canvas, corner, window, outline)
        if remembered:
            hidden = (picture == GREY).all(axis=-1) & seen_mask(canvas.shape, corners[:index], window)
            dim = GREY[0] + _REMEMBERED_CONTRAST * (canvas[hidden].astype(np.float32) - GREY[0])
            picture[hidden] = np.rint(dim).astype(np.uint8)[:, None]
        frames[index] = picture
    return frames
