"""Train the recurrent glimpse agent: it reads after every glimpse, and REINFORCE teaches it where to look.

As in Mnih et al. 2014 the core and the action network learn by cross entropy, here after every glimpse and not after
the last alone; the location network by REINFORCE with a learned baseline, where a move's reward is by how much it
raised the log-probability of the right answer. The policy's heads see the core through a stopped gradient.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from baselines.canvas import FLOOR
from baselines.optimisers import adamw_cosine
from baselines.prefixes import Augmentation
from baselines.scenes import augmented_bank
from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.learned.explorer import useful_moves
from mnistpro_jax.agents.learned.glimpse import location, sensor
from mnistpro_jax.agents.learned.networks import RecurrentAttention
from mnistpro_jax.data import Dataset
from mnistpro_jax.env import Environment, EnvParams
from mnistpro_jax.registration import environment, make_params
from mnistpro_jax.types import Action, pytree


@dataclasses.dataclass(frozen=True)
class GlimpseConfig:
    """See ``baselines.configs``. episodes, glimpses: of an update. discount: of later rewards. entropy: its weight.
    policy_weight: of the policy's loss beside the cross entropy."""

    level: int = 1
    episodes: int = 256
    glimpses: int = 12
    core_size: int = 256
    updates: int = 4_000
    learning_rate: float = 1.5e-3
    weight_decay: float = 1e-3
    discount: float = 0.9
    entropy: float = 0.01
    policy_weight: float = 0.5
    smoothing: float = 0.998
    held_out: int = 5_000
    augmentation: Augmentation | None = dataclasses.field(default_factory=Augmentation)

    @property
    def network(self) -> RecurrentAttention:
        """The network that is trained."""
        return RecurrentAttention(num_digits=self.level, core_size=self.core_size)


@pytree
class GlimpseState:
    """params, averaged: parameters of the network, the second a running mean. optimiser: optax's state."""

    params: Any
    averaged: Any
    optimiser: Any


@pytree
class Walk:
    """An episode of fixed length, leading axes (glimpses, episodes): log_prob of the right answer, per digit, float32
    (..., n); right, bool (...); move_log_prob, entropy, baseline, float32 (...)."""

    log_prob: jax.Array
    right: jax.Array
    move_log_prob: jax.Array
    entropy: jax.Array
    baseline: jax.Array


