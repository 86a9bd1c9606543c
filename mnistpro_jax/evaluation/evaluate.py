"""Evaluate an agent by name: the images, the reader, the run, the control, the summary.

run = next(evaluate(EvaluationRequest(level=1, agent="observer")))
run.summary["accuracy"], run.summary["accuracy_ci95"]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import numpy.typing as npt

from mnistpro_jax import data, registration
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.agents.reader import Reader, build_reader
from mnistpro_jax.agents.registry import default_confidence, has_confidence, is_learned, reads_with
from mnistpro_jax.evaluation.control import control_correct
from mnistpro_jax.evaluation.request import EvaluationRequest, Report, check
from mnistpro_jax.evaluation.world import world
from mnistpro_jax.rollouts.rollout import Trajectories, rollout
from mnistpro_jax.rollouts.sharding import episode_mesh, replicated
from mnistpro_jax.runs.from_rollout import episode_records
from mnistpro_jax.runs.outcomes import Flags, Outcomes
from mnistpro_jax.runs.summary import RunSettings, summarise
from mnistpro_jax.worlds.published import canvas_of

if TYPE_CHECKING:
    from jax.sharding import Mesh

    from mnistpro_jax.env.environment import Environment, EnvParams


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
        """See ``runs.summary.summarise``."""
        return summarise(self.outcomes, self.settings, control_correct=self.control_correct)

    def records(self) -> list[dict[str, Any]]:
        """See ``runs.from_rollout.episode_records``."""
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
        return control_correct(self.reader, self.params.bank, self.mesh, first, count, self.say)

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
        # Networks bring flax, which nobody else here needs.
        from mnistpro_jax.agents.learned.shipped import load_reader

        reader = load_reader(request.weights)[0]
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


def _default_batch(reads: str | None) -> int:
    """Episodes side by side. Who compares each with a whole bank, or runs a network on it, does best on a CPU
    with as many as fit its caches."""
    on_cpu = jax.default_backend() == "cpu"
    return {"bank": 64, "network": 256}.get(reads or "", 1024) if on_cpu else 1024
