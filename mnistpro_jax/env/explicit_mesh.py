"""Batches whose layout over devices is part of their type: meshes with explicit axes, the default of ``jax.make_mesh``.

There a program must say how each of its results is laid out, and one that looks things up for every episode of a batch
cannot be resolved. Every episode is on its own, so that each device can run the program on its episodes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import jax
from jax.custom_batching import custom_vmap
from jax.sharding import AxisType, PartitionSpec

T = TypeVar("T")


def on_explicit_mesh(leaves: Iterable[jax.Array]) -> bool:
    """Whether one of ``leaves`` is laid out over a mesh that has an explicit axis."""
    return any(AxisType.Explicit in jax.typeof(leaf).sharding.mesh.axis_types for leaf in leaves)


def by_device(function: Callable[..., T]) -> Callable[..., T]:
    """``function``, which is mapped over a batch on each device alone where the batch is divided over devices."""
    mapped = custom_vmap(function)

    @mapped.def_vmap
    def over_devices(size: int, batched: Any, *arguments: Any) -> tuple[T, Any]:
        in_axes = tuple(jax.tree.map(lambda is_batched: 0 if is_batched else None, batched))
        over_lanes = jax.vmap(function, in_axes=in_axes, axis_size=size)
        pairs = zip(jax.tree.leaves(arguments), jax.tree.leaves(batched), strict=True)
        # Any lane: vmap refuses lanes that are divided differently.
        layout = jax.typeof(next(leaf for leaf, is_batched in pairs if is_batched)).sharding
        if layout.spec[0] is not None:
            each = PartitionSpec(layout.spec[0])
            # check_vma=False: on the CPU, there are loops that this check of shard_map does not see through.
            over_lanes = jax.shard_map(
                jax.vmap(function, in_axes=in_axes),
                mesh=layout.mesh,
                in_specs=tuple(
                    jax.tree.map(lambda is_batched: each if is_batched else PartitionSpec(), batched)
                ),
                out_specs=each,
                check_vma=False,
            )
        result = over_lanes(*arguments)
        return result, jax.tree.map(lambda _: True, result)

    return mapped
