"""Weights, those in the package or in a folder: one ``.npz`` an agent, half precision, with what made them beside them.

``baselines.export`` writes the files. A file holds the parameters by path ("params/Dense_0/kernel") and, as JSON, the
configuration, the seed, the commit and the world that it was trained for.
"""

from __future__ import annotations

import importlib.resources
import io
import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.learned.networks import ActorCritic, ReaderNetwork, RecurrentAttention
from mnistpro_jax.agents.learned.reader import LearnedReader

_ABOUT = "about"
LARGEST = 2 * 2**20  # bytes of a file


def save(path: Path, params: Any, about: dict[str, Any], **arrays: np.ndarray) -> int:
    """Write parameters (a nested dict of arrays) and what is to be known about them; returns the bytes.

    Raises ValueError for more than ``LARGEST`` bytes.
    """
    flat = {
        "/".join(str(getattr(key, "key", key)) for key in keys): np.asarray(leaf, np.float16)
        for keys, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **flat, **arrays, **{_ABOUT: np.array(json.dumps(about))})  # type: ignore[arg-type]
    if buffer.tell() > LARGEST:
        raise ValueError(f"{path.name} would take {buffer.tell():,} bytes; at most {LARGEST:,} are shipped")
    path.write_bytes(buffer.getvalue())
    return buffer.tell()


def load(name: str, weights: Path | None = None) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """(parameters, float32; what is known about them; other arrays) of an agent.

    weights: a folder that ``baselines.export`` wrote, or None for the weights in the package. Raises ValueError for a
    name that is not there.
    """
    shipped = importlib.resources.files("mnistpro_jax.agents.learned") / "weights"
    folder = shipped if weights is None else weights
    file = folder / f"{name}.npz"
    if not file.is_file():
        known = (
            sorted(entry.name[:-4] for entry in folder.iterdir() if entry.name.endswith(".npz"))
            if folder.is_dir()
            else []
        )
        where = "are shipped" if weights is None else f"lie in {weights}"
        raise ValueError(
            f"no weights {name!r} {where}; expected one of {', '.join(known) or '(there are none)'}"
        )
    with np.load(io.BytesIO(file.read_bytes())) as stored:
        arrays = {key: stored[key] for key in stored.files}
    about = json.loads(str(arrays.pop(_ABOUT)))
    params: dict[str, Any] = {}
    others = {}
    for key, array in arrays.items():
        if "/" not in key:
            others[key] = array
            continue
        *parents, leaf = key.split("/")
        at = params
        for parent in parents:
            at = at.setdefault(parent, {})
        at[leaf] = jnp.asarray(array.astype(np.float32))
    return params, about, others


def check_world(name: str, about: dict[str, Any], geometry: Geometry) -> None:
    """ValueError, naming the field, where an agent was not made for a world."""
    for field, made_for in about["world"].items():
        have = getattr(geometry, field)
        if have != made_for:
            raise ValueError(
                f"agent {name!r} was trained for {field} {made_for}, but this world has {have}; its score would mean "
                "nothing. Train one for this world (baselines/README.md)."
            )


def load_reader(weights: Path | None = None) -> tuple[LearnedReader, dict[str, Any]]:
    """The reader, and what is known about it."""
    params, about, others = load("reader", weights)
    config = about["config"]
    network = ReaderNetwork(tuple(config["channels"]), tuple(config["strides"]), config["hidden"])
    reader = LearnedReader(
        params,
        jnp.asarray(about["temperature"], jnp.float32),
        jnp.asarray(others["information"].astype(np.float32)),
        network,
    )
    return reader, about


def load_actor(weights: Path | None = None) -> tuple[Any, ActorCritic, dict[str, Any]]:
    """(parameters, network, what is known about it) of the canvas agent's explorer."""
    params, about, _ = load("canvas", weights)
    return params, ActorCritic(tuple(about["config"]["hidden"])), about


def load_glimpse(name: str, weights: Path | None = None) -> tuple[Any, RecurrentAttention, dict[str, Any]]:
    """(parameters, network, what is known about it) of a recurrent agent, "glimpse" or "memoryless"."""
    params, about, _ = load(name, weights)
    return params, RecurrentAttention(core_size=about["config"]["core_size"]), about
