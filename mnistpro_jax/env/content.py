"""Trees of arrays that nobody changes, compared by what they hold."""

from __future__ import annotations

import hashlib
from typing import Any

import jax
import numpy as np


def same_content(one: Any, other: Any) -> bool:
    """Whether two trees have one structure and equal arrays. Arrays that are the same object are not read."""
    leaves, others = jax.tree.leaves(one), jax.tree.leaves(other)
    structure: Any = jax.tree.structure(one)
    return bool(structure == jax.tree.structure(other)) and all(
        leaf is its or (leaf.shape == its.shape and leaf.dtype == its.dtype and np.array_equal(leaf, its))
        for leaf, its in zip(leaves, others, strict=True)
    )


def content_hash(tree: Any) -> int:
    """A hash that equal trees share: of structure, shapes and dtypes, which are known without reading an array."""
    leaves, structure = jax.tree.flatten(tree)
    return hash((structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves)))


def digest(tree: Any) -> str:
    """SHA-256 of structure and arrays, the same in every process."""
    found = hashlib.sha256()
    leaves, structure = jax.tree.flatten(tree)
    found.update(str(structure).encode())
    for leaf in leaves:
        found.update(f"{leaf.shape} {leaf.dtype}".encode())
        found.update(np.ascontiguousarray(leaf).data)
    return found.hexdigest()
