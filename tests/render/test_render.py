"""Pictures equal Pillow's byte for byte; files open again and hold what they should; bad input is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from mnistpro_jax import data, render
from mnistpro_jax.runs import records
from mnistpro_jax.worlds.published import canvas_of
from tests.reference import ANSWER, INVALID, ReferenceEpisode, pillow_picture

Pixels = npt.NDArray[np.uint8]
Record = dict[str, Any]

ACTIONS = ("up", "down", "left", "right", "answer", "invalid")
ENDINGS = ("RUNNING", "ANSWERED", "STEP_LIMIT", "INVALID_ACTION")


@pytest.fixture(scope="module")
def canvases() -> dict[int, Pixels]:
    """One real canvas of each level."""
    images = data.load("mnist", "test").images
    return {level: canvas_of(images[:level]) for level in (1, 2, 3)}


def noise(height: int, width: int, seed: int = 0) -> Pixels:
    bits = np.random.default_rng(seed).integers(2, size=(height, width), dtype=np.uint8)
    return bits * np.uint8(255)


def record_of(
    reference: ReferenceEpisode, actions: Sequence[int], answer: Sequence[int] | None = None
) -> Record:
    """Play the actions in the reference and write down the record that a rollout stores."""
    for kind in actions:
        reference.step(kind, answer if kind == ANSWER else None)
    stroke = sum(reference.stroke_total)
    per_digit = [
        [seen / total for seen, total in zip(part, reference.stroke_total, strict=True)]
        for part in (reference.stroke_seen, reference.stroke_seen_readable)
    ]
    return {
        "episode": 7,
        "level": len(reference.labels),
        "source": "mnist",
        "split": "test",
        "indices": list(range(len(reference.labels))),
        "labels": reference.labels,
        "start_xy": list(reference.windows[0]),
        "windows": [list(corner) for corner in reference.windows],
        "actions": [ACTIONS[kind] for kind in actions],
        "answer": reference.answer,
        "ending": ENDINGS[reference.ending],
        "correct": reference.correct,
        "digits_correct": reference.digits_correct,
        "steps": reference.steps,
        "moves": reference.moves,
        "revisits": reference.revisits,
        "stroke_coverage": sum(reference.stroke_seen) / stroke,
        "stroke_coverage_readable": sum(reference.stroke_seen_readable) / stroke,
        "area_coverage": reference.area_seen / reference.canvas.size,
        "area_coverage_readable": reference.area_seen_readable / reference.canvas.size,
        "digit_stroke_coverage": per_digit[0],
        "digit_stroke_coverage_readable": per_digit[1],
        "return": float(reference.episode_return),
    }


def play(
    canvas: Pixels, labels: Sequence[int], actions: Sequence[int], answer: Sequence[int] | None = None
) -> tuple[Record, ReferenceEpisode]:
    reference = ReferenceEpisode(canvas, labels, (70, 90), window=64, stride=32, budget=36)
    return record_of(reference, actions, answer), reference


# ---- The pictures a model is shown ----


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("window", [16, 32, 64, 128, 224])
@pytest.mark.parametrize("outline", [True, False])
def test_published_picture_equals_pillow(
    level: int, window: int, outline: bool, canvases: dict[int, Pixels]
) -> None:
    canvas = canvases[level]
    right, bottom = canvas.shape[1] - window, canvas.shape[0] - window
    rng = np.random.default_rng(window)
    positions = {
        (x, y) for x in (0, 1, right // 2, right - 1, right) for y in (0, 1, bottom // 2, bottom - 1, bottom)
    }
    positions |= {(int(rng.integers(right + 1)), int(rng.integers(bottom + 1))) for _ in range(20)}
    for x, y in positions:
        if not (0 <= x <= right and 0 <= y <= bottom):
            continue
        picture = render.published_picture(canvas, (x, y), window, outline)
        assert picture.shape == (*canvas.shape, 3)
        assert picture.dtype == np.uint8
        assert np.array_equal(picture, pillow_picture(canvas, [(x, y)], window, outline)), (x, y)


@pytest.mark.parametrize("window", [2, 3, 4, 5, 12])
def test_tiny_windows_equal_pillow(window: int) -> None:
    """From two pixels on: for a window of one, Pillow draws a row below the rectangle that was asked for."""
    canvas = noise(12, 17)
    for x in range(17 - window + 1):
        for y in range(12 - window + 1):
            expected = pillow_picture(canvas, [(x, y)], window, True)
            assert np.array_equal(render.published_picture(canvas, (x, y), window), expected), (x, y)


def test_outline_leaves_the_readable_interior(canvases: dict[int, Pixels]) -> None:
    picture = render.published_picture(canvases[1], (40, 50))
    shown = (picture != render.CYAN).any(axis=-1) & (picture != render.GREY).any(axis=-1)
    ys, xs = np.nonzero(shown)
    assert (xs.min(), xs.max(), ys.min(), ys.max()) == (42, 102, 52, 112)
    assert shown.sum() == 61 * 61


@pytest.mark.parametrize("outline", [True, False])
@pytest.mark.parametrize("number", [0, 1, 2, 30])
def test_composite_picture_equals_pillow(number: int, outline: bool, canvases: dict[int, Pixels]) -> None:
    canvas = canvases[2]
    rng = np.random.default_rng(number)
    windows = np.stack([rng.integers(448 - 63, size=number), rng.integers(224 - 63, size=number)], axis=-1)
    picture = render.composite_picture(canvas, windows, 64, outline)
    assert np.array_equal(picture, pillow_picture(canvas, windows, 64, outline))
    if number == 0:
        assert (picture == 128).all()


def test_pictures_equal_those_of_the_reference_episode(canvases: dict[int, Pixels]) -> None:
    record, reference = play(canvases[1], [7], [0, 3, 3, 3, 3, 1])
    assert np.array_equal(
        render.published_picture(canvases[1], reference.xy), reference.picture(outline=True)
    )
    fused = render.composite_picture(canvases[1], record["windows"])
    assert np.array_equal(fused, reference.memory_picture())


@pytest.mark.parametrize(
    ("canvas", "xy", "window", "message"),
    [
        (np.zeros((224, 224), bool), (0, 0), 64, "canvas must be uint8"),
        (np.zeros((224, 224, 3), np.uint8), (0, 0), 64, "canvas must be uint8"),
        (np.full((224, 224), 1, np.uint8), (0, 0), 64, "0 stroke and 255 background"),
        (np.zeros((224, 224), np.uint8), (161, 0), 64, "leaves the canvas"),
        (np.zeros((224, 224), np.uint8), (0, -1), 64, "leaves the canvas"),
        (np.zeros((224, 224), np.uint8), (0.5, 0.0), 64, "integer pairs"),
        (np.zeros((224, 224), np.uint8), (1, 2, 3), 64, "integer pairs"),
        (np.zeros((224, 224), np.uint8), (0, 0), 225, r"window must be 1\.\.224"),
        (np.zeros((224, 224), np.uint8), (0, 0), 0, r"window must be 1\.\.224"),
    ],
)
def test_bad_picture_request_is_refused(canvas: Any, xy: Any, window: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        render.published_picture(canvas, xy, window)


# ---- Grids ----


@pytest.mark.parametrize("channels", [(), (3,)])
def test_grid_places_pictures_row_by_row(channels: tuple[int, ...]) -> None:
    pictures = np.random.default_rng(0).integers(256, size=(5, 4, 6, *channels), dtype=np.uint8)
    sheet = render.grid(pictures, columns=3, separator=2)
    assert sheet.dtype == np.uint8
    assert sheet.shape == (4 + 2 + 4, 6 + 2 + 6 + 2 + 6, *channels)
    for index, picture in enumerate(pictures):
        top, left = index // 3 * 6, index % 3 * 8
        assert np.array_equal(sheet[top : top + 4, left : left + 6], picture)
    for dark in (sheet[4:6], sheet[:, 6:8], sheet[6:, 16:]):
        assert (dark == np.array(render.SEPARATOR if channels else render.SEPARATOR[1])).all()


def test_grid_is_no_wider_than_its_pictures() -> None:
    assert render.grid(np.zeros((2, 4, 6), np.uint8), columns=10, separator=0).shape == (4, 12)


@pytest.mark.parametrize(
    ("pictures", "columns", "separator"),
    [
        (np.zeros((0, 4, 4), np.uint8), 1, 2),
        (np.zeros((2, 4, 4), np.uint8), 0, 2),
        (np.zeros((2, 4, 4), np.uint8), 1, -1),
        (np.zeros((2, 4, 4, 4), np.uint8), 1, 2),
        (np.zeros((2, 4, 4), np.float32), 1, 2),
    ],
)
def test_bad_grid_is_refused(pictures: Any, columns: int, separator: int) -> None:
    with pytest.raises(ValueError, match=r"pictures must be uint8|a grid needs"):
        render.grid(pictures, columns, separator)


def test_states_grid_shows_the_picture_of_each_state(canvases: dict[int, Pixels]) -> None:
    batch = np.stack([canvases[2], 255 - canvases[2], canvases[2]])
    xys = np.array([[0, 0], [384, 160], [100, 50]], np.int32)
    sheet = render.states_grid(batch, xys, columns=2)
    assert sheet.shape == (224 + 2 + 224, 448 + 2 + 448, 3)
    assert np.array_equal(sheet[226:, :448], render.published_picture(canvases[2], (100, 50)))
    assert np.array_equal(sheet[:224, 450:], render.published_picture(255 - canvases[2], (384, 160)))
    # Left to itself the grid of wide pictures is higher in cells than wide, so that it is about square.
    assert render.states_grid(np.repeat(batch[:1], 8, axis=0), np.zeros((8, 2), np.int32)).shape == (
        902,
        898,
        3,
    )


def test_states_grid_of_different_batches_is_refused(canvases: dict[int, Pixels]) -> None:
    with pytest.raises(ValueError, match="of the same N"):
        render.states_grid(canvases[1][None], np.zeros((2, 2), np.int32))


# ---- Episode files ----


@pytest.fixture
def record(canvases: dict[int, Pixels]) -> Record:
    return play(canvases[1], [7], [0, 3, 3, 3, 3, 1, ANSWER], [7])[0]


def write_lines(path: Path, *lines: str) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def test_read_episodes_gives_back_what_was_written(
    tmp_path: Path, record: Record, canvases: dict[int, Pixels]
) -> None:
    unanswered, _ = play(canvases[2], [7, 2], [0] * 36)
    # A separator that str.splitlines would cut at, inside a text.
    written = [record | {"note": "a\u2028b"}, unanswered]
    path = write_lines(
        tmp_path / "episodes.jsonl", *(json.dumps(item, ensure_ascii=False) for item in written), ""
    )
    assert records.read_episodes(path) == written
    assert records.read_episodes(str(tmp_path)) == written


def test_missing_episode_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"episodes\.jsonl"):
        records.read_episodes(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda line: line[: len(line) // 2], "not a complete JSON object"),
        (lambda line: "\ufffd" + line, "not a complete JSON object"),
        (lambda line: "[1, 2]", "expected one JSON object an episode, got list"),
        (lambda line: line.replace('"windows"', '"window"'), r"without the field\(s\) windows"),
        (
            lambda line: line.replace('"moves": 6', '"moves": 5'),
            r"'windows' must have moves \+ 1 = 6 entries, got 7",
        ),
        (lambda line: line.replace('"moves": 6', '"moves": "6"'), "'moves' must be an integer"),
        (
            lambda line: line.replace('"steps": 7', '"steps": 8'),
            "'actions' must have steps = 8 entries, got 7",
        ),
        (lambda line: line.replace('"level": 1', '"level": 2'), "'labels' must have level = 2 entries"),
        (lambda line: line.replace('"level": 1', '"level": true'), "'level' must be an integer"),
        (
            lambda line: line.replace('"answer": [7]', '"answer": 7'),
            "'answer' must be a list of integers or null",
        ),
        (lambda line: line.replace('"ANSWERED"', '"DONE"'), "'ending' must be one of RUNNING, ANSWERED"),
        (lambda line: line.replace('"right"', '"east"'), "'actions' must be a list of up, down"),
        (lambda line: line.replace("[70, 90]", "[70]"), r"'start_xy' must be two integers \[x, y\]"),
        (
            lambda line: line.replace('"correct": true', '"correct": 1'),
            "'correct' must be true, false or null",
        ),
    ],
)
def test_bad_line_is_named(tmp_path: Path, record: Record, spoil: Any, message: str) -> None:
    good = json.dumps(record)
    bad = spoil(good)
    assert bad != good
    path = write_lines(tmp_path / "episodes.jsonl", good, bad)
    with pytest.raises(ValueError, match=message) as caught:
        records.read_episodes(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")


# ---- Frames, GIFs, sheets ----


def test_episode_frames_are_the_observations(record: Record, canvases: dict[int, Pixels]) -> None:
    frames = render.episode_frames(record, canvases[1])
    assert frames.shape == (7, 224, 224, 3)
    assert frames.dtype == np.uint8
    for frame, corner in zip(frames, record["windows"], strict=True):
        assert np.array_equal(frame, pillow_picture(canvases[1], [corner], 64, True))


def test_remembered_frames_add_only_what_was_seen_before(record: Record, canvases: dict[int, Pixels]) -> None:
    plain = render.episode_frames(record, canvases[1])
    dim = render.episode_frames(record, canvases[1], remembered=True)
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
        render.episode_frames(record | {"windows": [[200, 0]]}, canvases[1])
    with pytest.raises(ValueError, match="one window after reset"):
        render.episode_frames(record | {"actions": []}, canvases[1])
    with pytest.raises(ValueError, match="one window after reset"):
        render.episode_frames(record | {"windows": []}, canvases[1])


@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("remembered", [True, False])
def test_gif_holds_every_picture_unchanged(
    tmp_path: Path, record: Record, canvases: dict[int, Pixels], scale: int, remembered: bool
) -> None:
    path = tmp_path / "deep" / "episode.gif"
    assert (
        render.save_gif(path, record, canvases[1], scale=scale, remembered=remembered, milliseconds=300)
        == path
    )
    expected = [*render.episode_frames(record, canvases[1], remembered=remembered)]
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
        render.save_gif(tmp_path / "a.gif", record, canvases[1], scale=scale, milliseconds=milliseconds)
    assert not (tmp_path / "a.gif").exists()


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
    sheet = render.contact_sheet(record, canvases[level])
    sheet.save(tmp_path / "sheet.png")
    with Image.open(tmp_path / "sheet.png") as opened:
        assert opened.mode == "RGB"
        assert opened.size == sheet.size
        pixels = np.asarray(opened)
    assert (pixels[0] == 255).all()
    assert (pixels[-10:] == 255).all()
    verdicts = [(pixels == colour).all(axis=-1).any() for colour in (render.RIGHT, render.WRONG)]
    assert verdicts == [record["correct"], not record["correct"]]

    with Image.open(render.save_gif(tmp_path / "episode.gif", record, canvases[level], scale=1)) as gif:
        assert gif.n_frames == record["moves"] + 2  # type: ignore[attr-defined]


def test_sheet_shows_every_frame_of_a_full_episode(canvases: dict[int, Pixels]) -> None:
    """Thumbnails are halved with a box filter; each must be found at its place, six a row."""
    record, _ = play(canvases[1], [7], [0, 3, 1, 2] * 9)
    sheet = np.asarray(render.contact_sheet(record, canvases[1]))
    frames = render.episode_frames(record, canvases[1])
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
    record = record_of(reference, [3, 3, 1, ANSWER], [4])
    assert render.contact_sheet(record, reference.canvas, 16).width > 500
    render.save_gif(tmp_path / "small.gif", record, reference.canvas, 16)
