"""MNIST in the box: the source "mnist", read from the file ``mnist.zip`` beside this module.

The bundle is a plain zip of the four IDX files as they were published, so that anyone can unpack it and
compare hashes. ``MNIST.md`` is its data card; ``build_bundle`` makes it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import zipfile
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import numpy as np

from mnistpro_jax.data import idx
from mnistpro_jax.data.dataset import DataError, Dataset

NUM_CLASSES = 10

BUNDLE_NAME: Final = "mnist.zip"


@dataclasses.dataclass(frozen=True)
class Member:
    """A file of the bundle: its name, and the SHA-256 (hexadecimal) of its content."""

    name: str
    sha256: str


# The pinned hashes are those of the files as first published, unpacked. They are checked on every load, which
# costs a few hundredths of a second: "mnist" is the canonical MNIST or an error, never something like it.
IMAGES: Final = {
    "train": Member(
        "train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"
    ),
    "test": Member(
        "t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"
    ),
}
LABELS: Final = {
    "train": Member(
        "train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"
    ),
    "test": Member(
        "t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"
    ),
}


def shipped_bundle() -> Traversable:
    """The bundle of the installed package; also where the package is itself inside a zip."""
    return resources.files("mnistpro_jax.data").joinpath(BUNDLE_NAME)


def load_mnist(split: str, file: Traversable | None = None) -> Dataset:
    """Load one split of MNIST; the other split is not unpacked.

    Args:
        split: "train" (60,000 pictures) or "test" (10,000).
        file: the bundle to read; the shipped one unless given.

    Returns:
        images uint8 (N, 28, 28), labels int32 (N,), num_classes 10, in the order of the original files.

    Raises:
        DataError: the bundle is missing, damaged or not the canonical MNIST.
    """
    if file is None:
        file = shipped_bundle()
    try:
        with file.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            images = archive.read(IMAGES[split].name)
            labels = archive.read(LABELS[split].name)
    # zipfile passes on the errors of its parts: on bytes flipped at random, nine different types were seen.
    except Exception as error:
        raise _damaged(file, f"{type(error).__name__}: {error}") from error
    for payload, member in ((images, IMAGES[split]), (labels, LABELS[split])):
        if hashlib.sha256(payload).hexdigest() != member.sha256:
            raise _damaged(file, f"{member.name} is not the published file, by its SHA-256")
    return Dataset(
        images=idx.decode(images, 3, IMAGES[split].name),
        labels=idx.decode(labels, 1, LABELS[split].name).astype(np.int32),
        num_classes=NUM_CLASSES,
        source="mnist",
        split=split,
    )


def _damaged(file: Traversable, reason: str) -> DataError:
    return DataError(
        f"The MNIST bundle {file} is missing or damaged ({reason}); expected the file that comes with the "
        "package. Install mnistpro_jax again, or rebuild the bundle: python -m "
        "mnistpro_jax.data.build_bundle --idx FOLDER."
    )