class GlimpseTrainer:
    """See ``baselines.loop.Trainer``."""

    def __init__(self, config: GlimpseConfig, dataset: Dataset) -> None:
        self.config = config
        kept = len(dataset.labels) - config.held_out
        split = [
            (dataset.images[:kept], dataset.labels[:kept]),
            (dataset.images[kept:], dataset.labels[kept:]),
        ]
        self.data, self.held_out = (
            (jax.device_put(images), jax.device_put(labels.astype(np.int32))) for images, labels in split
        )

    def init(self, key: jax.Array) -> GlimpseState:
        """The state before the first update."""
        network = self.config.network
        params = network.init(
            key, jnp.zeros((1, network.core_size)), jnp.zeros((1, 256)), jnp.zeros((1, 4), jnp.float32)
        )
        return GlimpseState(params, params, self._optimiser().init(params))

    def _optimiser(self) -> optax.GradientTransformation:
        config = self.config
        return adamw_cosine(config.learning_rate, config.updates, weight_decay=config.weight_decay)

    def step(
        self, state: GlimpseState, key: jax.Array, data: Any
    ) -> tuple[GlimpseState, dict[str, jax.Array]]:
        """One update."""
        config = self.config
        bank_key, walk_key = jax.random.split(key)
        env, params = _world(config, bank_key, data, config.episodes * config.level, config.augmentation)
        gradient, metrics = jax.grad(
            lambda weights: _loss(config, weights, env, params, walk_key), has_aux=True
        )(state.params)
        changes, moments = self._optimiser().update(gradient, state.optimiser, state.params)
        weights = optax.apply_updates(state.params, changes)
        averaged = optax.incremental_update(weights, state.averaged, 1 - config.smoothing)
        return GlimpseState(weights, averaged, moments), metrics

    def evaluate(self, state: GlimpseState, key: jax.Array) -> dict[str, float]:
        """Accuracy after a third of the glimpses and after all, moving greedily on held-out images."""
        right = np.asarray(_evaluate(self.config, state.averaged, key, self.held_out))
        return {
            "accuracy_third": float(right[self.config.glimpses // 3].mean()),
            "accuracy_end": float(right[-1].mean()),
        }


def _world(
    config: GlimpseConfig, key: jax.Array, data: Any, count: int, how: Augmentation | None
) -> tuple[Environment, EnvParams]:
    bank = augmented_bank(key, *data, count=count, level=config.level, how=how)
    env = environment(bank, observation="glimpse", outline=True)
    return env, make_params(env, bank)


def _loss(
    config: GlimpseConfig, weights: Any, env: Environment, params: EnvParams, key: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    walk = play(config, weights, env, params, key, config.episodes, greedy=False)
    # Summed over time, as the paper does: a mean would weigh every glimpse by the length of the episode.
    reading = -jnp.sum(jnp.mean(walk.log_prob, axis=(1, 2))) / config.glimpses
    score = jax.lax.stop_gradient(jnp.sum(jnp.maximum(walk.log_prob, FLOOR), axis=-1))
    returns = discounted(score[1:] - score[:-1], config.discount)
    baseline = walk.baseline[:-1]
    advantage = jax.lax.stop_gradient(returns - baseline)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    policy = -jnp.mean(walk.move_log_prob[:-1] * advantage) - config.entropy * jnp.mean(walk.entropy[:-1])
    error = jnp.mean((baseline - returns) ** 2)
    total = reading + config.policy_weight * (policy + 0.5 * error)
    return total, {
        "cross_entropy": reading,
        "accuracy_end": jnp.mean(walk.right[-1], dtype=jnp.float32),
        "accuracy_third": jnp.mean(walk.right[config.glimpses // 3], dtype=jnp.float32),
        "entropy": jnp.mean(walk.entropy),
        "baseline_explains": 1 - error / jnp.maximum(jnp.var(returns), 1e-6),
    }


def discounted(reward: jax.Array, discount: float) -> jax.Array:
    """Sums of later rewards: float32 (T, N) -> (T, N)."""

    def back(later: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = now + discount * later
        return total, total

    return jax.lax.scan(back, jnp.zeros_like(reward[0]), reward, reverse=True)[1]


def play(
    config: GlimpseConfig,
    weights: Any,
    env: Environment,
    params: EnvParams,
    key: jax.Array,
    episodes: int,
    *,
    greedy: bool,
) -> Walk:
    """Episodes of ``config.glimpses`` glimpses: what was read after each, and the moves."""
    geometry = Geometry.of(env)
    reset_key, walk_key = jax.random.split(key)
    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(reset_key, episodes), params)
    label = jax.vmap(params.bank.label)(state.scene)
    digits = jnp.zeros((episodes, env.num_digits), jnp.int32)
    memory = jnp.zeros((episodes, config.core_size), jnp.float32)

    def turn(carry: Any, key: jax.Array) -> tuple[Any, Walk]:
        observation, state, memory = carry
        where = jax.vmap(functools.partial(location, geometry))(observation.xy, observation.step)
        memory, answers, moves, baseline = config.network.apply(
            weights, memory, sensor(observation.view), where
        )
        useful = jax.vmap(functools.partial(useful_moves, geometry))(observation.xy)
        logits = jnp.where(useful, moves, jnp.float32(-1e9))
        log_probs = jax.nn.log_softmax(logits)
        move = jnp.argmax(logits, -1) if greedy else jax.random.categorical(key, logits)
        chances = jax.nn.log_softmax(answers)
        walk = Walk(
            log_prob=jnp.take_along_axis(chances, label[..., None], axis=-1)[..., 0],
            right=jnp.all(jnp.argmax(answers, -1) == label, axis=-1),
            move_log_prob=jnp.take_along_axis(log_probs, move[:, None], axis=-1)[:, 0],
            entropy=-jnp.sum(jnp.where(useful, jnp.exp(log_probs) * log_probs, 0), axis=-1),
            baseline=baseline,
        )
        keys = jax.random.split(key, episodes)  # a step draws nothing from them
        observation, state, *_ = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))(
            keys, state, Action(move.astype(jnp.int32), digits), params
        )
        return (observation, state, memory), walk

    keys = jax.random.split(walk_key, config.glimpses)
    return jax.lax.scan(turn, (observation, state, memory), keys)[1]


@functools.partial(jax.jit, static_argnames="config")
def _evaluate(config: GlimpseConfig, weights: Any, key: jax.Array, data: Any) -> jax.Array:
    bank_key, walk_key = jax.random.split(key)
    env, params = _world(config, bank_key, data, 2_000 * config.level, None)
    return play(config, weights, env, params, walk_key, 2_000, greedy=True).right
