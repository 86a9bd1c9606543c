"""Brax's PPO on level 1, through the Brax adapter: ``python -m experiments.trainers.brax_ppo``.

The trainer is Brax 0.14 as it is on PyPI (`pip install brax`). It is made for continuous actions: the policy gives a
score for each flat action, and the largest chooses.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from experiments.trainers.curve import Curve, options
from experiments.trainers.measure import played
from mnistpro_jax import data
from mnistpro_jax.adapters import brax as adapter
from mnistpro_jax.env import EnvParams
from mnistpro_jax.registration import make

SETTINGS: dict[str, Any] = {
    "num_envs": 256,
    "unroll_length": 16,
    "batch_size": 64,
    "num_minibatches": 4,
    "num_updates_per_batch": 2,
    "learning_rate": 1e-3,
    "entropy_cost": 1e-2,
    "discounting": 0.97,
    "reward_scaling": 0.1,
}


def train(
    steps: int,
    evaluations: int,
    seed: int,
    curve: Curve,
    *,
    episodes: int = 1000,
    images: int = 20_000,
    **changes: Any,
) -> None:
    """Train for so many steps; the curve gets a point, of so many test episodes, after each of ``evaluations`` parts.

    images: how many of the training split. changes: other settings for Brax than ``SETTINGS``.
    """
    from brax.training.agents.ppo import networks
    from brax.training.agents.ppo import train as ppo

    train_images = data.load("mnist", "train")
    # Brax's environments hold their data, so that it is compiled into the program: fewer images compile faster.
    some = dataclasses.replace(
        train_images, images=train_images.images[:images], labels=train_images.labels[:images]
    )
    env = adapter.make("MnistPro-L1-v0", dataset=some, observation="canvas")
    _, test = make("MnistPro-L1-v0", split="test", observation="canvas")
    act_keys = jax.random.split(jax.random.key(seed), 2)

    @functools.partial(jax.jit, static_argnames="make_policy")
    def score(make_policy: Any, weights: Any, test: EnvParams, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        policy = make_policy(weights, deterministic=True)

        def act(shown: jax.Array, key: jax.Array) -> jax.Array:
            return jnp.argmax(policy(shown, key)[0], axis=-1).astype(jnp.int32)

        return played(act, env.env, test, key, episodes)

    def progress(done: int, make_policy: Any, weights: Any) -> None:
        if done:
            key = jax.random.fold_in(act_keys[1], done)
            curve.add(done, *map(float, score(make_policy, weights, test, key)))

    ppo.train(
        environment=env,
        num_timesteps=steps,
        episode_length=36,
        wrap_env_fn=adapter.wrap,
        seed=seed,
        num_evals=evaluations + 1,
        run_evals=False,
        policy_params_fn=progress,
        network_factory=functools.partial(
            networks.make_ppo_networks,
            policy_hidden_layer_sizes=(256, 128),
            value_hidden_layer_sizes=(256, 128),
        ),
        **{**SETTINGS, **changes},
    )
    curve.finish()


def main() -> None:
    """The command."""
    try:
        _ = jax.device_put_replicated  # type: ignore[attr-defined]
    except AttributeError:
        raise SystemExit(
            f"error: Brax's PPO needs jax.device_put_replicated, which jax {jax.__version__} no longer has; use a Brax "
            "that was released after it"
        ) from None
    arguments = options(__doc__.splitlines()[0], 4_000_000, "20 minutes").parse_args()
    train(arguments.steps, arguments.evaluations, arguments.seed, Curve("Brax PPO", arguments.out))


if __name__ == "__main__":
    main()
