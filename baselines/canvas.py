"""Train the canvas agent: PPO on where to look, with a reader that is already trained.

Episodes end as those of the agent do, once the reader is as sure as needed; how sure that is differs from lane to lane,
and the policy is told. A move's reward is by how much it raised the reader's log-probability of the right answer, less
the price of a move. Worlds of one and of two digits share every update, so that one network serves both.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from baselines.bounds import COUNT, NOT_NEGATIVE, POSITIVE, SHARE, Range, check_fields, check_worlds
from baselines.held_out import HELD_OUT, split
from baselines.optimisers import adamw_cosine
from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.explorers import Sight
from mnistpro_jax.agents.learned.explorer import LearnedExplorer, features, num_features
from mnistpro_jax.agents.learned.networks import ActorCritic
from mnistpro_jax.agents.learned.reader import LearnedReader
from mnistpro_jax.agents.policies import ReadingPolicy
from mnistpro_jax.data import Dataset
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, Kind, pytree
from mnistpro_jax.registration import environment, make_params
from mnistpro_jax.rollouts.rollout import rollout
from mnistpro_jax.rollouts.sharding import split_batch
from mnistpro_jax.worlds.digits import digit_bank

FLOOR = -4.0  # nats: below it, worse is no worse


@dataclasses.dataclass(frozen=True)
class CanvasConfig:
    """See ``baselines.configs``. worlds: (digits, lanes, steps) of an update. needed: the least and the largest
    confidence that a lane answers from; 1 minus it is drawn uniformly on a logarithmic scale. price: of a move, in
    nats. discount: gamma; trace: lambda of the advantages. clip, entropy, epochs, minibatches: of PPO. held_out: images
    at the training set's end that are kept for ``evaluate``. Raises ValueError for a value out of range."""

    worlds: tuple[tuple[int, int, int], ...] = ((1, 256, 12), (2, 256, 24))
    hidden: tuple[int, ...] = (128, 64)
    updates: int = 160
    learning_rate: float = 7e-4
    needed: tuple[float, float] = (0.85, 0.997)
    price: float = 0.05
    discount: float = 0.97
    trace: float = 0.9
    clip: float = 0.2
    entropy: float = 0.01
    epochs: int = 3
    minibatches: int = 8
    held_out: int = HELD_OUT

    def __post_init__(self) -> None:
        check_worlds(self.worlds, "steps", 1)
        check_fields(
            self,
            hidden=COUNT,
            updates=COUNT,
            learning_rate=POSITIVE,
            needed=Range(0, 1, under=True),  # nothing is surer than 1
            price=NOT_NEGATIVE,
            discount=SHARE,
            trace=SHARE,
            clip=POSITIVE,
            entropy=NOT_NEGATIVE,
            epochs=COUNT,
            minibatches=Range(1, sum(lanes * steps for _, lanes, steps in self.worlds)),
            held_out=COUNT,
        )
        if self.needed[0] > self.needed[1]:
            raise ValueError(f"needed is {self.needed!r}; expected the least confidence before the largest")

    @property
    def network(self) -> ActorCritic:
        """The network that is trained."""
        return ActorCritic(self.hidden)


@pytree
class CanvasState:
    """params of the network, optax's state."""

    params: Any
    optimiser: Any


@pytree
class Moves:
    """What PPO learns from, leading axes (steps, lanes) or flat: features float32 (..., F), useful bool (..., 4),
    action int32, log_prob, value, advantage, target float32, moved bool: whether the step was a move at all."""

    features: jax.Array
    useful: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    target: jax.Array
    moved: jax.Array


