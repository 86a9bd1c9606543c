"""Evaluate an agent by name: which episodes, which bank it may read, the run, the control, the summary.

run = next(evaluate(EvaluationRequest(level=1, agent="observer")))
run.summary["accuracy"], run.summary["accuracy_ci95"]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mnistpro_jax import bitmap, data, registration
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.agents.reader import Reader, build_reader, full_read
from mnistpro_jax.agents.registry import default_confidence, has_confidence, is_learned, reads_with
from mnistpro_jax.analysis.outcomes import Flags, Outcomes
from mnistpro_jax.analysis.records import episode_records
from mnistpro_jax.analysis.summary import RunSettings, summarise
from mnistpro_jax.rollouts import Trajectories, rollout
from mnistpro_jax.worlds.bank import Bank
from mnistpro_jax.worlds.digits import episode_bank
from mnistpro_jax.worlds.published import PUBLISHED_LEVELS, canvas_of

if TYPE_CHECKING:
    from mnistpro_jax.env import Environment

Report = Callable[[str, int, int], None]
"""Called with (what is being done, finished, total); total is 0 where it is not known."""

_READ_AT_ONCE = 64  # canvases of a control read: bounds its memory


@dataclasses.dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate.

    level: digits, 1 or more. agent: see ``mnistpro_jax.agents.agent_names``. episodes: how many to draw, or
    None for the published list. source, split: see ``mnistpro_jax.data.load``; the agent reads with the
    training split of the same source. seed: 0 .. 2^32 - 1. confidences: a run for each; empty for the agent's
    default. window, stride: pixels. budget: steps, None for the published rule. outline: whether the outline
    hides the window's rim from the agent. batch: episodes side by side, None for what suits the device. weights: a
    folder with a learned agent's weights, None for those in the package.
    """

    level: int = 1
    agent: str = "observer"
    episodes: int | None = None
    source: str = "mnist"
    split: str = "test"
    seed: int = 0
    confidences: tuple[float, ...] = ()
    window: int = 64
    stride: int = 32
    budget: int | None = None
    outline: bool = True
    batch: int | None = None
    weights: Path | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """One finished run. dataset: where the images come from. control_correct: bool (N,) or None."""

    settings: RunSettings
    dataset: data.Dataset
    trajectories: Trajectories
    outcomes: Outcomes
    control_correct: Flags | None
    canvas_pixels: int

    @property
    def summary(self) -> dict[str, Any]:
        """See ``analysis.summary.summarise``."""
        return summarise(self.outcomes, self.settings, control_correct=self.control_correct)

    def records(self) -> list[dict[str, Any]]:
        """See ``analysis.records.episode_records``."""
        return episode_records(
            self.trajectories, self.canvas_pixels, source=self.settings.source, split=self.settings.split
        )

    def canvas(self, episode: int) -> npt.NDArray[np.uint8]:
        """The canvas of an episode, uint8 (224, 224 n): 0 stroke, 255 background."""
        return canvas_of(self.dataset.images[self.trajectories.indices[episode]])


def evaluate(request: EvaluationRequest, report: Report | None = None) -> Iterator[Evaluation]:
    """Run the agent once for each confidence threshold, yielding as runs finish.

    Same request, same results, whatever ``batch`` is: episode i's images follow from (seed, i), its start and
    the agent's randomness from the seed and i. Bank, reader and compiled programs are shared by the runs.

    Raises ValueError (DataError included) for requests that make no sense, before any work is done where
    possible.
    """
    say = report or (lambda what, done, total: None)
    check(request)
    say("loading images", 0, 0)
    dataset = data.load(request.source, request.split)
    env, bank = world(request, dataset)
    params = registration.make_params(env, bank, budget=request.budget)
    geometry = Geometry.of(env)
    count = len(bank.episodes.scenes) if bank.episodes is not None else 0

    reader: Reader | None = None
    control = None
    reads = reads_with(request.agent)
    if is_learned(request.agent):
        make_agent(
            request.agent, geometry, weights=request.weights
        )  # refuses a world that it was not made for
    if reads == "bank":
        say("reader: preparing the training images", 0, 0)
        reader = build_reader(data.load(request.source, "train"), native_factor=env.native_factor)
    elif reads == "network":
        reader = trained_reader(request.weights)
    if reader is not None:
        control = _control_correct(reader, bank, say)

    for confidence in request.confidences or (None,):
        chosen: dict[str, Any] = {"num_classes": dataset.num_classes}
        if has_confidence(request.agent):
            if confidence is None:
                confidence = default_confidence(request.level, request.agent)
            chosen = {"reader": reader, "confidence": confidence, "weights": request.weights}
        what = (
            request.agent if len(request.confidences) < 2 else f"{request.agent}, confidence {confidence:g}"
        )
        say(f"{what}: compiling", 0, 0)
        trajectories = rollout(
            jax.random.key(request.seed),
            env,
            params,
            make_agent(request.agent, geometry, **chosen),
            count,
            batch_size=request.batch or _default_batch(reads),
            progress=lambda done, total, what=what: say(f"{what}: episodes", done, total),  # type: ignore[misc]
        )
        settings = RunSettings(
            level=request.level,
            window=env.window,
            stride=env.stride,
            budget=int(params.budget),
            outline=env.outline,
            source=dataset.source,
            split=dataset.split,
            episode_list="published" if request.episodes is None else "random",
            num_classes=dataset.num_classes,
            agent=request.agent,
            confidence=confidence,
            seed=request.seed,
            weights=None if request.weights is None else str(request.weights),
        )
        pixels = env.height * env.width
        outcomes = Outcomes.of(trajectories.statistics, pixels)
        yield Evaluation(settings, dataset, trajectories, outcomes, control, pixels)


