"""Evaluate an agent by name: which episodes, which bank it may read, the run, the control, the summary.

run = next(evaluate(EvaluationRequest(level=1, agent="observer")))
run.summary["accuracy"], run.summary["accuracy_ci95"]
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from mnistpro_jax import data, registration
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.agents.reader import Reader, build_reader, full_read
from mnistpro_jax.agents.registry import default_confidence, has_confidence, is_learned, reads_with
from mnistpro_jax.env import bitmap
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.rollouts.rollout import Trajectories, rollout
from mnistpro_jax.rollouts.sharding import episode_mesh, num_devices, on_each_device, replicated, row_each
from mnistpro_jax.runs.from_rollout import episode_records
from mnistpro_jax.runs.outcomes import Flags, Outcomes
from mnistpro_jax.runs.summary import RunSettings, summarise
from mnistpro_jax.worlds.digits import episode_bank
from mnistpro_jax.worlds.published import PUBLISHED_LEVELS, canvas_of

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from mnistpro_jax.env.environment import Environment, EnvParams

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
    hides the window's rim from the agent. batch: episodes side by side on each device, None for what suits it. devices:
    how many of this process's devices the episodes are split over, None for all. weights: a folder with a learned
    agent's weights, None for those in the package.
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
    devices: int | None = None
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

    Same request, same results, whatever ``batch`` and ``devices`` are: episode i's images follow from (seed, i), its
    start and the agent's randomness from the seed and i. Bank, reader and compiled programs are shared by the runs.

    Raises ValueError (DataError included) for requests that make no sense, before any work is done where
    possible.
    """
    prepared = prepare(request, report)
    control = prepared.control(0, prepared.count)
    for confidence in prepared.confidences:
        trajectories = prepared.play(confidence, 0, prepared.count)
        yield prepared.evaluation(confidence, trajectories, control)


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """A request with all that its runs share. count: its episodes. confidences: of its runs, None for agents without.

    params are on every device of the mesh. say: where progress is reported.
    """

    request: EvaluationRequest
    dataset: data.Dataset
    env: Environment
    params: EnvParams
    reader: Reader | None
    mesh: Mesh | None
    count: int
    confidences: tuple[float | None, ...]
    say: Report

    def control(self, first: int, count: int) -> Flags | None:
        """Whether the reader reads the unmasked canvases of ``count`` episodes from ``first`` on right, bool (count,);
        None where the agent has no reader."""
        if self.reader is None:
            return None
        return _control_correct(self.reader, self.params.bank, self.mesh, first, count, self.say)

    @property
    def batch(self) -> int:
        """Episodes side by side on each device."""
        return self.request.batch or _default_batch(reads_with(self.request.agent))

    def play(
        self, confidence: float | None, first: int, count: int, chunk: int | None = None
    ) -> Trajectories:
        """``count`` episodes from number ``first`` on; chunk: see ``rollouts.rollout``."""
        request = self.request
        chosen: dict[str, Any] = {"num_classes": self.dataset.num_classes}
        if has_confidence(request.agent):
            chosen = {"reader": self.reader, "confidence": confidence, "weights": request.weights}
        several = len(self.confidences) > 1
        what = f"{request.agent}, confidence {confidence:g}" if several else request.agent
        self.say(f"{what}: compiling", 0, 0)
        return rollout(
            jax.random.key(request.seed),
            self.env,
            self.params,
            make_agent(request.agent, Geometry.of(self.env), **chosen),
            count,
            first_episode=first,
            batch_size=self.batch,
            chunk_size=chunk,
            mesh=self.mesh,
            progress=lambda done, total: self.say(f"{what}: episodes", done, total),
        )

    def evaluation(
        self, confidence: float | None, trajectories: Trajectories, control: Flags | None
    ) -> Evaluation:
        """The finished run of all episodes."""
        request = self.request
        settings = RunSettings(
            level=request.level,
            window=self.env.window,
            stride=self.env.stride,
            budget=int(self.params.budget),
            outline=self.env.outline,
            source=self.dataset.source,
            split=self.dataset.split,
            episode_list="published" if request.episodes is None else "random",
            num_classes=self.dataset.num_classes,
            agent=request.agent,
            confidence=confidence,
            seed=request.seed,
            weights=None if request.weights is None else str(request.weights),
        )
        pixels = self.env.height * self.env.width
        outcomes = Outcomes.of(trajectories.statistics, pixels)
        return Evaluation(settings, self.dataset, trajectories, outcomes, control, pixels)


def prepare(request: EvaluationRequest, report: Report | None = None) -> Prepared:
    """Load images and reader, build the bank, and put them on the devices. Raises as ``evaluate``."""
    say = report or (lambda what, done, total: None)
    check(request)
    mesh = episode_mesh(request.devices)
    say("loading images", 0, 0)
    dataset = data.load(request.source, request.split)
    env, bank = world(request, dataset)
    params = registration.make_params(env, bank, budget=request.budget)
    reader: Reader | None = None
    reads = reads_with(request.agent)
    if is_learned(request.agent):
        # Refuses a world that it was not made for.
        make_agent(request.agent, Geometry.of(env), weights=request.weights)
    if reads == "bank":
        say("reader: preparing the training images", 0, 0)
        reader = build_reader(data.load(request.source, "train"), native_factor=env.native_factor)
    elif reads == "network":
        reader = trained_reader(request.weights)
    confidences: tuple[float | None, ...] = request.confidences
    if not confidences:
        needs_one = has_confidence(request.agent)
        confidences = (default_confidence(request.level, request.agent) if needs_one else None,)
    return Prepared(
        request=request,
        dataset=dataset,
        env=env,
        params=replicated(params, mesh),
        reader=replicated(reader, mesh),
        mesh=mesh,
        count=len(bank.episodes.scenes) if bank.episodes is not None else 0,
        confidences=confidences,
        say=say,
    )


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


def _control_correct(
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
