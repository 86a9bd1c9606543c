"""What every source of pictures delivers: a validated ``Dataset``, or one clear ``DataError``."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

SIDE = 28
"""Height and width of a picture in pixels; the scenes of the benchmark are built from such tiles."""

SPLITS = ("train", "test")
"""The splits that every source offers."""


class DataError(ValueError):
    """Data that cannot be used. The message says what was wrong, what was expected and what to do."""


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """Labelled pictures as they were published: 0 is background, 255 is full ink.

    The arrays are exposed read-only, so that one data set can be shared safely.

    Attributes:
        images: uint8 (N, 28, 28), N >= 1, rows from top to bottom.
        labels: int32 (N,), each in [0, num_classes).
        num_classes: number of classes, which is also the base of a multi-digit answer.
        source: where the pictures came from, as given to ``load``.
        split: which part of the source this is, "train" or "test".

    Raises:
        DataError: a field has the wrong type, shape or range.
    """

    images: npt.NDArray[np.uint8] = dataclasses.field(repr=False)
    labels: npt.NDArray[np.int32] = dataclasses.field(repr=False)
    num_classes: int
    source: str
    split: str

    def __post_init__(self) -> None:
        where = f"Dataset from {self.source!r}, split {self.split!r}"
        _check_array(where, "images", self.images, np.uint8, (None, SIDE, SIDE))
        _check_array(where, "labels", self.labels, np.int32, (len(self.images),))
        if len(self.images) == 0:
            raise DataError(f"{where}: it is empty; at least one picture is needed.")
        if not isinstance(self.num_classes, int) or self.num_classes < 1:
            raise DataError(f"{where}: num_classes is {self.num_classes!r}; expected an int of at least 1.")
        low, high = int(self.labels.min()), int(self.labels.max())
        if low < 0 or high >= self.num_classes:
            raise DataError(
                f"{where}: labels span {low}..{high}; expected labels within 0..{self.num_classes - 1} "
                f"(num_classes = {self.num_classes}). Correct the labels, or give the true num_classes."
            )
        for name in ("images", "labels"):
            # A read-only view: the caller's own array keeps its flags.
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.images)


def checked_dataset(value: Any) -> Dataset:
    """``value``, which has to be a ``Dataset``: TypeError for arrays alone, a name, and anything else."""
    if not isinstance(value, Dataset):
        raise TypeError(
            f"dataset is a {type(value).__name__}; expected a mnistpro_jax.data.Dataset, which holds images with their "
            "labels, as mnistpro_jax.data.load(source, split) returns it"
        )
    return value


def _check_array(where: str, name: str, array: Any, dtype: type, shape: tuple[int | None, ...]) -> None:
    """Raises DataError unless ``array`` is a NumPy array of that dtype and shape (None: any length)."""
    lengths = ", ".join("N" if length is None else str(length) for length in shape)
    expected = f"a NumPy array of {np.dtype(dtype)} with shape ({lengths})"
    if not isinstance(array, np.ndarray):
        raise DataError(f"{where}: {name} is a {type(array).__name__}; expected {expected}.")
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        raise DataError(f"{where}: {name} is {array.dtype} with shape {array.shape}; expected {expected}.")
