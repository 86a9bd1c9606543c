"""Agents by name: ``make_agent("observer", Geometry(), train_dataset)``, ``make_agent("canvas")``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from mnistpro_jax.agents.base import Geometry, Policy
from mnistpro_jax.agents.explorers import Explorer, InformationGain, PriorCoverage, RandomWalk, Serpentine
from mnistpro_jax.agents.policies import ReadingPolicy, UniformRandom
from mnistpro_jax.agents.reader import Reader, build_reader

if TYPE_CHECKING:
    from mnistpro_jax.data import Dataset

_DESCRIPTIONS = {
    "random": "uniform over all moves and answers; looks at nothing",
    "random-walk": "uniform over the moves that change the window, until the reader is sure",
    "serpentine": "to the nearest corner, then row by row, until the reader is sure",
    "coverage": "where most prior information is unseen, until the reader is sure",
    "observer": "where the answer is expected to become surest (information gain), until the reader is sure",
    "memoryless": "as glimpse, but forgets all before every glimpse: what memory is worth",
    "glimpse": "recurrent attention: no canvas, remembers in a GRU; learned by REINFORCE",
    "planner": "as coverage, with a trained network as the reader",
    "canvas": "learned by PPO on the fused canvas, with the same trained reader",
}
_READS_WITH = {
    "random": None,
    "random-walk": "bank",
    "serpentine": "bank",
    "coverage": "bank",
    "observer": "bank",
    "memoryless": "memory",
    "glimpse": "memory",
    "planner": "network",
    "canvas": "network",
}

# All chosen by the published reward (-0.1 a move, +10 right, -10 wrong) of the observer on images 55,000
# to 59,999 of the training split, against a bank of the others: 9.2 an episode with one digit (800
# episodes), 8.1 with two (400). All are flat: the next threshold of 0.8, 0.9, 0.95, 0.97 loses 0.03 to
# 0.3; a floor of 0.05, a tie-break of 0.3 to 3, a discount of 0.5 (one digit) and 32 particles stay within
# 0.1. A discount of 0.85 takes 10 % more steps with two digits; 32 particles take 2 % fewer.
# `python -m baselines.tune --agent observer --episodes 800` compares thresholds in this way (9.30 at 0.95, of its own
# draw of episodes).
DEFAULT_CONFIDENCE = (0.95, 0.9)  # for one digit, for more
# By the same reward on the same held-out images: `python -m baselines.tune --agent NAME --level 1 --episodes 4000`, and
# `--level 2 --episodes 2000` (for memoryless with lower `--confidences` than the script's own). For one digit flat from
# 0.95 to 0.995 for planner and canvas (9.47 to 9.52), so that the reward chooses none of these; 0.99 is a surer one.
# Highest at 0.95 for glimpse (9.36); for two at 0.95 for planner (8.20) and canvas (8.29), at 0.9 for glimpse (7.33).
# Without a memory it does not pay to look for long: for one digit flat from 0.6 to 0.7 (6.35 to 6.43), where 0.6 takes
# the fewest steps (3.4; 0.7: 7.3); of two the agent sees one, so that it does best to answer at once or nearly (-8.96
# at 0.02, -8.87 at 0.05, -16.42 at 0.1).
LEARNED_CONFIDENCE = {
    "memoryless": (0.6, 0.02),
    "planner": (0.99, 0.95),
    "canvas": (0.99, 0.95),
    "glimpse": (0.95, 0.9),
}
DISCOUNT = 0.7
FLOOR = 0.2
TIE_BREAK = 1.0
PARTICLES = 16
_NO_LIMIT = 2**31 - 1


def agent_names() -> tuple[str, ...]:
    """The names that ``make_agent`` knows, from blind to best."""
    return tuple(_DESCRIPTIONS)


def describe(name: str) -> str:
    """One line on an agent; ValueError for a name that does not exist."""
    if name not in _DESCRIPTIONS:
        raise ValueError(f"unknown agent {name!r}; expected one of {', '.join(_DESCRIPTIONS)}")
    return _DESCRIPTIONS[name]


def reads_with(name: str) -> str | None:
    """What an agent reads with: "bank" (every training image), "network" (the shipped reader, on the fused canvas),
    "memory" (its own network, without a canvas), None (it is blind). ValueError for an unknown name."""
    describe(name)
    return _READS_WITH[name]


def has_confidence(name: str) -> bool:
    """Whether the agent answers from a confidence on. ValueError for an unknown name."""
    return reads_with(name) is not None


def is_learned(name: str) -> bool:
    """Whether the agent has trained weights. ValueError for an unknown name."""
    return reads_with(name) in ("network", "memory")


def default_confidence(num_digits: int, name: str = "observer") -> float:
    """The threshold that ``make_agent`` uses where none is given, for an agent that has one."""
    thresholds = LEARNED_CONFIDENCE.get(name, DEFAULT_CONFIDENCE)
    return thresholds[min(num_digits, len(thresholds)) - 1]


def make_agent(
    name: str,
    geometry: Geometry | None = None,
    train_dataset: Dataset | None = None,
    *,
    reader: Reader | None = None,
    confidence: float | None = None,
    max_moves: int | None = None,
    discount: float = DISCOUNT,
    floor: float = FLOOR,
    tie_break: float = TIE_BREAK,
    particles: int = PARTICLES,
    num_classes: int = 10,
    weights: Path | None = None,
) -> Policy[Any]:
    """An agent that is ready to act, as a pytree policy.

    geometry: the world (default: the published level 1; ``Geometry.of(env)`` for any other). train_dataset:
    the images that the reader compares with, e.g. ``mnistpro_jax.data.load("mnist", "train")``; or a
    ``reader`` built before, to share one bank among agents. "random" needs neither, and takes only geometry
    and ``num_classes``. confidence: answer from this probability of a wholly right answer on (default
    ``default_confidence``). max_moves: answer after so many moves at the latest (default: the budget alone
    decides). discount, floor: see ``PriorCoverage``; tie_break, particles: see ``InformationGain``. weights: a folder
    with the weights of a learned agent (default: those in the package).

    Raises ValueError for an unknown name, a missing bank, or a value out of range.
    """
    describe(name)
    world = Geometry() if geometry is None else geometry
    if name == "random":
        return UniformRandom(num_digits=world.num_digits, num_classes=num_classes)
    confidence = default_confidence(world.num_digits, name) if confidence is None else confidence
    _check("confidence", confidence, 0.0)
    _check("discount", discount, 0.0, 1.0)
    _check("floor", floor, 0.0, 1.0)
    _check("tie_break", tie_break, 0.0)
    _check("particles", particles, 1)
    if max_moves is not None:
        _check("max_moves", max_moves, 0)
    sure = jnp.asarray(confidence, jnp.float32)
    longest = jnp.asarray(_NO_LIMIT if max_moves is None else max_moves, jnp.int32)
    if reads_with(name) == "memory":
        return _glimpse(name, world, sure, longest, weights)
    if reads_with(name) == "network":
        return _with_network(name, world, reader, sure, longest, discount, floor, weights)
    return ReadingPolicy(
        explorer=_explorer(name, world, discount, floor, tie_break, particles),
        reader=_reader(name, world, reader, train_dataset),
        confidence=sure,
        max_moves=longest,
    )


def _glimpse(
    name: str, world: Geometry, confidence: jax.Array, max_moves: jax.Array, weights: Path | None
) -> Policy[Any]:
    from mnistpro_jax.agents.learned import shipped
    from mnistpro_jax.agents.learned.glimpse import GlimpsePolicy

    params, network, about = shipped.load_glimpse(name, weights)
    shipped.check_world(name, about["world"], world)
    return GlimpsePolicy(params, confidence, max_moves, world, network, about["config"]["remembers"])


def _with_network(
    name: str,
    world: Geometry,
    reader: Reader | None,
    confidence: jax.Array,
    max_moves: jax.Array,
    discount: float,
    floor: float,
    weights: Path | None,
) -> Policy[Any]:
    from mnistpro_jax.agents.learned import shipped
    from mnistpro_jax.agents.learned.explorer import LearnedExplorer
    from mnistpro_jax.agents.learned.reader import LearnedReader

    if reader is None:
        reader, _ = shipped.load_reader(weights)
    if isinstance(reader, LearnedReader):
        shipped.check_world(name, dict(reader.world), world)
    _check_fit(reader, world)
    explorer: Explorer
    if name == "canvas":
        params, network, about = shipped.load_actor(weights)
        shipped.check_world(name, about["world"], world)
        explorer = LearnedExplorer(params, world, network)
    else:
        explorer = PriorCoverage(jnp.asarray(discount, jnp.float32), jnp.asarray(floor, jnp.float32), world)
    return ReadingPolicy(explorer, reader, confidence, max_moves)


def _reader(name: str, world: Geometry, reader: Reader | None, dataset: Dataset | None) -> Reader:
    if reader is None:
        if dataset is None:
            raise ValueError(
                f"agent {name!r} reads with a bank of training images; pass train_dataset (for example "
                'mnistpro_jax.data.load("mnist", "train")) or a reader built from one'
            )
        reader = build_reader(dataset, native_factor=world.native_factor)
    _check_fit(reader, world)
    return reader


def _check_fit(reader: Reader, world: Geometry) -> None:
    native = (world.native_height, world.native_width)
    if reader.information.shape != native or reader.cell != world.native_factor**2:
        raise ValueError(
            f"the reader knows digits of {reader.information.shape} native pixels of {reader.cell} canvas "
            f"pixels, but the world has {native} of {world.native_factor**2}; build one for this world"
        )


def _explorer(
    name: str, world: Geometry, discount: float, floor: float, tie_break: float, particles: int
) -> Explorer:
    if name == "random-walk":
        return RandomWalk(world)
    if name == "serpentine":
        return Serpentine(world)
    coverage = PriorCoverage(jnp.asarray(discount, jnp.float32), jnp.asarray(floor, jnp.float32), world)
    if name == "coverage":
        return coverage
    return InformationGain(
        coverage, jnp.asarray(discount, jnp.float32), jnp.asarray(tie_break, jnp.float32), particles
    )


def _check(name: str, value: float, low: float, high: float | None = None) -> None:
    # NaN fails both comparisons, so that it is refused as well.
    if not (value >= low and (high is None or value <= high)):
        upper = "" if high is None else f" to {high:g}"
        raise ValueError(f"{name} is {value}; expected {low:g}{upper or ' or more'}")
