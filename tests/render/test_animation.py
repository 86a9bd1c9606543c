"""GIFs open again and hold every picture unchanged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mnistpro_jax.render.animation import save_gif
from mnistpro_jax.render.frames import episode_frames
from tests.records import Record
from tests.reference import Pixels


@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("remembered", [True, False])
def test_gif_holds_every_picture_unchanged(
    tmp_path: Path, record: Record, canvases: dict[int, Pixels], scale: int, remembered: bool
) -> None:
    path = tmp_path / "deep" / "episode.gif"
    assert save_gif(path, record, canvases[1], scale=scale, remembered=remembered, milliseconds=300) == path
    expected = [*episode_frames(record, canvases[1], remembered=remembered)]
    expected.append(np.repeat(canvases[1][..., None], 3, axis=-1))
    with Image.open(path) as gif:
        assert gif.format == "GIF"
        assert gif.n_frames == record["moves"] + 2  # type: ignore[attr-defined]
        assert gif.info["loop"] == 0
        assert gif.width == 224 * scale
        assert gif.height > 224 * scale
        for index, picture in enumerate(expected):
            gif.seek(index)
            shown = np.asarray(gif.convert("RGB"))[: 224 * scale]
            assert np.array_equal(shown, picture.repeat(scale, axis=0).repeat(scale, axis=1)), index
            assert gif.info["duration"] == (1200 if index == len(expected) - 1 else 300)


@pytest.mark.parametrize(("scale", "milliseconds"), [(0, 500), (2, 0)])
def test_bad_gif_request_is_refused(
    tmp_path: Path, record: Record, canvases: dict[int, Pixels], scale: int, milliseconds: int
) -> None:
    with pytest.raises(ValueError, match="scale must be"):
        save_gif(tmp_path / "a.gif", record, canvases[1], scale=scale, milliseconds=milliseconds)
    assert not (tmp_path / "a.gif").exists()
