"""The IDX format, and the source "idx:FOLDER": what is read, and each way in which it can be wrong."""

from __future__ import annotations

import gzip
import pathlib
import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from mnistpro_jax.data import DataError, idx, load

Folder = Callable[..., pathlib.Path]
Pictures = tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]

IMAGES = "t10k-images-idx3-ubyte"
LABELS = "t10k-labels-idx1-ubyte"


def refused(folder: pathlib.Path, *parts: str) -> None:
    """``load`` gives one DataError, on one line, that contains all ``parts``."""
    with pytest.raises(DataError) as caught:
        load(f"idx:{folder}", "test")
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message


def test_header_is_the_published_one() -> None:
    payload = idx.encode(np.arange(6, dtype=np.uint8).reshape(1, 2, 3))
    assert payload == bytes.fromhex("00000803 00000001 00000002 00000003 000102030405")


@pytest.mark.parametrize("shape", [(5,), (0,), (2, 3), (4, 28, 28), (1, 2, 3, 4)])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_round_trip(tmp_path: pathlib.Path, shape: tuple[int, ...], ending: str) -> None:
    array = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    path = tmp_path / f"array{ending}"
    idx.write(path, array)
    assert path.read_bytes().startswith(b"\x1f\x8b") == (ending == ".gz")
    np.testing.assert_array_equal(idx.read(path, ndim=len(shape)), array)
    before = path.read_bytes()
    idx.write(path, array)
    assert path.read_bytes() == before


def test_encoding_does_not_depend_on_memory_layout() -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    assert idx.encode(np.asfortranarray(array)) == idx.encode(array)


@pytest.mark.parametrize("array", [np.zeros(3, np.int32), np.zeros((), np.uint8)])
def test_what_idx_cannot_hold_is_refused(array: npt.NDArray[np.uint8]) -> None:
    with pytest.raises(DataError, match="Cannot write"):
        idx.encode(array)


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("split", ["train", "test"])
def test_folder_in_each_spelling(
    idx_folder: Folder, pictures: Pictures, mark: str, ending: str, split: str
) -> None:
    dataset = load(f"idx:{idx_folder(mark, ending)}", split)
    assert [dataset.images.dtype, dataset.labels.dtype] == ["uint8", "int32"]
    np.testing.assert_array_equal(dataset.images, pictures[0])
    np.testing.assert_array_equal(dataset.labels, pictures[1])


def test_only_the_files_of_the_split_are_needed(idx_folder: Folder) -> None:
    folder = idx_folder()
    (folder / "train-images-idx3-ubyte").write_bytes(b"nonsense")
    (folder / "train-labels-idx1-ubyte").unlink()
    assert len(load(f"idx:{folder}", "test")) == 12


def test_gzip_is_recognised_by_content(idx_folder: Folder) -> None:
    folder = idx_folder()
    (folder / IMAGES).rename(folder / f"{IMAGES}.gz")  # not compressed, whatever its name says
    (folder / LABELS).write_bytes(gzip.compress((folder / LABELS).read_bytes()))
    assert len(load(f"idx:{folder}", "test")) == 12


