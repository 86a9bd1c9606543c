"""The canvases of stored episodes, made again from the images that their records name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax import data
from mnistpro_jax.data import DataError, Dataset
from mnistpro_jax.worlds.published import canvas_of

Pixels = npt.NDArray[np.uint8]


def canvas_of_record(record: dict[str, Any], dataset: Dataset) -> Pixels:
    """The canvas of an episode record, uint8 (224, 224 n), rebuilt from its data set.

    Raises DataError where the data set has other images or labels than the record names.
    """
    check_images(record, dataset)
    return canvas_of(dataset.images[np.asarray(record["indices"])])


def check_images(record: dict[str, Any], dataset: Dataset) -> None:
    """DataError where a data set has other images or labels than an episode record names."""
    where = f"{dataset.source} {dataset.split}"
    indices = np.asarray(record["indices"])
    if indices.min() < 0 or indices.max() >= len(dataset):
        raise DataError(
            f"Episode {record['episode']} shows images {record['indices']}, but {where} has images "
            f"0..{len(dataset) - 1}; expected the data that the episode came from."
        )
    labels = dataset.labels[indices].tolist()
    if labels != record["labels"]:
        raise DataError(
            f"Episode {record['episode']} says that images {record['indices']} show {record['labels']}, "
            f"but in {where} they show {labels}; expected the data that the episode came from."
        )


def canvases(records: Sequence[dict[str, Any]], at_once: int = 64) -> Iterator[tuple[dict[str, Any], Pixels]]:
    """Each record with its canvas, uint8 (224, 224 n), made again from its images.

    Raises DataError where the data set has other images or labels than a record names.
    """
    loaded: dict[tuple[str, str], data.Dataset] = {}
    for first in range(0, len(records), at_once):
        block = records[first : first + at_once]
        for record in block:
            home = record["source"], record["split"]
            if home not in loaded:
                loaded[home] = data.load(*home)
            check_images(record, loaded[home])
        # One drawing for all of one kind, as they nearly always are.
        kinds = [(record["source"], record["split"], record["level"]) for record in block]
        drawn: dict[int, Pixels] = {}
        for source, split, level in set(kinds):
            numbers = [number for number, kind in enumerate(kinds) if kind == (source, split, level)]
            images = loaded[source, split].images[
                np.asarray([block[number]["indices"] for number in numbers])
            ]
            drawn.update(zip(numbers, canvas_of(images), strict=True))
        for number, record in enumerate(block):
            yield record, drawn[number]
