"""``mnistpro envs``: which environments there are, and what they show."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mnistpro_jax.analysis.tables import plain_table
from mnistpro_jax.cli.options import DEFAULT_STRIDE, DEFAULT_WINDOW
from mnistpro_jax.cli.terminal import stdout
from mnistpro_jax.worlds.published import PUBLISHED_SIZE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro envs``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    # These load JAX (see ``mnistpro_jax.cli``).
    from mnistpro_jax.env.environment import OBSERVATIONS
    from mnistpro_jax.registration import registered

    environments = [_environment_facts(name) for name in registered()]
    if arguments.json:
        print(json.dumps({"environments": environments}, indent=2))
        return 0
    console = stdout()
    worlds = [
        (
            facts["id"],
            " x ".join(map(str, facts["canvas"])),
            str(facts["window"]),
            str(facts["stride"]),
            str(facts["budget"]),
            str(facts["actions"]),
        )
        for facts in environments
    ]
    headings = [("environment", "left"), ("canvas, px", "left")]
    headings += [(name, "right") for name in ("window, px", "stride, px", "budget", "actions")]
    console.print()
    console.print(plain_table(headings, worlds))
    console.print(
        "[dim]MnistPro-L<n>-v0 exists for every number n of digits; actions: 4 moves and all answers.[/dim]"
    )
    for facts in environments:
        rows = []
        for mode, view in facts["observations"].items():
            arrays = [f"{array['dtype']} {_shape(array['shape'])}" for array in view["arrays"].values()]
            names = list(view["arrays"])
            text = arrays[0] if len(arrays) == 1 else f"{' and '.join(names)}: {arrays[0]} each"
            rows.append((mode, text, f"{view['bytes']:,}"))
        console.print()
        console.print(
            plain_table([(f"view of {facts['id']}", "left"), ("arrays", "left"), ("bytes", "right")], rows)
        )
    console.print()
    console.print(plain_table([("view", "left"), ("what it is", "left")], list(OBSERVATIONS.items())))
    return 0


def _environment_facts(env_id: str) -> dict[str, Any]:
    """What an id's environment looks like, without its bank. canvas: height, width."""
    # As above.
    from mnistpro_jax.env.environment import OBSERVATIONS, Environment, default_budget
    from mnistpro_jax.env.pipeline import NATIVE
    from mnistpro_jax.registration import level_of

    level = level_of(env_id)
    height, width = PUBLISHED_SIZE, PUBLISHED_SIZE * level
    observations = {}
    for mode in OBSERVATIONS:
        env = Environment(
            height,
            width,
            level,
            10,
            PUBLISHED_SIZE // NATIVE,
            DEFAULT_WINDOW,
            DEFAULT_STRIDE,
            observation=mode,
        )
        view = env.observation_space()["view"]
        boxes = dict(view.fields) if hasattr(view, "fields") else {"view": view}
        arrays = {
            name: {"shape": list(box.shape), "dtype": str(_dtype(box.dtype))} for name, box in boxes.items()
        }
        size = sum(math.prod(box.shape) * _dtype(box.dtype).itemsize for box in boxes.values())
        observations[mode] = {"arrays": arrays, "bytes": size, "description": OBSERVATIONS[mode]}
    return {
        "id": env_id,
        "level": level,
        "canvas": [height, width],
        "window": env.window,
        "stride": env.stride,
        "budget": default_budget(height, width, env.window, env.stride),
        "actions": 4 + env.num_classes**level,
        "observations": observations,
    }


def _dtype(dtype: Any) -> Any:
    return np.dtype(dtype)


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"