def test_home_folder_is_expanded(idx_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = idx_folder()
    monkeypatch.setenv("HOME", str(folder.parent))
    assert len(load(f"idx:~/{folder.name}", "test")) == 12


def test_missing_folder(tmp_path: pathlib.Path) -> None:
    refused(tmp_path / "nowhere", str(tmp_path / "nowhere"), "does not exist", "expected a folder")


def test_folder_that_is_a_file(idx_folder: Folder) -> None:
    refused(idx_folder() / IMAGES, IMAGES, "is not a folder")


@pytest.mark.parametrize("missing", [IMAGES, LABELS])
def test_missing_file(idx_folder: Folder, missing: str) -> None:
    folder = idx_folder()
    (folder / missing).unlink()
    refused(folder, str(folder), missing, f"{missing}.gz", "expected one of", "rename")


def test_file_that_cannot_be_read(idx_folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_bytes(path: pathlib.Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    folder = idx_folder()
    monkeypatch.setattr(pathlib.Path, "read_bytes", read_bytes)  # root may read everything, so not by chmod
    refused(folder, IMAGES, "Permission denied")


def header(magic: int, *shape: int) -> bytes:
    return struct.pack(f">{1 + len(shape)}I", magic, *shape)


@pytest.mark.parametrize("name", [IMAGES, LABELS])
@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize(
    ("damage", "parts"),
    [
        (lambda payload: b"", ["is truncated", "0 bytes"]),
        (lambda payload: payload[:6], ["is truncated", "6 bytes", "header"]),
        (lambda payload: payload[:-1], ["is truncated", "announces shape (12,"]),
        (lambda payload: payload + b"\0", ["trailing bytes", "announces shape (12,"]),
        (lambda payload: b"\x89PNG" + payload[4:], ["magic 0x89504e47", "expected 0x0000080"]),
        (lambda payload: b"\0\0\x0d" + payload[3:], ["magic 0x00000d0", "expected 0x0000080"]),
        (lambda payload: header(0x0802, 12, 1) + payload[12:] + b"12345678", ["magic 0x00000802"]),
        (lambda payload: b"<html>Not found: the page has moved</html>", ["magic 0x3c68746d"]),
    ],
)
def test_damaged_file(
    idx_folder: Folder, name: str, ending: str, damage: Callable[[bytes], bytes], parts: list[str]
) -> None:
    folder = idx_folder()
    payload = damage((folder / name).read_bytes())
    (folder / name).unlink()
    (folder / f"{name}{ending}").write_bytes(gzip.compress(payload) if ending else payload)
    refused(folder, f"{name}{ending}", *parts, "fetch it again")


def test_files_mixed_up(idx_folder: Folder) -> None:
    folder = idx_folder()
    images, labels = (folder / IMAGES).read_bytes(), (folder / LABELS).read_bytes()
    (folder / IMAGES).write_bytes(labels)
    (folder / LABELS).write_bytes(images)
    refused(folder, IMAGES, "This is a label file", "mixed up")


@pytest.mark.parametrize("name", [IMAGES, LABELS])
@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-9],  # truncated: no trailer
        lambda packed: packed[:20],  # truncated: inside the stream
        lambda packed: packed[:-8] + b"\0\0\0\0" + packed[-4:],  # wrong CRC
        lambda packed: packed[:10] + b"\xff" * 8 + packed[18:],  # broken stream
        lambda packed: packed + b"trailing",
    ],
)
def test_corrupt_gzip(idx_folder: Folder, name: str, damage: Callable[[bytes], bytes]) -> None:
    folder = idx_folder(ending=".gz")
    path = folder / f"{name}.gz"
    path.write_bytes(damage(path.read_bytes()))
    refused(folder, f"{name}.gz", "corrupt gzip", "fetch it again")


def test_counts_that_differ(idx_folder: Folder) -> None:
    folder = idx_folder()
    idx.write(folder / LABELS, np.zeros(11, np.uint8))
    refused(folder, LABELS, "11 labels", IMAGES, "12 pictures")


def test_label_out_of_range(idx_folder: Folder) -> None:
    folder = idx_folder()
    labels = np.arange(12, dtype=np.uint8)
    idx.write(folder / LABELS, labels)
    refused(folder, LABELS, "label 10 at index 10", "2 labels", "0..9")


@pytest.mark.parametrize("side", [(32, 32), (28, 29), (0, 28)])
def test_pictures_of_another_size(idx_folder: Folder, side: tuple[int, int]) -> None:
    folder = idx_folder()
    idx.write(folder / IMAGES, np.zeros((12, *side), np.uint8))
    refused(folder, IMAGES, f"{side[0]} x {side[1]} pixels", "expected 28 x 28")


def test_no_pictures(idx_folder: Folder) -> None:
    folder = idx_folder()
    idx.write(folder / IMAGES, np.zeros((0, 28, 28), np.uint8))
    idx.write(folder / LABELS, np.zeros(0, np.uint8))
    refused(folder, IMAGES, "holds no picture")
