"""The control of an evaluation: the same reader on unmasked canvases."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.agents.reader import Reader, full_read
from mnistpro_jax.env import bitmap
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.evaluation.request import Report
from mnistpro_jax.rollouts.sharding import num_devices, on_each_device, row_each
from mnistpro_jax.runs.outcomes import Flags

if TYPE_CHECKING:
    from jax.sharding import Mesh

_READ_AT_ONCE = 64  # canvases of a control read: bounds its memory


def control_correct(
    reader: Reader, bank: Bank, mesh: Mesh | None, first: int, count: int, say: Report
) -> Flags:
    """Whether the reader reads the unmasked canvas of each listed episode right, bool (count,)."""
    assert bank.episodes is not None
    scenes = np.asarray(bank.episodes.scenes)[first : first + count]
    listed, episodes = np.unique(scenes, axis=0, return_inverse=True)
    correct = np.empty(len(listed), bool)
    devices = num_devices(mesh)
    at_once = devices * _READ_AT_ONCE
    for start in range(0, len(listed), at_once):
        say("control: reading whole canvases", start, len(listed))
        # The last one is filled up, so that all have the shape that was compiled.
        rows = np.minimum(np.arange(start, start + at_once), len(listed) - 1).reshape(devices, -1)
        right = _read_right(mesh, (reader, bank), row_each(listed[rows].astype(np.int32), mesh))
        correct[start : start + at_once] = np.asarray(right).reshape(-1)[: len(listed) - start]
    return correct[episodes.reshape(-1)]


@functools.partial(jax.jit, static_argnames="mesh")
def _read_right(mesh: Mesh | None, reader_and_bank: tuple[Reader, Bank], scenes: jax.Array) -> jax.Array:
    """scenes: int32 (devices, B, m). Returns bool (devices, B)."""

    def right(shared: tuple[Reader, Bank], scene: jax.Array) -> jax.Array:
        reader, bank = shared
        stroke = bitmap.pool(bank.canvas(scene), bank.width, bank.native_factor)
        return jnp.all(full_read(reader, stroke).digits == bank.label(scene))

    return on_each_device(jax.vmap(right, in_axes=(None, 0)), mesh)(reader_and_bank, scenes)
