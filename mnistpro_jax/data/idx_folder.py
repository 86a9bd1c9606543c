"""The source "idx:FOLDER": the four files of MNIST, or of a drop-in replacement for it, in a folder.

Each split is a file of pictures and a file of labels: ``train-images-idx3-ubyte`` and
``train-labels-idx1-ubyte``, or ``t10k-...`` for the test split. A dot in place of the dash before "idx" and
the ending ".gz" are understood as well. Only the files of the split asked for need to be there.
"""

from __future__ import annotations

import os
import pathlib

import numpy as np

from mnistpro_jax.data import idx
from mnistpro_jax.data.dataset import SIDE, DataError, Dataset

NUM_CLASSES = 10
"""IDX files name no classes; the drop-in replacements for MNIST all have its ten."""

PREFIXES = {"train": "train", "test": "t10k"}
"""Split to the first word of its files; MNIST calls its test split t10k."""


def load_folder(folder: str | os.PathLike[str], split: str) -> Dataset:
    """Load one split of the IDX files in ``folder``.

    Args:
        folder: path of the folder; a leading "~" is the home folder.
        split: "train" or "test".

    Returns:
        images uint8 (N, 28, 28) and labels int32 (N,) in the order of the files; num_classes is 10.

    Raises:
        DataError: the message names the file that is missing, damaged or does not fit.
    """
    images_path = find_file(folder, split, "images")
    labels_path = find_file(folder, split, "labels")
    images = idx.read(images_path, ndim=3)
    labels = idx.read(labels_path, ndim=1)
    if images.shape[1:] != (SIDE, SIDE):
        raise DataError(
            f"{images_path} holds pictures of {images.shape[1]} x {images.shape[2]} pixels; expected {SIDE} "
            f"x {SIDE}. Scale or pad the pictures first."
        )
    if len(images) == 0:
        raise DataError(
            f"{images_path} holds no picture; expected at least one. Fetch or write the file again."
        )
    if len(labels) != len(images):
        raise DataError(
            f"{labels_path} holds {len(labels):,} labels and {images_path} {len(images):,} pictures; "
            "expected as many labels as pictures. Take both files from the same data set and split."
        )
    outside = np.flatnonzero(labels >= NUM_CLASSES)
    if outside.size:
        raise DataError(
            f"{labels_path} holds the label {labels[outside[0]]} at index {outside[0]} ({outside.size:,} "
            f"labels are out of range); expected labels within 0..{NUM_CLASSES - 1}. Renumber the classes, "
            "or keep those ten."
        )
    return Dataset(
        images, labels.astype(np.int32), NUM_CLASSES, source=f"idx:{os.fspath(folder)}", split=split
    )


def find_file(folder: str | os.PathLike[str], split: str, content: str) -> pathlib.Path:
    """Path of the file with the "images" or the "labels" of a split.

    Where several spellings are there, the dash goes before the dot and plain before gzip.

    Raises:
        DataError: no such folder, or no such file in it.
    """
    root = pathlib.Path(folder).expanduser()
    if not root.is_dir():
        raise DataError(
            f"{root} {'is not a folder' if root.exists() else 'does not exist'}; expected a folder with the "
            "IDX files of MNIST or of a replacement for it. Correct the path after 'idx:'."
        )
    ndim = {"images": 3, "labels": 1}[content]
    stem = f"{PREFIXES[split]}-{content}"
    names = [f"{stem}{mark}idx{ndim}-ubyte{ending}" for mark in "-." for ending in ("", ".gz")]
    for name in names:
        if (root / name).is_file():
            return root / name
    raise DataError(
        f"{root} has no file with the {content} of the {split} split; expected one of {', '.join(names)}. "
        "Put it there, or rename the file you have."
    )