class CanvasTrainer:
    """See ``baselines.loop.Trainer``. data: (params of each world, the reader)."""

    def __init__(self, config: CanvasConfig, dataset: Dataset, reader: LearnedReader) -> None:
        self.config = config
        kept, held_out = split(dataset, config.held_out)
        self.envs, params = _worlds(config, kept)
        _, self.held_out = _worlds(config, held_out)
        self.data = (params, reader)

    def init(self, key: jax.Array) -> CanvasState:
        """The state before the first update."""
        params = self.config.network.init(key, jnp.zeros((1, num_features()), jnp.float32))
        return CanvasState(params, self._optimiser().init(params))

    def _optimiser(self) -> optax.GradientTransformation:
        config = self.config
        steps = config.updates * config.epochs * config.minibatches
        return adamw_cosine(config.learning_rate, steps, clip_norm=0.5, final=0.1)

    def _explorer(self, params: Any, env: Environment) -> LearnedExplorer:
        return LearnedExplorer(params, Geometry.of(env), self.config.network, greedy=False)

    def step(self, state: CanvasState, key: jax.Array, data: Any) -> tuple[CanvasState, dict[str, jax.Array]]:
        """One update: episodes in every world, then PPO on all their moves."""
        config = self.config
        worlds, reader = data
        order_key, *keys = jax.random.split(key, len(self.envs) + 1)
        parts, metrics = [], {}
        for env, params, (digits, lanes, steps), world_key in zip(
            self.envs, worlds, config.worlds, keys, strict=True
        ):
            explorer = self._explorer(state.params, env)
            part, answers = play(env, params, reader, explorer, world_key, lanes, steps, config)
            parts.append(jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), part))
            metrics[f"answers_{digits}"] = jnp.mean(answers, dtype=jnp.float32)
        flat = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
        size = flat.action.shape[0] // config.minibatches

        def minibatch(carry: CanvasState, rows: jax.Array) -> tuple[CanvasState, jax.Array]:
            some = split_batch(jax.tree.map(lambda leaf: leaf[rows], flat))
            (_, entropy), gradient = jax.value_and_grad(self._loss, has_aux=True)(carry.params, some)
            changes, moments = self._optimiser().update(gradient, carry.optimiser, carry.params)
            return CanvasState(optax.apply_updates(carry.params, changes), moments), entropy

        rows = jnp.concatenate(
            [
                jax.random.permutation(epoch_key, flat.action.shape[0])[: size * config.minibatches]
                for epoch_key in jax.random.split(order_key, config.epochs)
            ]
        ).reshape(-1, size)
        state, entropies = jax.lax.scan(minibatch, state, rows)
        weights = flat.moved.astype(jnp.float32)
        missed = weighted_mean((flat.target - flat.value) ** 2, weights)
        spread = weighted_mean((flat.target - weighted_mean(flat.target, weights)) ** 2, weights)
        explained = 1 - missed / jnp.maximum(spread, 1e-6)
        return state, {**metrics, "entropy": jnp.mean(entropies), "value_explains": explained}

    def _loss(self, params: Any, moves: Moves) -> tuple[jax.Array, jax.Array]:
        config = self.config
        mean = functools.partial(weighted_mean, weights=moves.moved.astype(jnp.float32))
        logits, value = LearnedExplorer(params, network=config.network).judge(moves.features, moves.useful)
        log_probs = jax.nn.log_softmax(logits)
        taken = jnp.take_along_axis(log_probs, moves.action[:, None], axis=-1)[:, 0]
        ratio = jnp.exp(taken - moves.log_prob)
        advantage = moves.advantage - mean(moves.advantage)
        advantage = advantage / (jnp.sqrt(mean(advantage**2)) + 1e-6)
        clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
        gain = mean(jnp.minimum(ratio * advantage, clipped * advantage))
        entropy = mean(-jnp.sum(jnp.exp(log_probs) * jnp.where(moves.useful, log_probs, 0), axis=-1))
        error = mean((value - moves.target) ** 2)
        return -gain + 0.5 * error - config.entropy * entropy, entropy

    def evaluate(self, state: CanvasState, key: jax.Array) -> dict[str, float]:
        """Accuracy and steps of the finished agent on held-out images, at two confidences."""
        figures = {}
        for env, params, (digits, _, _) in zip(self.envs, self.held_out, self.config.worlds, strict=True):
            explorer = dataclasses.replace(self._explorer(state.params, env), greedy=True)
            for percent in (95, 99):
                needed = jnp.asarray(percent / 100, jnp.float32)
                policy = ReadingPolicy(explorer, self.data[1], needed, jnp.asarray(2**30, jnp.int32))
                played = rollout(key, env, params, policy, 2_000, batch_size=500).statistics
                figures[f"accuracy_{digits}_at_{percent}"] = float(np.mean(played.correct))
                figures[f"steps_{digits}_at_{percent}"] = float(np.mean(played.steps))
        return figures


def weighted_mean(values: jax.Array, weights: jax.Array) -> jax.Array:
    """Mean of float32 (N,) with weights, float32 (N,), not all 0."""
    return jnp.sum(values * weights) / jnp.maximum(jnp.sum(weights), 1e-6)


