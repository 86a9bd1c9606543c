"""rejax's PPO on level 1, through the five-tuple adapter: ``python -m experiments.trainers.rejax_ppo``.

The trainer is rejax 0.1.3 as it is on PyPI (`pip install rejax`), the whole training one jitted program. It sees the
fused canvas as one vector and knows nothing of digits: the published reward teaches it to read, to look and to stop.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from experiments.trainers.curve import Curve, options
from experiments.trainers.measure import played
from mnistpro_jax import data
from mnistpro_jax.adapters import gymnax as adapter
from mnistpro_jax.env.environment import EnvParams
from mnistpro_jax.registration import make

SETTINGS: dict[str, Any] = {
    "num_envs": 256,
    "num_steps": 32,
    "num_minibatches": 8,
    "num_epochs": 2,
    "learning_rate": 1e-3,
    "gamma": 0.97,
    "ent_coef": 0.02,
    "max_grad_norm": 0.5,
    "agent_kwargs": {"activation": "relu", "hidden_layer_sizes": (256, 128)},
}


def train(
    steps: int,
    evaluations: int,
    seed: int,
    curve: Curve,
    *,
    episodes: int = 1000,
    split: str = "train",
    images: int | None = None,
    **changes: Any,
) -> None:
    """Train for so many steps; the curve gets a point, of so many test episodes, after each of ``evaluations`` parts.

    split: what to train on. images: the first so many of it alone, None for all. changes: other settings for rejax
    than ``SETTINGS``.
    """
    from rejax import PPO

    dataset = data.load("mnist", split)
    few = dataclasses.replace(dataset, images=dataset.images[:images], labels=dataset.labels[:images])
    env, params = adapter.make(
        "MnistPro-L1-v0", dataset=few, observation="canvas", keep_final_observation=False
    )
    _, test = make("MnistPro-L1-v0", split="test", observation="canvas")
    settings = {**SETTINGS, **changes}
    at_once = settings["num_envs"] * settings["num_steps"]
    part = max(1, steps // evaluations // at_once) * at_once
    ppo = PPO.create(
        env=env,
        env_params=params,
        total_timesteps=part,
        eval_freq=part,
        skip_initial_evaluation=True,
        **settings,
    ).replace(eval_callback=lambda *_: ())

    # The algorithm holds the images: as an argument, for what is closed over would be compiled into the program.
    @jax.jit
    def train_part(ppo: Any, state: Any) -> Any:
        return ppo.train(train_state=state)[0]

    @jax.jit
    def score(ppo: Any, state: Any, test: EnvParams, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def act(shown: jax.Array, key: jax.Array) -> jax.Array:
            action: jax.Array = ppo.actor.apply(state.actor_ts.params, shown, key, method="act")
            return action

        return played(act, env.env, test, key, episodes)

    init_key, test_key = jax.random.split(jax.random.key(seed))
    # Not jitted: its optimiser keeps the learning rate that it was made with, which must not be a tracer.
    state = ppo.init_state(init_key)
    for number in range(1, evaluations + 1):
        state = train_part(ppo, state)
        curve.add(number * part, *map(float, score(ppo, state, test, jax.random.fold_in(test_key, number))))
    curve.finish()


def main() -> None:
    """The command."""
    parser = options(__doc__.splitlines()[0], 1_000_000, "7 minutes")
    parser.add_argument("--images", type=int, default=None, help="train on the first N images alone")
    given = parser.parse_args()
    curve = Curve("rejax PPO", given.out)
    train(given.steps, given.evaluations, given.seed, curve, images=given.images)


if __name__ == "__main__":
    main()
