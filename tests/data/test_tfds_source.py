"""The source "tfds:NAME", on small data sets that tensorflow-datasets itself prepares.

No network and no TensorFlow.
"""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mnistpro_jax.data import DataError, load, tfds_source

COUNT = {"train": 30, "test": 7}


@pytest.fixture(autouse=True)
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where tensorflow-datasets looks in these tests. Named by the variable only, as a user would."""
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def tfds() -> Any:
    return pytest.importorskip("tensorflow_datasets", reason='needs the extra "tfds"')


def pictures(split: str) -> npt.NDArray[np.uint8]:
    """Uint8 (N, 28, 28), no two alike and none symmetric; the first pixel tells the index."""
    images = np.random.default_rng(len(split)).integers(0, 256, (COUNT[split], 28, 28)).astype(np.uint8)
    images[:, 0, 0] = np.arange(COUNT[split])
    return images


def make_builder(
    tfds: Any,
    folder: pathlib.Path,
    dataset: str,
    *,
    config: str | None = None,
    image: Any = None,
    label: Any = None,
    splits: tuple[str, ...] = ("train", "test"),
    error: Exception | None = None,
    **options: Any,
) -> Any:
    """A real builder of tensorflow-datasets. It stays out of the global register of names.

    Tensorflow-datasets finds what such a builder has prepared by its name in the folder.
    """
    image = image or tfds.features.Image(shape=(28, 28, 1))
    label = label or tfds.features.ClassLabel(num_classes=47)

    base: Any = tfds.core.GeneratorBasedBuilder

    class Builder(base, skip_registration=True):  # type: ignore[call-arg, misc]
        name = dataset
        VERSION = tfds.core.Version("3.1.0")
        BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=config)] if config else []

        def _info(self) -> Any:
            features = tfds.features.FeaturesDict({"image": image, "label": label})
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager: Any) -> Any:
            if error is not None:
                raise error
            return {split: self._generate_examples(split) for split in splits}

        def _generate_examples(self, split: str) -> Iterator[Any]:
            # Pictures go in as pictures of Pillow: tensorflow-datasets encodes arrays with TensorFlow.
            pillow = importlib.import_module("PIL.Image")
            for index, picture in enumerate(pictures(split)):
                mode = "RGB" if image.shape[-1] == 3 else "L"
                yield index, {"image": pillow.fromarray(picture).convert(mode), "label": index % 10}

    options = {"file_format": "array_record"} | options
    return Builder(data_dir=folder, config=config, **options)


def check(dataset: Any, split: str, transpose: bool = False) -> None:
    """``dataset`` holds the pictures of ``split``, each once and with its label, in whatever order."""
    images = dataset.images.transpose(0, 2, 1) if transpose else dataset.images
    order = images[:, 0, 0].astype(int)
    assert sorted(order) == list(range(COUNT[split]))
    np.testing.assert_array_equal(images, pictures(split)[order])
    np.testing.assert_array_equal(dataset.labels, order % 10)
    assert (dataset.images.dtype, dataset.labels.dtype) == (np.uint8, np.int32)
    assert dataset.images.flags.c_contiguous


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_prepared_data_set_is_read_by_name(tfds: Any, folder: pathlib.Path, split: str) -> None:
    make_builder(tfds, folder, "tiny_digits").download_and_prepare()
    dataset = load("tfds:tiny_digits", split)
    check(dataset, split)
    assert (dataset.num_classes, dataset.source, dataset.split) == (47, "tfds:tiny_digits", split)
    if importlib.util.find_spec("tensorflow") is None:
        assert "tensorflow" not in sys.modules


def test_reading_in_several_rounds(tfds: Any, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_builder(tfds, folder, "tiny_digits").download_and_prepare()
    monkeypatch.setattr(tfds_source, "_RECORDS_PER_READ", 8)
    check(load("tfds:tiny_digits", "train"), "train")


def test_every_load_gives_the_same_order(tfds: Any, folder: pathlib.Path) -> None:
    make_builder(tfds, folder, "tiny_digits").download_and_prepare()
    first, second = load("tfds:tiny_digits", "train"), load("tfds:tiny_digits", "train")
    np.testing.assert_array_equal(first.images, second.images)


def test_a_registered_data_set_is_prepared_on_first_use(
    tfds: Any, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder_class = type(make_builder(tfds, folder, "tiny_registered"))
    registered = importlib.import_module("tensorflow_datasets.core.registered")
    monkeypatch.setitem(registered._DATASET_REGISTRY, "tiny_registered", builder_class)
    assert not (folder / "tiny_registered").exists()
    check(load("tfds:tiny_registered", "test"), "test")
    assert list(folder.glob("tiny_registered/3.1.0/*.array_record*"))
    monkeypatch.setattr(builder_class, "_split_generators", None)  # from here on it can only be read
    check(load("tfds:tiny_registered", "train"), "train")


def test_parquet_is_read_as_well(tfds: Any, folder: pathlib.Path) -> None:
    make_builder(tfds, folder, "tiny_parquet", file_format="parquet").download_and_prepare()
    check(load("tfds:tiny_parquet", "train"), "train")


def test_emnist_is_turned_upright(tfds: Any, folder: pathlib.Path) -> None:
    # Prepared under the name, configuration and version of the real EMNIST, whose own builder then reads it.
    make_builder(tfds, folder, "emnist", config="digits").download_and_prepare()
    dataset = load("tfds:emnist/digits", "test")
    check(dataset, "test", transpose=True)
    assert dataset.num_classes == 10  # what the builder of EMNIST declares for "digits"


@pytest.mark.parametrize(
    "name", ["no_such_data_set", "emnist/no_such_config", "mnist:9.9.9", "../mnist", "a b", "mnist/x=1"]
)
def test_an_unknown_name(tfds: Any, name: str) -> None:
    with pytest.raises(DataError) as caught:
        load(f"tfds:{name}", "test")
    message = str(caught.value)
    assert message.startswith(f"tensorflow-datasets cannot open {name!r}: ")
    assert "tensorflow.org/datasets/catalog" in message
    assert "\n" not in message


def test_an_unknown_split(tfds: Any, folder: pathlib.Path) -> None:
    make_builder(tfds, folder, "train_only", splits=("train",)).download_and_prepare()
    with pytest.raises(DataError, match="has no split 'test'; expected one of train"):
        load("tfds:train_only", "test")


@pytest.mark.parametrize("shape", [(32, 32, 1), (28, 28, 3), (None, None, 1)])
def test_pictures_of_another_shape(tfds: Any, folder: pathlib.Path, shape: tuple[int, ...]) -> None:
    make_builder(tfds, folder, "odd_shape", image=tfds.features.Image(shape=shape)).download_and_prepare()
    with pytest.raises(DataError) as caught:
        load("tfds:odd_shape", "test")
    assert str(shape) in str(caught.value)
    assert "expected pictures of uint8 (28, 28, 1)" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "part"), [("cifar10", "(32, 32, 3)"), ("imdb_reviews", "is none"), ("omniglot", "(105, 105, 3)")]
)
def test_a_real_data_set_that_does_not_fit_is_refused_before_any_download(
    tfds: Any, name: str, part: str
) -> None:
    with pytest.raises(DataError) as caught:
        load(f"tfds:{name}", "test")
    assert "does not fit" in str(caught.value)
    assert part in str(caught.value)


def test_no_class_label(tfds: Any, folder: pathlib.Path) -> None:
    make_builder(
        tfds, folder, "no_classes", label=tfds.features.Scalar(dtype=np.int64)
    ).download_and_prepare()
    with pytest.raises(DataError, match="no class label named 'label'"):
        load("tfds:no_classes", "test")


def register_failing(
    tfds: Any, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    builder_class = type(make_builder(tfds, folder, "tiny_failing", error=error))
    registered = importlib.import_module("tensorflow_datasets.core.registered")
    monkeypatch.setitem(registered._DATASET_REGISTRY, "tiny_failing", builder_class)


@pytest.mark.parametrize(
    ("error", "parts"),
    [
        (
            ConnectionError("no route to host\nand pages more"),
            ["ConnectionError: no route to host.", "Check the network", "TFDS_DATA_DIR", "idx:FOLDER"],
        ),
        (
            ModuleNotFoundError("No module named 'tensorflow'", name="tensorflow"),
            ["pip install tensorflow", "TFDS_DATA_DIR", "idx:FOLDER"],
        ),
        (
            ModuleNotFoundError("No module named 'x'", name="x"),
            ["No module named 'x'", 'pip install "mnistpro_jax[tfds]"'],
        ),
    ],
)
def test_preparing_fails(
    tfds: Any, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, error: Exception, parts: list[str]
) -> None:
    register_failing(tfds, folder, monkeypatch, error)
    with pytest.raises(DataError) as caught:
        load("tfds:tiny_failing", "test")
    message = str(caught.value)
    for part in ["'tiny_failing'", *parts]:
        assert part in message
    assert "\n" not in message


def test_damaged_files(tfds: Any, folder: pathlib.Path) -> None:
    make_builder(tfds, folder, "tiny_digits").download_and_prepare()
    for path in folder.glob("tiny_digits/3.1.0/*.array_record*"):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError) as caught:
        load("tfds:tiny_digits", "test")
    for part in (str(folder / "tiny_digits"), "Cannot read", "prepared anew"):
        assert part in str(caught.value)


def test_a_format_that_needs_tensorflow(tfds: Any, folder: pathlib.Path) -> None:
    make_builder(tfds, folder, "tiny_digits").download_and_prepare()
    (info,) = folder.glob("tiny_digits/3.1.0/dataset_info.json")
    info.write_text(info.read_text().replace("array_record", "tfrecord"))
    with pytest.raises(DataError, match="only TensorFlow can read; expected array_record"):
        load("tfds:tiny_digits", "test")


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)  # any import of it now fails
    with pytest.raises(DataError) as caught:
        load("tfds:mnist", "test")
    assert 'pip install "mnistpro_jax[tfds]"' in str(caught.value)


def test_without_a_network_the_error_comes_within_seconds(tfds: Any) -> None:
    """urllib3 doubles its pause of 0.2 s from try to try."""
    downloader = importlib.import_module("tensorflow_datasets.core.download.downloader")
    usual, tries = downloader.MAX_RETRIES, []

    class Offline:
        data_dir = "nowhere"

        def download_and_prepare(self) -> None:
            tries.append(downloader.MAX_RETRIES)
            raise ConnectionError("no network")

    with pytest.raises(DataError, match="could not prepare 'tiny'.*no network.*Check the network"):
        tfds_source._prepare(Offline(), "tiny")
    assert sum(0.2 * 2**again for again in range(1, tries[0])) < 10
    assert usual == downloader.MAX_RETRIES