def _worlds(config: CanvasConfig, dataset: Dataset) -> tuple[tuple[Environment, ...], tuple[EnvParams, ...]]:
    """An environment for each number of digits; one set of canvases serves all."""
    shared = digit_bank(dataset, max(digits for digits, _, _ in config.worlds))
    envs, params = [], []
    for digits, _, _ in config.worlds:
        bank = dataclasses.replace(shared, tiles_per_scene=digits, seams=shared.seams if digits > 1 else None)
        env = environment(bank, observation="canvas", outline=True)
        envs.append(env)
        params.append(make_params(env, bank))
    return tuple(envs), tuple(params)


def play(
    env: Environment,
    params: EnvParams,
    reader: LearnedReader,
    explorer: LearnedExplorer,
    key: jax.Array,
    lanes: int,
    steps: int,
    config: CanvasConfig,
) -> tuple[Moves, jax.Array]:
    """Episodes side by side, one after the other in every lane: (``Moves`` (steps, lanes), answered bool (steps,
    lanes)).

    A score is the reader's log-probability of the right answer, each digit's at least ``FLOOR``.
    """
    needed_key, reset_key, walk_key = jax.random.split(key, 3)
    least, largest = (float(np.log(1 - bound)) for bound in config.needed)
    needed = 1 - jnp.exp(jax.random.uniform(needed_key, (lanes,), jnp.float32, largest, least))
    reset_keys = split_batch(jax.random.split(reset_key, lanes))
    observation, state = split_batch(jax.vmap(env.reset, in_axes=(0, None))(reset_keys, params))

    def look(observation: Any, state: Any) -> Any:
        posterior = jax.vmap(reader.posterior)(observation.view)
        label = jax.vmap(params.bank.label)(state.scene)
        chance = jnp.take_along_axis(posterior.classes, label[..., None], axis=-1)[..., 0]
        score = jnp.sum(jnp.maximum(jnp.log(jnp.maximum(chance, 1e-12)), FLOOR), axis=-1)
        sight = Sight(observation, reader, posterior, needed)
        axes = Sight(0, None, 0, 0)  # type: ignore[arg-type]
        seen = jax.vmap(lambda sight: features(explorer.geometry, sight), in_axes=(axes,))(sight)
        answering = (posterior.confidence >= needed) | (observation.steps_left <= 1)
        return seen, score, answering, jax.vmap(lambda beliefs: beliefs.digits)(posterior)

    def turn(carry: Any, key: jax.Array) -> tuple[Any, Any]:
        observation, state, (seen, score, answering, digits) = carry
        useful = jax.vmap(lambda xy: explorer.geometry.useful_moves(xy))(observation.xy)
        logits, value = explorer.judge(seen, useful)
        action = jax.random.categorical(key, logits).astype(jnp.int32)
        log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], axis=-1)[:, 0]
        kind = jnp.where(answering, Kind.ANSWER, action).astype(jnp.int32)
        keys = jax.random.split(jax.random.fold_in(key, 1), lanes)
        observation, state, *_ = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
            keys, state, Action(kind, digits), params
        )
        following = look(observation, state)
        reward = following[1] - score - config.price
        return (observation, state, following), (seen, useful, action, log_prob, value, reward, answering)

    first = (observation, state, look(observation, state))
    last, (seen, useful, action, log_prob, value, reward, answering) = jax.lax.scan(
        turn, first, jax.random.split(walk_key, steps)
    )
    useful_at_end = jax.vmap(lambda xy: explorer.geometry.useful_moves(xy))(last[0].xy)
    last_value = explorer.judge(last[2][0], useful_at_end)[1]
    last_value = jnp.where(last[2][2], 0, last_value)
    advantage = advantages(reward, value, last_value, ~answering, config.discount, config.trace)
    moves = Moves(seen, useful, action, log_prob, value, advantage, advantage + value, ~answering)
    return moves, answering


def advantages(
    reward: jax.Array,
    value: jax.Array,
    last_value: jax.Array,
    moved: jax.Array,
    discount: float,
    trace: float,
) -> jax.Array:
    """Generalised advantage estimates: float32 (T, N) from (T, N), (T, N) and (N,).

    moved: bool (T, N), false on the step of an answer, after which another episode begins: there is nothing to gain
    any more, neither on that step nor across it.
    """

    def back(carry: tuple[jax.Array, jax.Array], row: tuple[jax.Array, ...]) -> Any:
        later, next_value = carry
        reward, value, moved = row
        now = jnp.where(moved, reward + discount * next_value - value + discount * trace * later, 0)
        return (now, jnp.where(moved, value, 0)), now

    zero = jnp.zeros_like(last_value)
    return jax.lax.scan(back, (zero, last_value), (reward, value, moved), reverse=True)[1]
