"""Train the recurrent glimpse agent: it reads after every glimpse, and REINFORCE teaches it where to look.

As in Mnih et al. 2014 the core and the action network learn by cross entropy, here after every glimpse and not after
the last alone; the location network by REINFORCE with a learned baseline, where a move's reward is by how much it
raised the log-probability of the right answer. The policy's heads see the core through a stopped gradient. Worlds of
one and of two digits share every update, so that one network serves both.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from baselines.bounds import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    SMOOTHING,
    check_fields,
    check_worlds,
)
from baselines.canvas import FLOOR
from baselines.held_out import HELD_OUT, on_device, split
from baselines.optimisers import Averaged, adamw_cosine
from baselines.prefixes import Augmentation
from baselines.scenes import augmented_bank
from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.learned.glimpse import empty, look
from mnistpro_jax.agents.learned.networks import RecurrentAttention
from mnistpro_jax.data import Dataset
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, pytree
from mnistpro_jax.registration import environment, make_params
from mnistpro_jax.rollouts.sharding import split_batch


@dataclasses.dataclass(frozen=True)
class GlimpseConfig:
    """See ``baselines.configs``. worlds: (digits, episodes, glimpses) of an update. discount: of rewards. entropy:
    its weight. policy_weight: of the policy's loss beside the cross entropy. remembers: otherwise all is
    forgotten before every glimpse. Raises ValueError for a value out of range."""

    worlds: tuple[tuple[int, int, int], ...] = ((1, 128, 10), (2, 96, 26))
    core_size: int = 256
    remembers: bool = True
    updates: int = 4_000
    learning_rate: float = 1.5e-3
    weight_decay: float = 1e-3
    discount: float = 0.93
    entropy: float = 0.01
    policy_weight: float = 0.5
    smoothing: float = 0.998
    held_out: int = HELD_OUT
    augmentation: Augmentation | None = dataclasses.field(default_factory=Augmentation)

    def __post_init__(self) -> None:
        check_worlds(self.worlds, "glimpses", 2)  # one glimpse would leave no move to learn from
        check_fields(
            self,
            core_size=COUNT,
            updates=COUNT,
            learning_rate=POSITIVE,
            weight_decay=NOT_NEGATIVE,
            discount=SHARE,
            entropy=NOT_NEGATIVE,
            policy_weight=NOT_NEGATIVE,
            smoothing=SMOOTHING,
            held_out=COUNT,
        )

    @property
    def network(self) -> RecurrentAttention:
        """The network that is trained."""
        return RecurrentAttention(core_size=self.core_size)


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
        self.data, self.held_out = (on_device(part) for part in split(dataset, config.held_out))

    def init(self, key: jax.Array) -> Averaged:
        """The state before the first update."""
        network = self.config.network
        params = network.init(
            key, *(jnp.zeros((1, size), jnp.float32) for size in (network.core_size, 256, 3, 2))
        )
        return Averaged.start(params, self._optimiser())

    def _optimiser(self) -> optax.GradientTransformation:
        config = self.config
        return adamw_cosine(config.learning_rate, config.updates, weight_decay=config.weight_decay)

    def step(self, state: Averaged, key: jax.Array, data: Any) -> tuple[Averaged, dict[str, jax.Array]]:
        """One update."""
        config = self.config
        gradient, metrics = jax.grad(lambda weights: _loss(config, weights, data, key), has_aux=True)(
            state.params
        )
        return state.descend(gradient, self._optimiser(), config.smoothing), metrics

    def evaluate(self, state: Averaged, key: jax.Array) -> dict[str, float]:
        """Accuracy after a third of the glimpses and after all, moving greedily on held-out images."""
        figures = {}
        for digits, _, glimpses in self.config.worlds:
            right = np.asarray(_evaluate(self.config, state.averaged, key, self.held_out, digits, glimpses))
            figures[f"accuracy_{digits}_third"] = float(right[glimpses // 3].mean())
            figures[f"accuracy_{digits}_end"] = float(right[-1].mean())
        return figures


def _world(
    key: jax.Array, data: Any, digits: int, episodes: int, how: Augmentation | None
) -> tuple[Environment, EnvParams]:
    bank = augmented_bank(key, *data, count=episodes * digits, level=digits, how=how)
    env = environment(bank, observation="glimpse", outline=True)
    return env, make_params(env, bank)


def _loss(
    config: GlimpseConfig, weights: Any, data: Any, key: jax.Array
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """The hybrid loss over all worlds, and what to plot."""
    reading, log_probs, entropies, baselines, returns = [], [], [], [], []
    metrics = {}
    for (digits, episodes, glimpses), world_key in zip(
        config.worlds, jax.random.split(key, len(config.worlds)), strict=True
    ):
        bank_key, walk_key = jax.random.split(world_key)
        env, params = _world(bank_key, data, digits, episodes, config.augmentation)
        walk = play(config, weights, env, params, walk_key, episodes, glimpses, greedy=False)
        # The mean over glimpses as well: worlds of many glimpses weigh as much as those of few.
        reading.append(-jnp.sum(jnp.mean(walk.log_prob, axis=(1, 2))) / glimpses)
        score = jax.lax.stop_gradient(jnp.sum(jnp.maximum(walk.log_prob, FLOOR), axis=-1))
        returns.append(discounted(score[1:] - score[:-1], config.discount).reshape(-1))
        baselines.append(walk.baseline[:-1].reshape(-1))
        log_probs.append(walk.move_log_prob[:-1].reshape(-1))
        entropies.append(walk.entropy[:-1].reshape(-1))
        metrics[f"cross_entropy_{digits}"] = reading[-1]
        metrics[f"accuracy_{digits}_end"] = jnp.mean(walk.right[-1], dtype=jnp.float32)
    gained, baseline, log_prob, entropy = (
        jnp.concatenate(parts) for parts in (returns, baselines, log_probs, entropies)
    )
    advantage = jax.lax.stop_gradient(gained - baseline)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    policy = -jnp.mean(log_prob * advantage) - config.entropy * jnp.mean(entropy)
    error = jnp.mean((baseline - gained) ** 2)
    total = sum(reading) / len(reading) + config.policy_weight * (policy + 0.5 * error)
    return jnp.asarray(total), {
        **metrics,
        "entropy": jnp.mean(entropy),
        "baseline_explains": 1 - error / jnp.maximum(jnp.var(gained), 1e-6),
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
    glimpses: int,
    *,
    greedy: bool,
) -> Walk:
    """Episodes of so many glimpses: what was read after each, and the moves."""
    geometry = Geometry.of(env)
    reset_key, walk_key = jax.random.split(key)
    reset_keys = split_batch(jax.random.split(reset_key, episodes))
    observation, state = split_batch(jax.vmap(env.reset, in_axes=(0, None))(reset_keys, params))
    label = jax.vmap(params.bank.label)(state.scene)
    digits = jnp.zeros((episodes, env.num_digits), jnp.int32)
    blank = empty(geometry, config.network)
    memory = split_batch(jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (episodes, *leaf.shape)), blank))
    attend = jax.vmap(functools.partial(look, config.network, weights, geometry))

    def turn(carry: Any, key: jax.Array) -> tuple[Any, Walk]:
        observation, state, memory = carry
        if not config.remembers:
            memory = jax.tree.map(jnp.zeros_like, memory)
        memory, logits, baseline = attend(memory, observation)
        log_probs = jax.nn.log_softmax(logits)
        move = jnp.argmax(logits, -1) if greedy else jax.random.categorical(key, logits)
        chances = jax.nn.log_softmax(memory.answers)
        walk = Walk(
            log_prob=jnp.take_along_axis(chances, label[..., None], axis=-1)[..., 0],
            right=jnp.all(jnp.argmax(memory.answers, -1) == label, axis=-1),
            move_log_prob=jnp.take_along_axis(log_probs, move[:, None], axis=-1)[:, 0],
            entropy=-jnp.sum(jnp.where(logits > -1e8, jnp.exp(log_probs) * log_probs, 0), axis=-1),
            baseline=baseline,
        )
        keys = jax.random.split(key, episodes)  # a step draws nothing from them
        observation, state, *_ = jax.vmap(env.step_env, in_axes=(0, 0, 0, None))(
            keys, state, Action(move.astype(jnp.int32), digits), params
        )
        return (observation, state, memory), walk

    keys = jax.random.split(walk_key, glimpses)
    return jax.lax.scan(turn, (observation, state, memory), keys)[1]


@functools.partial(jax.jit, static_argnames=("config", "digits", "glimpses"))
def _evaluate(
    config: GlimpseConfig, weights: Any, key: jax.Array, data: Any, digits: int, glimpses: int
) -> jax.Array:
    bank_key, walk_key = jax.random.split(key)
    env, params = _world(bank_key, data, digits, 2_000, None)
    return play(config, weights, env, params, walk_key, 2_000, glimpses, greedy=True).right
