"""Train the canvas agent: PPO on where to look, with a reader that is already trained.

An episode is a fixed number of moves from a random start; nobody answers, because the answer's rule (the reader's
confidence) is chosen afterwards. A move's reward is by how much it raised the reader's log-probability of the right
answer. Worlds of one and of two digits share every update, so that one network serves both.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from baselines.optimisers import adamw_cosine
from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.explorers import Sight
from mnistpro_jax.agents.learned.explorer import LearnedExplorer, features, num_features, useful_moves
from mnistpro_jax.agents.learned.networks import ActorCritic
from mnistpro_jax.agents.learned.reader import LearnedReader
from mnistpro_jax.data import Dataset
from mnistpro_jax.env import Environment, EnvParams
from mnistpro_jax.registration import environment, make_params
from mnistpro_jax.types import Action, pytree
from mnistpro_jax.worlds.digits import digit_bank

FLOOR = -4.0  # nats: below it, worse is no worse


@dataclasses.dataclass(frozen=True)
class CanvasConfig:
    """See ``baselines.configs``. worlds: (digits, episodes, moves) of an update. discount: gamma; trace: lambda of
    the advantages. clip, entropy, epochs, minibatches: of PPO. held_out: images at the training set's end that are
    kept for ``evaluate``."""

    worlds: tuple[tuple[int, int, int], ...] = ((1, 512, 12), (2, 256, 26))
    hidden: tuple[int, ...] = (128, 64)
    updates: int = 120
    learning_rate: float = 1e-3
    discount: float = 0.92
    trace: float = 0.9
    clip: float = 0.2
    entropy: float = 0.01
    epochs: int = 3
    minibatches: int = 8
    held_out: int = 5_000

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
    """What PPO learns from, leading axes (moves, episodes) or flat: features float32 (..., F), useful bool (..., 4),
    action int32, log_prob, value, advantage, target float32."""

    features: jax.Array
    useful: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    advantage: jax.Array
    target: jax.Array


class CanvasTrainer:
    """See ``baselines.loop.Trainer``. data: (params of each world, the reader)."""

    def __init__(self, config: CanvasConfig, dataset: Dataset, reader: LearnedReader) -> None:
        self.config = config
        kept = len(dataset.labels) - config.held_out
        train = dataclasses.replace(dataset, images=dataset.images[:kept], labels=dataset.labels[:kept])
        held_out = dataclasses.replace(dataset, images=dataset.images[kept:], labels=dataset.labels[kept:])
        self.envs, params = _worlds(config, train)
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
        for env, params, (digits, episodes, moves), world_key in zip(
            self.envs, worlds, config.worlds, keys, strict=True
        ):
            explorer = self._explorer(state.params, env)
            part, score, _ = play(env, params, reader, explorer, world_key, episodes, moves, config)
            parts.append(jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), part))
            metrics[f"log_p_{digits}"] = jnp.mean(score[-1])
        flat = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)
        size = flat.action.shape[0] // config.minibatches

        def minibatch(carry: CanvasState, rows: jax.Array) -> tuple[CanvasState, jax.Array]:
            some = jax.tree.map(lambda leaf: leaf[rows], flat)
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
        variance = jnp.var(flat.target)
        explained = 1 - jnp.var(flat.target - flat.value) / jnp.maximum(variance, 1e-6)
        return state, {**metrics, "entropy": jnp.mean(entropies), "value_explains": explained}

    def _loss(self, params: Any, moves: Moves) -> tuple[jax.Array, jax.Array]:
        config = self.config
        logits, value = LearnedExplorer(params, network=config.network).judge(moves.features, moves.useful)
        log_probs = jax.nn.log_softmax(logits)
        taken = jnp.take_along_axis(log_probs, moves.action[:, None], axis=-1)[:, 0]
        ratio = jnp.exp(taken - moves.log_prob)
        advantage = (moves.advantage - moves.advantage.mean()) / (moves.advantage.std() + 1e-6)
        clipped = jnp.clip(ratio, 1 - config.clip, 1 + config.clip)
        gain = jnp.minimum(ratio * advantage, clipped * advantage).mean()
        entropy = -jnp.sum(jnp.exp(log_probs) * jnp.where(moves.useful, log_probs, 0), axis=-1).mean()
        error = jnp.mean((value - moves.target) ** 2)
        return -gain + 0.5 * error - config.entropy * entropy, entropy

    def evaluate(self, state: CanvasState, key: jax.Array) -> dict[str, float]:
        """Accuracy after a third of the moves and after all, on held-out images."""
        figures = {}
        for env, params, (digits, episodes, moves) in zip(
            self.envs, self.held_out, self.config.worlds, strict=True
        ):
            explorer = dataclasses.replace(self._explorer(state.params, env), greedy=True)
            right = np.asarray(
                _right(env, params, self.data[1], explorer, key, 2 * episodes, moves, self.config)
            )
            figures[f"accuracy_{digits}_third"] = float(right[moves // 3].mean())
            figures[f"accuracy_{digits}_end"] = float(right[-1].mean())
        return figures


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
    episodes: int,
    moves: int,
    config: CanvasConfig,
) -> tuple[Moves, jax.Array, jax.Array]:
    """Episodes of a fixed number of moves: (``Moves``, (moves, episodes); scores, float32 (moves + 1, episodes);
    whether the reader is right, bool (moves + 1, episodes)).

    A score is the reader's log-probability of the right answer, each digit's at least ``FLOOR``.
    """
    reset_key, walk_key = jax.random.split(key)
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(reset_key, episodes), params)
    label = jax.vmap(params.bank.label)(state.scene)
    digits = jnp.zeros((episodes, env.num_digits), jnp.int32)

    def look(observation: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        posterior = jax.vmap(reader.posterior)(observation.view)
        chance = jnp.take_along_axis(posterior.classes, label[..., None], axis=-1)[..., 0]
        score = jnp.sum(jnp.maximum(jnp.log(jnp.maximum(chance, 1e-12)), FLOOR), axis=-1)
        sight = Sight(observation, reader, posterior)
        axes = Sight(0, None, 0)  # type: ignore[arg-type]
        seen = jax.vmap(lambda sight: features(explorer.geometry, sight), in_axes=(axes,))(sight)
        return seen, score, jnp.all(jnp.argmax(posterior.classes, axis=-1) == label, axis=-1)

    def turn(carry: Any, key: jax.Array) -> tuple[Any, Any]:
        observation, state, seen = carry
        useful = jax.vmap(lambda xy: useful_moves(explorer.geometry, xy))(observation.xy)
        logits, value = explorer.judge(seen, useful)
        action = (
            jnp.argmax(logits, -1).astype(jnp.int32)
            if explorer.greedy
            else jax.random.categorical(key, logits).astype(jnp.int32)
        )
        log_prob = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], axis=-1)[:, 0]
        keys = jax.random.split(key, episodes)  # a step draws nothing from them
        observation, state, *_ = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))(
            keys, state, Action(action, digits), params
        )
        next_seen, score, right = look(observation)
        return (observation, state, next_seen), (seen, useful, action, log_prob, value, score, right)

    first, first_score, first_right = look(observation)
    carry, (seen, useful, action, log_prob, value, scores, rights) = jax.lax.scan(
        turn, (observation, state, first), jax.random.split(walk_key, moves)
    )
    scores = jnp.concatenate([first_score[None], scores])
    rights = jnp.concatenate([first_right[None], rights])
    useful_at_end = jax.vmap(lambda xy: useful_moves(explorer.geometry, xy))(carry[0].xy)
    last_value = explorer.judge(carry[2], useful_at_end)[1]
    advantage = advantages(scores[1:] - scores[:-1], value, last_value, config.discount, config.trace)
    return Moves(seen, useful, action, log_prob, value, advantage, advantage + value), scores, rights


def advantages(
    reward: jax.Array, value: jax.Array, last_value: jax.Array, discount: float, trace: float
) -> jax.Array:
    """Generalised advantage estimates of episodes that go on: float32 (T, N) from (T, N), (T, N) and (N,)."""

    def back(carry: tuple[jax.Array, jax.Array], row: tuple[jax.Array, jax.Array]) -> Any:
        later, next_value = carry
        reward, value = row
        now = reward + discount * next_value - value + discount * trace * later
        return (now, value), now

    zero = jnp.zeros_like(last_value)
    return jax.lax.scan(back, (zero, last_value), (reward, value), reverse=True)[1]


@functools.partial(jax.jit, static_argnames=("env", "episodes", "moves", "config"))
def _right(
    env: Environment,
    params: EnvParams,
    reader: LearnedReader,
    explorer: LearnedExplorer,
    key: jax.Array,
    episodes: int,
    moves: int,
    config: CanvasConfig,
) -> jax.Array:
    """Whether the reader is right after 0, 1, ... moves, bool (moves + 1, episodes)."""
    return play(env, params, reader, explorer, key, episodes, moves, config)[2]
