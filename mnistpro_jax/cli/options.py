"""Options that several commands have, and how their values are read."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mnistpro_jax.evaluation.request import EvaluationRequest

LARGEST_LEVEL = 99
LARGEST_SEED = 2**32 - 1
DEFAULT_WINDOW, DEFAULT_STRIDE = 64, 32


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers in low..high."""
    expected = f"a whole number, {low} or more" if high is None else f"a whole number, {low} to {high}"

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{text!r} is not {expected}")
        return value

    return parse


def episodes(text: str) -> int | None:
    """A parser of numbers of episodes: None for 'published'."""
    if text == "published":
        return None
    try:
        return whole(1)(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not 'published' or a whole number, 1 or more"
        ) from None


def confidence(text: str) -> float:
    """A parser of thresholds of confidence, 0 or more."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a probability, 0 or more")
    return value


def add_episodes(parser: argparse.ArgumentParser) -> None:
    """Which agent plays which episodes of which world; ``request_of`` reads it."""
    what = parser.add_argument_group("what to play")
    what.add_argument(
        "--agent", default="observer", metavar="NAME", help="see `mnistpro agents` (default: observer)"
    )
    add_scenes(what)
    what.add_argument(
        "--confidence",
        type=confidence,
        nargs="+",
        default=(),
        metavar="P",
        help="answer from this probability of being right on, 0 to 1, above 1 never before the last step; "
        "several make a row each (default, chosen on training images: 0.95 at level 1 and 0.9 above; planner and "
        "canvas 0.99 and 0.95, memoryless 0.6 and 0.02)",
    )
    add_weights(what)
    add_world(parser)


def add_scenes(what: argparse._ActionsContainer) -> None:
    """Which episodes."""
    what.add_argument(
        "--level",
        type=whole(1, LARGEST_LEVEL),
        default=1,
        metavar="N",
        help="digits side by side (default: 1)",
    )
    what.add_argument(
        "--episodes",
        type=episodes,
        default=None,
        metavar="N",
        help="'published', the 100 published episodes of level 1 or 2; or how many to draw: at level 1 every "
        "image once before any comes again, above it independent images (default: published)",
    )
    what.add_argument(
        "--data",
        default="mnist",
        metavar="SOURCE",
        help="'mnist', 'tfds:NAME' or 'idx:FOLDER'; agents read with the training split of the same source "
        "(default: mnist)",
    )
    what.add_argument(
        "--split", choices=("train", "test"), default="test", help="images that are shown (default: test)"
    )
    what.add_argument(
        "--seed",
        type=whole(0, LARGEST_SEED),
        default=0,
        metavar="S",
        help="of images, starts and the agent's choices; the same seed gives the same results (default: 0)",
    )


def add_world(parser: argparse.ArgumentParser) -> None:
    """The window and the budget."""
    world = parser.add_argument_group("world")
    world.add_argument(
        "--window",
        type=whole(1),
        default=DEFAULT_WINDOW,
        metavar="PX",
        help="side of the window in pixels of the 224 x 224 N canvas (default: 64)",
    )
    world.add_argument(
        "--stride", type=whole(1), default=DEFAULT_STRIDE, metavar="PX", help="pixels a move (default: 32)"
    )
    world.add_argument(
        "--budget",
        type=whole(1),
        default=None,
        metavar="STEPS",
        help="actions an episode, the answer included (default: the window positions on the stride's grid, "
        "36 at level 1 and 78 at level 2)",
    )
    world.add_argument(
        "--no-outline",
        dest="outline",
        action="store_false",
        help="show the agent whole windows; by default the published outline hides their rim, 2 pixels",
    )


def add_weights(parser: argparse._ActionsContainer) -> None:
    """Whose weights a learned agent plays with."""
    parser.add_argument(
        "--weights",
        type=Path,
        default=None,
        metavar="DIR",
        help="weights of a learned agent, as `python -m baselines.export --out DIR` writes them (default: those in "
        "the package)",
    )


def add_speed(parser: argparse._ActionsContainer) -> None:
    """How many episodes play side by side."""
    parser.add_argument(
        "--batch",
        type=whole(1),
        default=None,
        metavar="B",
        help="episodes side by side on each device; changes speed and memory, not results (default: on a CPU 64 for "
        "agents that read with a bank and 256 for those with a network, else 1024)",
    )
    parser.add_argument(
        "--devices",
        type=whole(1),
        default=None,
        metavar="N",
        help="split the episodes over the first N devices of this process; changes speed, not results (default: all)",
    )


def request_of(arguments: argparse.Namespace) -> EvaluationRequest:
    """What the options of ``add_episodes`` ask for."""
    # It loads JAX (see ``mnistpro_jax.cli``).
    from mnistpro_jax.evaluation.request import EvaluationRequest

    return EvaluationRequest(
        level=arguments.level,
        agent=arguments.agent,
        episodes=arguments.episodes,
        source=arguments.data,
        split=arguments.split,
        seed=arguments.seed,
        confidences=tuple(arguments.confidence),
        window=arguments.window,
        stride=arguments.stride,
        budget=arguments.budget,
        outline=arguments.outline,
        batch=arguments.batch,
        devices=arguments.devices,
        weights=arguments.weights,
    )
