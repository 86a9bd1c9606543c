"""Every kind of episode makes a sheet and a GIF; a sheet shows every frame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mnistpro_jax.render.animation import save_gif
from mnistpro_jax.render.contact_sheet import contact_sheet
from mnistpro_jax.render.drawing import RIGHT, WRONG
from mnistpro_jax.render.frames import episode_frames
from tests.records import play, played
from tests.reference import ANSWER, INVALID, Pixels, ReferenceEpisode
from tests.render.noise import noise


@pytest.mark.parametrize(
    ("level", "actions", "answer"),
    [
        (1, [0, 3, 3, ANSWER], [7]),
        (1, [ANSWER], [3]),
        (1, [0] * 36, None),
        (2, [3, 3, 3, 1, ANSWER], [7, 2]),
        (2, [3, 2, 3, 2, INVALID], None),
        (3, [3, 3, 0, ANSWER], [7, 2, 9]),
    ],
)
def test_every_kind_of_episode_makes_a_sheet_and_a_gif(
    tmp_path: Path, canvases: dict[int, Pixels], level: int, actions: list[int], answer: list[int] | None
) -> None:
    record, _ = play(canvases[level], [7, 2, 1][:level], actions, answer)
    sheet = contact_sheet(record, canvases[level])
    sheet.save(tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as opened:
        assert opened.mode == "RGB"
        assert opened.size == sheet.size
        pixels = np.asarray(opened)
    assert (pixels[0] == 255).all()
    assert (pixels[-10:] == 255).all()
    verdicts = [(pixels == colour).all(axis=-1).any() for colour in (RIGHT, WRONG)]
    assert verdicts == [record["correct"], not record["correct"]]

    with Image.open(save_gif(tmp_path / "episode.gif", record, canvases[level], scale=1)) as gif:
        assert gif.n_frames == record["moves"] + 2  # type: ignore[attr-defined]


def test_sheet_shows_every_frame_of_a_full_episode(canvases: dict[int, Pixels]) -> None:
    """Thumbnails are halved with a box filter; each must be found at its place, six a row."""
    record, _ = play(canvases[1], [7], [0, 3, 1, 2] * 9)
    sheet = np.asarray(contact_sheet(record, canvases[1]))
    frames = episode_frames(record, canvases[1])
    bottom = sheet.shape[0] - 36
    rows = -(-(len(frames) + 1) // 6)
    top = bottom - rows * (112 + 38)
    for index, frame in enumerate(frames):
        thumb = np.asarray(Image.fromarray(frame).resize((112, 112), Image.Resampling.BOX))
        left = 36 + round(index % 6 * (sheet.shape[1] - 72 - 112) / 5)
        upper = top + index // 6 * 150
        assert np.array_equal(sheet[upper : upper + 112, left : left + 112], thumb), index


def test_small_canvas_and_window_make_a_sheet_and_a_gif(tmp_path: Path) -> None:
    reference = ReferenceEpisode(noise(40, 50), [4], (3, 5), window=16, stride=8, budget=9)
    record = played(reference, [3, 3, 1, ANSWER], [4])
    assert contact_sheet(record, reference.canvas, 16).width > 500
    save_gif(tmp_path / "small.gif", record, reference.canvas, 16)
