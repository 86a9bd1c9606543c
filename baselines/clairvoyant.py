"""What stops the learned agents: an explorer that sees the hidden picture and its label, with the same reader and rule.

``python -m baselines.clairvoyant`` lets it play level 1 beside the planner and the canvas agent, the same episodes and
starts. It is no agent. An environment is a pure function, so that it is asked what every two moves would show, and
the reader what it would make of that; the first of the two moves that end nearest to the right answer is made. Between
its steps and an agent's lies what the picture alone could tell; what it gets wrong, or needs many steps for, is the
reader's.

It looks two moves ahead and no farther, therefore it is not the least number of steps: where two moves hardly help it
goes where the planner goes. Two digits lie farther apart than two moves, so that there it would bound nothing: it is
for level 1.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from baselines.command import numbers, run
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.agents.explorers import PriorCoverage, Sight
from mnistpro_jax.agents.policies import ReadingPolicy
from mnistpro_jax.agents.reader import Beliefs, Reader
from mnistpro_jax.cli.terminal import progress
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, FusedCanvas, Kind, Observation, State, pytree, static_field
from mnistpro_jax.evaluation.evaluate import Prepared, prepare
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.rollouts.rollout import Trajectories, rollout

FLAGS = flags.FLAGS
NAME = "clairvoyant"
BESIDE = ("planner", "canvas")  # the agents that read with the same reader
HARDLY = 0.1  # share of the missing nats; where two moves take away less, the planner decides
_SMALLEST = 1e-6
_BATCH = 64


@pytree
class Foresight:
    """What is hidden from agents, in an observation's view.

    now: what was seen. one: what will have been seen after each move, leading axis (4,). two: after each two moves,
    (4, 4), the first move first. label: int32 (n,).
    """

    now: FusedCanvas
    one: FusedCanvas
    two: FusedCanvas
    label: jax.Array


@dataclasses.dataclass(frozen=True)
class ForeseeingEnvironment(Environment):
    """The same world, whose observations hold a ``Foresight`` as their view."""

    def reset_to(self, scene: jax.Array, start_xy: jax.Array, params: EnvParams) -> tuple[Observation, State]:
        """See ``Environment``."""
        observation, state = super().reset_to(scene, start_xy, params)
        return self._foresee(observation, state, params), state

    def step_env(
        self, key: jax.Array, state: State, action: jax.Array | Action, params: EnvParams
    ) -> tuple[Observation, State, jax.Array, jax.Array, jax.Array, dict[str, Any]]:
        """See ``Environment``; ``final_observation`` is the plain one."""
        observation, state, *rest = super().step_env(key, state, action, params)
        return self._foresee(observation, state, params), state, *rest  # type: ignore[return-value]

    def _foresee(self, observation: Observation, state: State, params: EnvParams) -> Observation:
        def after(state: State, kind: jax.Array) -> tuple[State, FusedCanvas]:
            action = Action(kind, jnp.zeros((self.num_digits,), jnp.int32))
            # Moves draw nothing, so that any key does.
            seen, moved, *_ = self.step_running(jax.random.key(0), state, action, params)
            return moved, seen.view

        # The first move of each of the sixteen pairs, then the second, in a loop: the step is compiled once.
        pairs = jnp.stack(jnp.meshgrid(jnp.arange(4), jnp.arange(4), indexing="ij")).reshape(2, 16)
        everywhere = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (16, *leaf.shape)), state)
        _, views = jax.lax.scan(jax.vmap(after), everywhere, pairs.astype(jnp.int32))
        one = jax.tree.map(lambda leaf: leaf[0, ::4], views)
        two = jax.tree.map(lambda leaf: leaf[1].reshape(4, 4, *leaf.shape[2:]), views)
        label = params.bank.label(state.scene)
        return dataclasses.replace(observation, view=Foresight(observation.view, one, two, label))


@pytree
class ClairvoyantPolicy:
    """``ReadingPolicy`` with an explorer that knows what it is going to see, in a ``ForeseeingEnvironment``.

    planner: decides where two moves hardly help. confidence: float32 ().
    """

    planner: PriorCoverage
    reader: Reader
    confidence: jax.Array
    observation: str = static_field(default="canvas")

    def init(self, key: jax.Array) -> tuple[()]:
        """No memory."""
        return ()

    def act(self, key: jax.Array, observation: Observation, carry: Any) -> tuple[Action, Any]:
        """See ``agents.base.Policy``."""
        foresight: Foresight = observation.view
        observation = dataclasses.replace(observation, view=foresight.now)
        posterior, missing, ends = self._judge(foresight)
        answering = (posterior.confidence >= self.confidence) | (observation.steps_left <= 1)
        now, later = missing[0], missing[5:].reshape(4, 4)
        ends_soon, ends_later = ends[1:5], ends[5:].reshape(4, 4)
        # The sooner it ends the better; between equals, what is missing decides.
        ends = jnp.where(ends_soon, 2, jnp.any(ends_later, axis=-1).astype(jnp.int32))
        least = jnp.min(later, axis=-1)
        worth = jnp.float32(100) * ends.astype(jnp.float32) - least
        sight = Sight(observation, self.reader, posterior, self.confidence)
        planned, _ = self.planner.direction(key, sight, ())
        hardly = (jnp.max(ends) == 0) & (now - jnp.min(least) < HARDLY * now)
        direction = jnp.where(hardly, planned, jnp.argmax(worth))
        kind = jnp.where(answering, Kind.ANSWER, direction).astype(jnp.int32)
        return Action(kind, posterior.digits), carry

    def _judge(self, foresight: Foresight) -> tuple[Beliefs, jax.Array, jax.Array]:
        """What the reader believes now; and now, after each move and after each two, (21,): the nats that it lacks to
        the right answer, float32, and whether it would give it, bool."""

        def read(seen: FusedCanvas) -> tuple[Beliefs, jax.Array, jax.Array]:
            posterior = self.reader.posterior(seen)
            chance = jnp.take_along_axis(posterior.classes, foresight.label[:, None], axis=-1)[:, 0]
            missing = -jnp.sum(jnp.log(jnp.maximum(chance, jnp.float32(_SMALLEST))))
            right = jnp.all(posterior.digits == foresight.label) & (posterior.confidence >= self.confidence)
            return posterior, missing, right

        def joined(now: jax.Array, one: jax.Array, two: jax.Array) -> jax.Array:
            return jnp.concatenate([now[None], one, two.reshape(16, *now.shape)])

        posteriors, missing, right = jax.vmap(read)(
            jax.tree.map(joined, foresight.now, foresight.one, foresight.two)
        )
        return jax.tree.map(lambda leaf: leaf[0], posteriors), missing, right


def play(prepared: Prepared, confidence: float) -> Trajectories:
    """The episodes of a request for the planner, played by the clairvoyant explorer: number for number the same scenes
    and starts."""
    plain = prepared.env
    fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
    planner = make_agent("planner", Geometry.of(plain), reader=prepared.reader, confidence=confidence)
    assert isinstance(planner, ReadingPolicy)
    assert isinstance(planner.explorer, PriorCoverage)
    return rollout(
        jax.random.key(prepared.request.seed),
        ForeseeingEnvironment(**fields),
        prepared.params,
        ClairvoyantPolicy(planner.explorer, planner.reader, planner.confidence),
        prepared.count,
        batch_size=_BATCH,
        progress=lambda done, total: prepared.say(
            f"{NAME}, confidence {confidence:g}: episodes", done, total
        ),
    )


def row(name: str, confidence: float, played: Trajectories) -> str:
    """A line of the table."""
    statistics = played.statistics
    accuracy, steps = 100 * np.mean(statistics.correct), np.mean(statistics.steps)
    return f"| `{name}` | {confidence:g} | {accuracy:.2f} % | {steps:.2f} |"


def main() -> None:
    """Compare."""
    confidences = numbers(FLAGS.confidences)
    if not confidences:
        raise ValueError("--confidences is empty; expected numbers, as in 0.95,0.99")
    lines = ["| explorer | confidence | accuracy | steps |", "|---|---|---|---|"]
    for name in (NAME, *BESIDE):
        agent = "planner" if name == NAME else name
        request = EvaluationRequest(agent=agent, episodes=FLAGS.episodes, confidences=tuple(confidences))
        with progress() as report:
            prepared = prepare(request, report)
            for confidence in confidences:
                played = (
                    play(prepared, confidence)
                    if name == NAME
                    else prepared.play(confidence, 0, prepared.count)
                )
                lines.append(row(name, confidence, played))
    print("\n".join(lines))


if __name__ == "__main__":
    flags.DEFINE_integer("episodes", 2_000, "Episodes of the test split for each row.", lower_bound=1)
    flags.DEFINE_list("confidences", ["0.95", "0.99", "0.995"], "From which to answer.")
    run(main)
