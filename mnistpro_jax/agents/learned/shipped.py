"""Weights, those in the package or in a folder: one ``.npz`` an agent, half precision, with what made them beside them.

``baselines.export`` writes the files. A file holds the parameters by path ("params/Dense_0/kernel") and, as JSON, the
configuration, the seed, the commit and the world that it was trained for.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.learned.explorer import num_features
from mnistpro_jax.agents.learned.networks import ActorCritic, ReaderNetwork, RecurrentAttention
from mnistpro_jax.agents.learned.reader import LearnedReader
from mnistpro_jax.data.whole_file import whole_file

NAMES = ("reader", "canvas", "glimpse", "memoryless")  # of which there are weights
LARGEST = 2 * 2**20  # bytes of a file
# A network that works at native resolution was trained with these; another window would show it other pictures.
WORLD = ("window", "stride", "native_factor", "outline")
_ABOUT = "about"
_NATIVE = (28, 28)  # pixels of a digit


def save(path: Path, params: Any, about: dict[str, Any], **arrays: np.ndarray) -> int:
    """Write parameters (a nested dict of arrays) and what is to be known about them; returns the bytes.

    Raises ValueError for more than ``LARGEST`` bytes, and for a number that half precision does not hold.
    """
    with np.errstate(over="ignore"):  # what becomes infinite is refused below
        flat = {
            _name_of(keys): np.asarray(leaf, np.float16)
            for keys, leaf in jax.tree_util.tree_leaves_with_path(params)
        }
    for name, array in {**flat, **arrays}.items():
        if not np.isfinite(array).all():
            raise ValueError(
                f"{path.name} would hold {name} with numbers that are not finite in half precision; nothing is "
                "written. Export another run"
            )
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **flat, **arrays, **{_ABOUT: np.array(json.dumps(about))})  # type: ignore[arg-type]
    if buffer.tell() > LARGEST:
        raise ValueError(f"{path.name} would take {buffer.tell():,} bytes; at most {LARGEST:,} are shipped")
    with whole_file(path) as unfinished:
        unfinished.write_bytes(buffer.getvalue())
    return buffer.tell()


def load(name: str, weights: Path | None = None) -> tuple[Any, dict[str, Any], dict[str, np.ndarray]]:
    """(parameters, float32; what is known about them; other arrays) of an agent, one of ``NAMES``.

    weights: a folder that ``baselines.export`` wrote, or None for the weights in the package. Raises ValueError for a
    name that is not there, and for a file that is damaged or holds something else.
    """
    shipped = importlib.resources.files("mnistpro_jax.agents.learned") / "weights"
    folder = shipped if weights is None else weights
    file = folder / f"{name}.npz"
    if name not in NAMES or not file.is_file():
        known = [known for known in NAMES if (folder / f"{known}.npz").is_file()]
        where = "are shipped" if weights is None else f"lie in {weights}"
        raise ValueError(
            f"no weights {name!r} {where}; expected one of {', '.join(known) or '(there are none)'}"
        )
    content = file.read_bytes()
    try:
        about, params, others = _parse(name, content)
    except ValueError as error:
        remedy = (
            "install mnistpro_jax again"
            if weights is None
            else "export the run again (baselines.export), or use the weights in the package"
        )
        raise ValueError(f"{file}: {error}; {remedy}") from error
    tree: dict[str, Any] = {}
    for key, array in params.items():
        *parents, leaf = key.split("/")
        at = tree
        for parent in parents:
            at = at.setdefault(parent, {})
        at[leaf] = jnp.asarray(array.astype(np.float32))
    return tree, about, others


def _parse(name: str, content: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """(what is known, parameters by path, other arrays) of a file; ValueError, without the file's name, if that is
    not what the agent needs."""
    try:
        with np.load(io.BytesIO(content)) as stored:
            arrays = {key: stored[key] for key in stored.files}
    except Exception as error:
        # A damaged archive may fail in any of its layers: zip, deflate, numpy's headers, memory for a wrong shape.
        raise ValueError(f"this is no file of weights, or a damaged one ({_short(error)})") from error
    if _ABOUT not in arrays:
        raise ValueError(f"the entry {_ABOUT!r} is missing, so that nothing is known of these arrays")
    try:
        about = json.loads(str(arrays.pop(_ABOUT)))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the entry {_ABOUT!r} is damaged ({_short(error)})") from error
    _check_about(name, about)
    params = {key: array for key, array in arrays.items() if "/" in key}
    others = {key: array for key, array in arrays.items() if "/" not in key}
    expected = _shapes(name, about["config"])
    _compare({key: array.shape for key, array in params.items()}, expected)
    if name == "reader":
        _compare({key: array.shape for key, array in others.items()}, {"information": _NATIVE})
    for key, array in arrays.items():
        if array.dtype.kind != "f" or not np.isfinite(array).all():
            raise ValueError(f"{key} holds something else than finite floating-point numbers")
    return about, params, others


def _check_about(name: str, about: Any) -> None:
    if not isinstance(about, dict):
        raise ValueError(f"the entry {_ABOUT!r} is no JSON object")
    if about.get("name") != name:
        raise ValueError(f"these are the weights of {about.get('name')!r}, not of {name!r}")
    world = about.get("world")
    if not isinstance(world, dict) or world.keys() != set(WORLD):
        raise ValueError(f"its world is {world!r}; expected the fields {', '.join(WORLD)}")
    if not all(isinstance(value, int) for value in world.values()):
        raise ValueError(f"its world is {world!r}; expected whole numbers, and true or false for outline")
    config = about.get("config")
    if not isinstance(config, dict):
        raise ValueError("it has no configuration")
    if name in ("glimpse", "memoryless") and config.get("remembers") is not (name == "glimpse"):
        raise ValueError(
            f"its configuration has remembers {config.get('remembers')!r}, which is not agent {name!r}"
        )
    temperature = about.get("temperature")
    if name == "reader" and not (
        isinstance(temperature, int | float) and math.isfinite(temperature) and temperature > 0
    ):
        raise ValueError(f"its temperature is {temperature!r}; expected a number above 0")


def _shapes(name: str, config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter, by path, of the network that a configuration describes."""
    network: Any
    inputs: list[tuple[int, ...]]
    if name == "reader":
        network, inputs = _reader_network(config), [(1, *_NATIVE, 2)]
    elif name == "canvas":
        network, inputs = _actor_network(config), [(1, num_features())]
    else:
        network = _glimpse_network(config)
        inputs = [(1, size) for size in (network.core_size, 256, 3, 2)]
    shown = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in inputs]
    tree = jax.eval_shape(network.init, jax.random.key(0), *shown)
    return {_name_of(keys): leaf.shape for keys, leaf in jax.tree_util.tree_leaves_with_path(tree)}


