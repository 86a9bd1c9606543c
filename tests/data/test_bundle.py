"""MNIST in the box: the published data bit for bit, quickly; and the script that builds the bundle."""

from __future__ import annotations

import hashlib
import pathlib
import time
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from mnistpro_jax.data import SPLITS, DataError, build_bundle, bundle, idx, load

# Written out once more, apart from the code: the SHA-256 of the unpacked files as published.
PUBLISHED = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the four published files, out of the shipped bundle."""
    folder = tmp_path_factory.mktemp("published")
    with bundle.shipped_bundle().open("rb") as stream, zipfile.ZipFile(stream) as archive:
        archive.extractall(folder)
    return folder


@pytest.mark.parametrize(
    ("split", "prefix", "count", "first_labels"),
    [("train", "train", 60_000, [5, 0, 4, 1, 9]), ("test", "t10k", 10_000, [7, 2, 1, 0, 4])],
)
def test_the_bundle_is_the_published_mnist(
    split: str, prefix: str, count: int, first_labels: list[int]
) -> None:
    dataset = load("mnist", split)
    assert [dataset.images.shape, dataset.labels.shape] == [(count, 28, 28), (count,)]
    assert [dataset.images.dtype, dataset.labels.dtype] == ["uint8", "int32"]
    assert (dataset.num_classes, dataset.source, dataset.split) == (10, "mnist", split)
    assert dataset.labels[:5].tolist() == first_labels
    images = hashlib.sha256(idx.encode(dataset.images)).hexdigest()
    labels = hashlib.sha256(idx.encode(dataset.labels.astype(np.uint8))).hexdigest()
    assert images == PUBLISHED[f"{prefix}-images-idx3-ubyte"]
    assert labels == PUBLISHED[f"{prefix}-labels-idx1-ubyte"]


def test_loading_all_of_it_takes_less_than_a_second() -> None:
    def seconds() -> float:
        start = time.perf_counter()
        for split in SPLITS:
            load("mnist", split)
        return time.perf_counter() - start

    # About 0.45 s on one slow core. Tried again because other work on the machine only ever adds time.
    assert any(seconds() < 1.0 for _ in range(5))


def test_one_split_does_not_unpack_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    original = zipfile.ZipFile.read

    def spy(archive: zipfile.ZipFile, name: str) -> bytes:
        read.append(name)
        return original(archive, name)

    monkeypatch.setattr(zipfile.ZipFile, "read", spy)
    load("mnist", "test")
    assert read == ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"]


def test_the_bundle_is_small() -> None:
    with bundle.shipped_bundle().open("rb") as stream:
        assert len(stream.read()) < 12_000_000


def _flip(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :]


def _find(content: bytes, name: bytes) -> int:
    """Somewhere inside the packed bytes of the member ``name``."""
    return content.index(name) + len(name) + 1000


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"version https://git-lfs.github.com/spec/v1\n",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: _flip(content, _find(content, b"t10k-images-idx3-ubyte")),
        lambda content: _flip(content, _find(content, b"t10k-labels-idx1-ubyte")),
        lambda content: content.replace(b"t10k-labels", b"t10k-levels"),
    ],
    ids=["empty", "pointer", "half", "last byte", "images", "labels", "names"],
)
def test_a_damaged_bundle_is_one_clear_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
) -> None:
    file = tmp_path / "mnist.zip"
    file.write_bytes(damage(bundle.shipped_bundle().read_bytes()))
    monkeypatch.setattr(bundle, "shipped_bundle", lambda: file)
    with pytest.raises(DataError) as caught:
        load("mnist", "test")
    for part in (str(file), "missing or damaged", "Install mnistpro_jax again"):
        assert part in str(caught.value)


def test_a_missing_bundle_is_one_clear_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(DataError, match="missing or damaged"):
        bundle.load_mnist("test", tmp_path / "mnist.zip")


def test_a_damaged_train_split_leaves_the_test_split_usable(tmp_path: pathlib.Path) -> None:
    content = bundle.shipped_bundle().read_bytes()
    file = tmp_path / "mnist.zip"
    file.write_bytes(_flip(content, _find(content, b"train-images-idx3-ubyte")))
    assert len(bundle.load_mnist("test", file)) == 10_000
    with pytest.raises(DataError, match="missing or damaged"):
        bundle.load_mnist("train", file)


def test_something_like_mnist_is_refused(published: pathlib.Path, tmp_path: pathlib.Path) -> None:
    images = idx.read(published / "t10k-images-idx3-ubyte", 3).copy()
    images[123, 4, 5] ^= 1
    file = tmp_path / "mnist.zip"
    with zipfile.ZipFile(file, "w") as archive:  # a whole and valid zip: only the content differs
        archive.writestr("t10k-images-idx3-ubyte", idx.encode(images))
        archive.write(published / "t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte")
    with pytest.raises(DataError, match="t10k-images-idx3-ubyte is not the published file, by its SHA-256"):
        bundle.load_mnist("test", file)


def test_building_is_deterministic_and_gives_the_shipped_content(
    published: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    assert build_bundle.main(["--idx", str(published), "--out", str(first)]) == 0
    assert f"{first}: {first.stat().st_size:,} bytes" in capsys.readouterr().out
    for path in published.iterdir():
        path.touch()
    build_bundle.build(published, second)
    assert first.read_bytes() == second.read_bytes()
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["first.zip", "second.zip"]
    with (
        bundle.shipped_bundle().open("rb") as stream,
        zipfile.ZipFile(stream) as shipped,
        zipfile.ZipFile(first) as built,
    ):
        assert built.namelist() == shipped.namelist() == list(PUBLISHED)
        for name in built.namelist():
            assert built.read(name) == shipped.read(name)


def test_building_refuses_other_files(
    tmp_path: pathlib.Path, idx_folder: Callable[..., pathlib.Path], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.zip"
    out.write_bytes(b"as it was")
    assert build_bundle.main(["--idx", str(idx_folder(ending=".gz")), "--out", str(out)]) == 1
    error = capsys.readouterr().err
    for part in ("train-images-idx3-ubyte.gz", "SHA-256", PUBLISHED["train-images-idx3-ubyte"]):
        assert part in error
    assert out.read_bytes() == b"as it was"


def test_building_names_a_missing_file(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build_bundle.main(["--idx", str(tmp_path), "--out", str(tmp_path / "out.zip")]) == 1
    assert "no file with the images of the train split" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
