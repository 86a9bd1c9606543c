"""``load``: turn the name of a source into a ``Dataset``."""

from __future__ import annotations

from mnistpro_jax.data.dataset import SPLITS, DataError, Dataset

_FORMS = (
    '"mnist" (in the box), '
    '"tfds:NAME" (tensorflow-datasets, such as "tfds:fashion_mnist" or "tfds:emnist/digits"), '
    '"idx:FOLDER" (a folder of IDX files in the layout of MNIST)'
)


def load(source: str = "mnist", split: str = "test") -> Dataset:
    """Load one split of a source of 28 x 28 pictures.

    Every call reads the source anew and nothing is kept in memory between calls. Pictures come in the
    order of the source. For "mnist" and "idx:" that is the order of the IDX files, to which the
    episode list of the paper refers; tensorflow-datasets shuffles a data set once when it prepares it, so
    the same index names another picture in "tfds:mnist" than in "mnist".

    Args:
        source: one of
            "mnist": the complete MNIST, shipped with the package. No network, no further package.
            "tfds:NAME": any data set of tensorflow-datasets with pictures of 28 x 28 pixels, one channel and
            a class label; NAME as tensorflow-datasets spells it. Prepared on first use in the folder named
            by the environment variable TFDS_DATA_DIR (else ~/tensorflow_datasets). EMNIST is turned upright.
            "idx:FOLDER": a folder with the files of MNIST or of a drop-in replacement for it, plain or
            gzip; see ``mnistpro_jax.data.idx_folder``.
        split: "train" or "test".

    Returns:
        The ``Dataset``: images uint8 (N, 28, 28), labels int32 (N,), num_classes (10 for "mnist" and "idx:").

    Raises:
        DataError: unknown source or split, or data that is missing, damaged or of another shape.
    """
    if split not in SPLITS:
        raise DataError(f"Unknown split {split!r}; expected {' or '.join(map(repr, SPLITS))}.")
    if not isinstance(source, str):
        raise DataError(f"The source is a {type(source).__name__}; expected a string, one of {_FORMS}.")

    # Each reader is imported where it is used: importing the data room stays free of work.
    scheme, separator, rest = source.partition(":")
    if source == "mnist":
        from mnistpro_jax.data import bundle

        return bundle.load_mnist(split)
    if separator and rest and scheme == "tfds":
        from mnistpro_jax.data import tfds_source

        return tfds_source.load_tfds(rest, split)
    if separator and rest and scheme == "idx":
        from mnistpro_jax.data import idx_folder

        return idx_folder.load_folder(rest, split)
    raise DataError(f"Unknown source {source!r}; expected one of {_FORMS}.")