def _reader_network(config: dict[str, Any]) -> ReaderNetwork:
    channels, strides = _sizes(config, "channels"), _sizes(config, "strides")
    if len(channels) != len(strides):
        raise ValueError(f"its configuration has {len(channels)} channels, but {len(strides)} strides")
    return ReaderNetwork(channels, strides, _size(config, "hidden"))


def _actor_network(config: dict[str, Any]) -> ActorCritic:
    return ActorCritic(_sizes(config, "hidden"))


def _glimpse_network(config: dict[str, Any]) -> RecurrentAttention:
    return RecurrentAttention(core_size=_size(config, "core_size"))


def _compare(found: Mapping[str, tuple[int, ...]], expected: Mapping[str, tuple[int, ...]]) -> None:
    for key in sorted({*found, *expected}):
        have, need = found.get(key), expected.get(key)
        if have != need:
            raise ValueError(
                f"{key} is {'missing' if have is None else f'of shape {have}'}; its configuration makes it "
                f"{'nothing' if need is None else need}"
            )


def _size(config: dict[str, Any], field: str) -> int:
    value = config.get(field)
    if not _is_size(value):
        raise ValueError(f"its configuration has {field} {value!r}; expected a whole number from 1 on")
    return int(value)  # type: ignore[arg-type]


def _sizes(config: dict[str, Any], field: str) -> tuple[int, ...]:
    values = config.get(field)
    if not isinstance(values, list) or not all(map(_is_size, values)):
        raise ValueError(f"its configuration has {field} {values!r}; expected a list of numbers from 1 on")
    return tuple(values)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 2**20


def _name_of(keys: tuple[Any, ...]) -> str:
    return "/".join(str(getattr(key, "key", key)) for key in keys)


def _short(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return text if len(text) <= 100 else f"{text[:97]}..."


def fingerprint(tree: Any) -> str:
    """Of a pytree's numbers, 16 hexadecimal digits: one training run gives one, whatever its folder is called."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()[:16]


def check_world(name: str, made_for: Mapping[str, int], geometry: Geometry) -> None:
    """ValueError, naming the field, where an agent was not made for a world. made_for: see ``LearnedReader.world``."""
    for field, value in made_for.items():
        have = getattr(geometry, field)
        if have != value:
            raise ValueError(
                f"agent {name!r} was trained for {field} {value}, but this world has {have}; its score would mean "
                "nothing. Train one for this world (baselines/README.md)."
            )
    native = (geometry.native_height, geometry.native_width)
    if native != _NATIVE:
        raise ValueError(
            f"agent {name!r} was trained for digits of {_NATIVE} native pixels, but this world has {native}; its "
            "score would mean nothing. Train one for this world (baselines/README.md)."
        )


def load_reader(weights: Path | None = None) -> tuple[LearnedReader, dict[str, Any]]:
    """The reader, and what is known about it."""
    params, about, others = load("reader", weights)
    reader = LearnedReader(
        params,
        jnp.asarray(about["temperature"], jnp.float32),
        jnp.asarray(others["information"].astype(np.float32)),
        _reader_network(about["config"]),
        world=tuple((field, about["world"][field]) for field in WORLD),
    )
    return reader, about


def load_actor(weights: Path | None = None) -> tuple[Any, ActorCritic, dict[str, Any]]:
    """(parameters, network, what is known about it) of the canvas agent's explorer."""
    params, about, _ = load("canvas", weights)
    return params, _actor_network(about["config"]), about


def load_glimpse(name: str, weights: Path | None = None) -> tuple[Any, RecurrentAttention, dict[str, Any]]:
    """(parameters, network, what is known about it) of a recurrent agent, "glimpse" or "memoryless"."""
    params, about, _ = load(name, weights)
    return params, _glimpse_network(about["config"]), about
