"""Labelled 28 x 28 pictures: MNIST in the box, tensorflow-datasets, and folders of IDX files.

    from mnistpro_jax.data import load

    dataset = load("mnist", "test")     # 10,000 pictures, no network, no further package

``load`` is the door, ``Dataset`` is what comes out of it, ``DataError`` is the only error it raises.
"""

from mnistpro_jax.data.dataset import SPLITS, DataError, Dataset
from mnistpro_jax.data.sources import load

__all__ = ["SPLITS", "DataError", "Dataset", "load"]
