"""The source "tfds:NAME": data sets of tensorflow-datasets, read without TensorFlow.

Works for every data set whose ``image`` is uint8 (28, 28, 1) and whose ``label`` is a class label, such as
mnist, fashion_mnist, kmnist and the six configurations of emnist. Reading goes through the random-access
"data source" interface of tensorflow-datasets, which needs no TensorFlow. Preparing a data set for the first
time may: the code by which tensorflow-datasets 4.9 prepares the four above does.

Things to know about the data:

- tensorflow-datasets shuffles each split once, when it prepares it. The order is reproducible, but it is
  not the order of the original files.
- EMNIST is stored mirrored and turned by 90 degrees, rows and columns exchanged (as its authors published
  it; https://www.tensorflow.org/datasets/catalog/emnist). It is turned upright here.
- emnist/letters has the labels 1..26 but declares 37 classes; num_classes is what is declared.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax.data.dataset import SIDE, DataError, Dataset

_INSTALL = 'Install the extra: pip install "mnistpro_jax[tfds]".'
_EXAMPLES = "mnist, fashion_mnist, kmnist, emnist/digits or another name from its catalogue"
_FILE_FORMAT = "array_record"
# Large enough to hide the cost of a call, small enough that the decoded records need little memory.
_RECORDS_PER_READ = 4096
_RETRIES = 5


def load_tfds(name: str, split: str) -> Dataset:
    """Load one split of a data set of tensorflow-datasets, preparing it first where needed.

    The data sets lie in the folder that the environment variable TFDS_DATA_DIR names at the time of the
    call, else in ~/tensorflow_datasets. What lies there prepared is read without network.

    Args:
        name: name as tensorflow-datasets spells it, ``dataset[/config][:version]``.
        split: "train" or "test".

    Returns:
        images uint8 (N, 28, 28), labels int32 (N,) in the prepared order, num_classes as the label declares.

    Raises:
        DataError: a package is missing, the name or the split is unknown, the data could not be fetched, or
            the data set does not hold labelled pictures of 28 x 28 pixels and one channel.
    """
    tfds = _import_tfds()
    builder = _open(tfds, name)
    num_classes = _check_features(tfds, builder, name)  # before anything is downloaded
    _prepare(builder, name)
    images, labels = _read(builder, name, split)
    if builder.name == "emnist":
        images = np.ascontiguousarray(images.transpose(0, 2, 1))
    return Dataset(images, labels, num_classes, source=f"tfds:{name}", split=split)


def _import_tfds() -> Any:
    try:
        # By name: the package is optional and has no type information.
        return importlib.import_module("tensorflow_datasets")
    except ImportError as error:
        raise DataError(f'"tfds:" sources need tensorflow-datasets ({error}). {_INSTALL}') from error


def _open(tfds: Any, name: str) -> Any:
    """The builder of a data set, prepared or not."""
    # tensorflow-datasets reads the variable once, on import; passed on here, a later change counts as well.
    folder = os.environ.get("TFDS_DATA_DIR") or None
    try:
        builder = tfds.builder(name, data_dir=folder)
        if not builder.is_prepared():
            # The format must be asked for before preparing, and must not be for what is prepared in another.
            builder = tfds.builder(name, data_dir=folder, file_format=_FILE_FORMAT)
    except Exception as error:
        _raise_for_missing_package(error, name)
        raise DataError(
            f"tensorflow-datasets cannot open {name!r}: {_first_line(error)} Expected {_EXAMPLES} "
            "(https://www.tensorflow.org/datasets/catalog)."
        ) from error
    return builder


def _check_features(tfds: Any, builder: Any, name: str) -> int:
    """Number of classes; DataError unless the data set holds labelled 28 x 28 pictures of one channel."""
    features = builder.info.features
    found = dict(features) if isinstance(features, tfds.features.FeaturesDict) else {}
    image, label = found.get("image"), found.get("label")
    if not isinstance(image, tfds.features.Image) or (image.shape, image.np_dtype) != (
        (SIDE, SIDE, 1),
        np.uint8,
    ):
        described = "none" if image is None else f"{image.shape} of {np.dtype(image.np_dtype)}"
        raise DataError(
            f"{name!r} of tensorflow-datasets does not fit: its image feature is {described}; expected "
            f"pictures of uint8 ({SIDE}, {SIDE}, 1). Choose another, such as {_EXAMPLES}."
        )
    if not isinstance(label, tfds.features.ClassLabel) or not label.num_classes:
        raise DataError(
            f"{name!r} of tensorflow-datasets does not fit: it has no class label named 'label' (features: "
            f"{', '.join(sorted(found))}). Choose another, such as {_EXAMPLES}."
        )
    return int(label.num_classes)


def _prepare(builder: Any, name: str) -> None:
    """Download and prepare the data set, unless that was done before."""
    try:
        with _few_retries():
            builder.download_and_prepare()
    except Exception as error:
        _raise_for_missing_package(error, name)
        raise DataError(
            f"tensorflow-datasets could not prepare {name!r} in {builder.data_dir}: {_first_line(error)} "
            "Check the network, or prepare it elsewhere and set TFDS_DATA_DIR to the folder with the result, "
            'or load the original IDX files through "idx:FOLDER".'
        ) from error


@contextlib.contextmanager
def _few_retries() -> Iterator[None]:
    """Without a network, tensorflow-datasets tries for 205 seconds, doubling its pause ten times; five are six."""
    downloader: Any = importlib.import_module("tensorflow_datasets.core.download.downloader")
    usual = getattr(downloader, "MAX_RETRIES", None)
    if usual is None:  # another version: its own patience
        yield
        return
    downloader.MAX_RETRIES = min(usual, _RETRIES)
    try:
        yield
    finally:
        downloader.MAX_RETRIES = usual


def _read(builder: Any, name: str, split: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """Pictures (N, 28, 28) and labels (N,) of a prepared data set, as they are stored."""
    if split not in builder.info.splits:
        raise DataError(
            f"{name!r} of tensorflow-datasets has no split {split!r}; expected one of "
            f"{', '.join(sorted(builder.info.splits))}. Choose one of these, or another data set."
        )
    try:
        source = builder.as_data_source(split)
        images = np.empty((len(source), SIDE, SIDE), np.uint8)
        labels = np.empty(len(source), np.int32)
        for index, record in enumerate(_records(source)):
            images[index] = record["image"][:, :, 0]
            labels[index] = record["label"]
    except NotImplementedError as error:
        raise DataError(
            f"{name!r} lies in {builder.data_dir} in a file format that only TensorFlow can read; expected "
            f"{_FILE_FORMAT}. Set TFDS_DATA_DIR to another folder to have it prepared there in that format."
        ) from error
    except Exception as error:
        _raise_for_missing_package(error, name)
        raise DataError(
            f"Cannot read {name!r} in {builder.data_dir}: {_first_line(error)} The files may be damaged: "
            "remove that folder to have the data set prepared anew."
        ) from error
    return images, labels


def _records(source: Any) -> Iterator[Any]:
    """The records of a data source in order, read many at a time: faster than one by one."""
    for start in range(0, len(source), _RECORDS_PER_READ):
        yield from source.__getitems__(range(start, min(start + _RECORDS_PER_READ, len(source))))


def _raise_for_missing_package(error: BaseException, name: str) -> None:
    """DataError with the right cure where a missing package is what lies behind ``error``; else nothing."""
    missing: list[ImportError] = []
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, ImportError):
            missing.append(link)
        link = link.__cause__ or link.__context__
    if not missing:
        return
    # Wrapped errors lose the name of the module, so the whole chain is searched for it.
    if any((link.name or "").partition(".")[0] == "tensorflow" for link in missing):
        raise DataError(
            f"tensorflow-datasets needs TensorFlow to prepare {name!r} for the first time (not to read it "
            "afterwards). Either pip install tensorflow and try again; or prepare it on another machine, as "
            f'tfds.builder({name!r}, file_format="{_FILE_FORMAT}").download_and_prepare(), and set '
            "TFDS_DATA_DIR to the folder with the result; or load the original IDX files through "
            '"idx:FOLDER".'
        ) from error
    raise DataError(
        f"A package that tensorflow-datasets needs for {name!r} is missing: {_first_line(missing[-1])} "
        'Install it, or all that is usually needed: pip install "mnistpro_jax[tfds]".'
    ) from error


def _first_line(error: BaseException) -> str:
    """First line of a message (those of tensorflow-datasets go on for pages), as a sentence."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return text if text.endswith(".") else text + "."