def draw_indices(num_images: int, level: int, num_episodes: int, seed: int) -> npt.NDArray[np.int32]:
    """Images of random episodes, int32 (num_episodes, level): rows of a split of ``num_images``.

    With one digit, a random permutation of the split (each image once), then another one, and so on; with
    more, independent uniform images. A shorter list is the beginning of a longer one of the same seed.
    """
    # The legacy generator, because its streams are frozen: a seed must name the same episodes for ever.
    rng = np.random.RandomState(seed)
    if level > 1:
        return rng.randint(num_images, size=(num_episodes, level), dtype=np.int32)
    rounds = [rng.permutation(num_images) for _ in range(-(-num_episodes // num_images))]
    return np.concatenate(rounds)[:num_episodes, None].astype(np.int32)


def world(request: EvaluationRequest, dataset: data.Dataset) -> tuple[Environment, Bank]:
    """The environment of a request, and a bank that lists its episodes in order.

    Published episodes begin where the published rule puts them for the request's window; others at a random
    stroke pixel.
    """
    static = {"window": request.window, "stride": request.stride, "outline": request.outline}
    if request.episodes is None:
        bank = registration.published_bank(request.level, request.window)
        return registration.environment(bank, start="published", **static), bank
    indices = draw_indices(len(dataset), request.level, request.episodes, request.seed)
    bank = episode_bank(dataset, indices)
    return registration.environment(bank, start="stroke", **static), bank


def check(request: EvaluationRequest) -> None:
    """Raise ValueError for a request that makes no sense."""
    if request.level < 1:
        raise ValueError(f"level is {request.level}; expected the number of digits, 1 or more")
    if request.confidences and not has_confidence(request.agent):
        raise ValueError(
            f"agent {request.agent!r} does not read, so that a confidence would do nothing; leave it out"
        )
    if request.weights is not None and not is_learned(request.agent):
        raise ValueError(f"agent {request.agent!r} has no trained weights; leave the folder of weights out")
    if is_learned(request.agent) and request.source != "mnist":
        raise ValueError(
            f"agent {request.agent!r} was trained on source 'mnist'; on {request.source!r} its score would mean "
            "nothing. Use an agent that reads with the training images themselves, such as 'observer', or train one "
            "(baselines/)"
        )
    if has_confidence(request.agent) and request.split == "train":
        raise ValueError(
            f"agent {request.agent!r} reads with the training images, so that on split 'train' it would be "
            "asked about images that it knows; use split 'test', or the agent 'random'"
        )
    if request.episodes is None:
        if request.level not in PUBLISHED_LEVELS:
            levels = " and ".join(map(str, PUBLISHED_LEVELS))
            raise ValueError(
                f"level {request.level} has no published episodes (levels {levels} have); give a number"
            )
        if (request.source, request.split) != ("mnist", "test"):
            raise ValueError(
                "the published episodes are of the split 'test' of source 'mnist'; give a number of episodes "
                f"to draw from {request.source!r}, {request.split!r}"
            )
    elif request.episodes < 1:
        raise ValueError(f"episodes is {request.episodes}; expected 1 or more, or the published list")


def _default_batch(reads: str | None) -> int:
    """Episodes side by side. Who compares each with a whole bank, or runs a network on it, does best on a CPU
    with as many as fit its caches."""
    on_cpu = jax.default_backend() == "cpu"
    return {"bank": 64, "network": 256}.get(reads or "", 1024) if on_cpu else 1024


def trained_reader(weights: Path | None = None) -> Reader:
    """The trained reader in the package, or in a folder of weights."""
    from mnistpro_jax.agents.learned import shipped

    return shipped.load_reader(weights)[0]


def _control_correct(reader: Reader, bank: Bank, say: Report) -> Flags:
    """Whether the reader reads the unmasked canvas of each listed episode right, bool (E,)."""
    assert bank.episodes is not None
    listed, episodes = np.unique(np.asarray(bank.episodes.scenes), axis=0, return_inverse=True)
    correct = np.empty(len(listed), bool)
    for first in range(0, len(listed), _READ_AT_ONCE):
        say("control: reading whole canvases", first, len(listed))
        # The last one is filled up, so that all have the shape that was compiled.
        rows = np.minimum(np.arange(first, first + _READ_AT_ONCE), len(listed) - 1)
        right = np.asarray(_read_right(reader, bank, jnp.asarray(listed[rows], jnp.int32)))
        correct[first : first + _READ_AT_ONCE] = right[: len(listed) - first]
    return correct[episodes.reshape(-1)]


@jax.jit
def _read_right(reader: Reader, bank: Bank, scenes: jax.Array) -> jax.Array:
    """scenes: int32 (B, m). Returns bool (B,)."""

    def right(scene: jax.Array) -> jax.Array:
        stroke = bitmap.pool(bank.canvas(scene), bank.width, bank.native_factor)
        return jnp.all(full_read(reader, stroke).digits == bank.label(scene))

    return jax.vmap(right)(scenes)
