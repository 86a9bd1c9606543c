"""Plays a few scenes with a small bank, and takes digests of all that the agents thought and did.

The world is the slow one of ``helpers``: its canvases are whole numbers, and only agents are compiled. Also a program:
the instruction set that XLA compiles for is fixed when a process begins.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax import data
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.agents.reader import EmpiricalBayesReader, build_reader
from mnistpro_jax.env import pipeline
from mnistpro_jax.env.types import Observation
from tests.agents.helpers import fused, observation

PLAYED = ("observer", "coverage", "random-walk")  # all three decide; the first is followed
GEOMETRY = Geometry(width=448, num_digits=2)
BANK, EPISODES, STEPS = 2_000, 12, 10


@jax.jit
def think(reader: EmpiricalBayesReader, keys: jax.Array, seen: Observation) -> Any:
    """The posterior, and what every agent does, for a batch."""

    def one(key: jax.Array, shown: Observation) -> Any:
        agents = [make_agent(name, GEOMETRY, reader=reader, confidence=1.1) for name in PLAYED]
        return reader.posterior(shown.view), [agent.act(key, shown, agent.init(key))[0] for agent in agents]

    return jax.vmap(one)(keys, seen)


def digests() -> dict[str, str]:
    """Of the reader, of what it believed, and of what each agent did."""
    train, test = data.load("mnist", "train"), data.load("mnist", "test")
    reader = build_reader(
        data.Dataset(train.images[:BANK], train.labels[:BANK], train.num_classes, train.source, train.split)
    )
    pairs = np.concatenate([test.images[:EPISODES], test.images[EPISODES : 2 * EPISODES]], axis=2)
    canvases = np.asarray(pipeline.strokes(jnp.asarray(pairs)))
    ways = [[(32 * k, 13 * k)] for k in range(EPISODES)]
    thoughts: list[Any] = []
    for step in range(STEPS):
        views = [
            observation(fused(GEOMETRY, canvas, way), way[-1], step)
            for canvas, way in zip(canvases, ways, strict=True)
        ]
        keys = jax.random.split(jax.random.key(step), EPISODES)
        thoughts.append(think(reader, keys, jax.tree.map(lambda *leaves: jnp.stack(leaves), *views)))
        for way, kind in zip(ways, thoughts[-1][1][0].kind, strict=True):
            x, y = GEOMETRY.move(jnp.asarray(way[-1]), kind).tolist()
            way.append((x, y))
    posteriors, actions = zip(*thoughts, strict=True)
    made = {"reader": digest(reader), "posteriors": digest(posteriors)}
    return made | {name: digest([step[k] for step in actions]) for k, name in enumerate(PLAYED)}


def digest(tree: Any) -> str:
    """Of the bytes of all arrays, in the order and the layout that every machine has."""
    made = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        array = np.asarray(leaf)
        made.update(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes())
    return made.hexdigest()[:16]


if __name__ == "__main__":
    print(json.dumps(digests()))
