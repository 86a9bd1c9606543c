"""Plays a few published episodes with a small bank, and prints digests of all that happened.

Run as a program: the instruction set that XLA compiles for is fixed when a process begins.
"""

from __future__ import annotations

import hashlib
import json

import jax
import numpy as np

from mnistpro_jax import data, registration
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.agents.reader import build_reader
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.evaluation.world import world
from mnistpro_jax.rollouts.rollout import rollout

PLAYED = (("random-walk", 1), ("observer", 2), ("coverage", 2))
BANK, EPISODES, BUDGET = 2_000, 12, 14


def digest(*arrays: np.ndarray) -> str:
    """Of the bytes of arrays, in the order and the layout that every machine has."""
    made = hashlib.sha256()
    for array in arrays:
        made.update(np.ascontiguousarray(array, np.asarray(array).dtype.newbyteorder("<")).tobytes())
    return made.hexdigest()[:16]


def main() -> None:
    """Print a JSON object: digests by what was made."""
    train, test = data.load("mnist", "train"), data.load("mnist", "test")
    few = data.Dataset(train.images[:BANK], train.labels[:BANK], train.num_classes, train.source, train.split)
    reader = build_reader(few)
    digests = {"reader": digest(*(np.asarray(leaf) for leaf in jax.tree.leaves(reader)))}
    for name, level in PLAYED:
        env, bank = world(EvaluationRequest(level=level), test)
        played = rollout(
            jax.random.key(0),
            env,
            registration.make_params(env, bank, budget=BUDGET),
            make_agent(name, Geometry.of(env), reader=reader),
            EPISODES,
            batch_size=EPISODES,
        )
        digests[f"{name} {level}"] = digest(
            played.windows, played.kinds, played.statistics.steps, played.statistics.correct
        )
    print(json.dumps(digests))


if __name__ == "__main__":
    main()
