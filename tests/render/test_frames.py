"""Frames of an episode are what the agent was shown, and what it had been shown before where that is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from mnistpro_jax.render.frames import episode_frames
from tests.records import Record
from tests.reference import Pixels, pillow_picture


def test_episode_frames_are_the_observations(record: Record, canvases: dict[int, Pixels]) -> None:
    frames = episode_frames(record, canvases[1])
    assert frames.shape == (7, 224, 224, 3)
    assert frames.dtype == np.uint8
    for frame, corner in zip(frames, record["windows"], strict=True):
        assert np.array_equal(frame, pillow_picture(canvases[1], [corner], 64, True))


def test_remembered_frames_add_only_what_was_seen_before(record: Record, canvases: dict[int, Pixels]) -> None:
    plain = episode_frames(record, canvases[1])
    dim = episode_frames(record, canvases[1], remembered=True)
    seen = np.zeros((224, 224), bool)
    for index, (x, y) in enumerate(record["windows"]):
        changed = (plain[index] != dim[index]).any(axis=-1)
        hidden = (plain[index] == 128).all(axis=-1)
        assert np.array_equal(changed, seen & hidden)
        background = canvases[1][changed] == 255
        assert (dim[index][changed][background] > 128).all()
        assert (dim[index][changed][~background] < 128).all()
        seen[y : y + 64, x : x + 64] = True


def test_frames_of_a_foreign_canvas_or_broken_record_are_refused(
    record: Record, canvases: dict[int, Pixels]
) -> None:
    with pytest.raises(ValueError, match="leaves the canvas"):
        episode_frames(record | {"windows": [[200, 0]]}, canvases[1])
    with pytest.raises(ValueError, match="one window after reset"):
        episode_frames(record | {"actions": []}, canvases[1])
    with pytest.raises(ValueError, match="one window after reset"):
        episode_frames(record | {"windows": []}, canvases[1])
