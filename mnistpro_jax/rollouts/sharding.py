"""Splitting episodes over the devices of a process: a mesh with one axis, parameters and banks on every device.

Episodes do not know of one another, so that devices need not either: a rollout gives each device its own part of the
list of episodes (``on_each_device``), and nothing is exchanged until the end. Training sums gradients over a batch:
there the batch is split (``split_batch``), and XLA adds up what has to be added up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

EPISODES = "episodes"
"""The mesh's axis."""

T = TypeVar("T")


def episode_mesh(devices: int | None = None) -> Mesh | None:
    """A mesh over the first ``devices`` devices of this process, all of them for None.

    None where that is a single device: programs for one device need no mesh. Raises ValueError for a number that
    this process does not have.
    """
    local = jax.local_devices()
    count = len(local) if devices is None else devices
    if not 1 <= count <= len(local):
        raise ValueError(
            f"devices is {devices}; expected 1 to {len(local)}, which this process has ({local[0].platform})"
        )
    if count == 1:
        return None
    return jax.make_mesh((count,), (EPISODES,), axis_types=(AxisType.Auto,), devices=local[:count])


def num_devices(mesh: Mesh | None) -> int:
    """Devices of a mesh; 1 without one."""
    return 1 if mesh is None else int(mesh.size)


def replicated(tree: T, mesh: Mesh | None) -> T:
    """The same arrays on every device of the mesh; nothing is copied where they are there already."""
    if mesh is None:
        return tree
    copied: T = jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))
    return copied


def on_one(tree: T, mesh: Mesh | None) -> T:
    """Replicated arrays, on the first device of the mesh alone."""
    if mesh is None:
        return tree
    taken: T = jax.device_put(tree, mesh.devices.flat[0])
    return taken


def row_each(tree: T, mesh: Mesh | None) -> T:
    """Arrays with a leading axis of devices, each row on its device."""
    sharding = None if mesh is None else NamedSharding(mesh, PartitionSpec(EPISODES))
    placed: T = jax.device_put(tree, sharding)
    return placed


def parts_of(count: int, devices: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """``count`` items as one run for each device: (the first item of each, how many it has), int32 (devices,).

    Sizes differ by at most one; where there are fewer items than devices, some have none.
    """
    sizes = np.full(devices, count // devices, np.int32)
    sizes[: count % devices] += 1
    return (np.cumsum(sizes) - sizes).astype(np.int32), sizes


def on_each_device(function: Callable[[Any, Any], T], mesh: Mesh | None) -> Callable[[Any, Any], T]:
    """``function(shared, own)`` on every device, with all of ``shared`` and its own row of ``own``.

    Leaves of ``own`` and of the result have a leading axis of devices, which ``function`` does not see. Devices
    exchange nothing, so that a loop may take more turns on one than on another.
    """

    def row(shared: Any, own: Any) -> T:
        result: T = jax.tree.map(
            lambda leaf: leaf[None], function(shared, jax.tree.map(lambda leaf: leaf[0], own))
        )
        return result

    if mesh is None:
        return row
    every, each = PartitionSpec(), PartitionSpec(EPISODES)
    # check_vma=False: on the CPU, the environment contains loops that this check of shard_map does not see through.
    split: Callable[[Any, Any], T] = jax.shard_map(
        row, mesh=mesh, in_specs=(every, each), out_specs=each, check_vma=False
    )
    return split


@contextlib.contextmanager
def splitting(mesh: Mesh | None) -> Iterator[None]:
    """Within the block, ``split_batch`` splits over ``mesh``."""
    if mesh is None:
        yield
        return
    with jax.set_mesh(mesh):
        yield


def split_batch(tree: T, axis: int = 0) -> T:
    """The same arrays, in a program that is traced within ``splitting``: divided over the devices along ``axis``.

    Values stay what they are; what is summed over the batch afterwards is summed in another order. Raises ValueError
    where the devices do not divide the batch.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if EPISODES not in mesh.axis_names:
        return tree
    devices = mesh.shape[EPISODES]

    def split(leaf: jax.Array) -> jax.Array:
        if leaf.shape[axis] % devices:
            raise ValueError(
                f"{devices} devices do not divide a batch of {leaf.shape[axis]}; choose a multiple of {devices}, or "
                "fewer devices"
            )
        return jax.lax.with_sharding_constraint(leaf, PartitionSpec(*[None] * axis, EPISODES))

    divided: T = jax.tree.map(split, tree)
    return divided
