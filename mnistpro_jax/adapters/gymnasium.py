"""Gymnasium: importing this module registers ``mnistpro_jax/MnistPro-L1-v0`` and ``-L2-v0``.

    import gymnasium
    import mnistpro_jax.adapters.gymnasium

    env = gymnasium.make("mnistpro_jax/MnistPro-L1-v0", split="test")
    envs = gymnasium.make_vec("mnistpro_jax/MnistPro-L1-v0", num_envs=1024, split="test")

Without the import, ``gymnasium.make("mnistpro_jax.adapters.gymnasium:mnistpro_jax/MnistPro-L1-v0")`` does the same:
Gymnasium 1.x finds no environments of installed packages by itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.adapters import gymnasium_spaces
from mnistpro_jax.adapters.gymnasium_vector import (
    MnistProVectorEnv,
    checked_options,
    checked_render_mode,
    choose_world,
)
from mnistpro_jax.adapters.host import HostBatch
from mnistpro_jax.adapters.optional import missing
from mnistpro_jax.adapters.world import World
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.registration import registered

try:
    import gymnasium
except ImportError as error:
    raise missing("gymnasium", "gymnasium") from error

__all__ = ["MnistProEnv", "MnistProVectorEnv"]

NAMESPACE = "mnistpro_jax"


class MnistProEnv(gymnasium.Env[Any, Any]):
    """One MNIST-PRO environment. Arguments as for ``MnistProVectorEnv``; a batch of one without auto-reset.

    ``info`` is empty, and on the step that ends an episode it holds the ``EpisodeStatistics`` by name. With
    ``constant_infos`` it holds those of the episode so far at every reset and step, for what records infos and expects
    the same keys always (Minari's ``DataCollector``); that counts them anew each time.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        env_id: str = "MnistPro-L1-v0",
        *,
        world: tuple[Environment, EnvParams] | None = None,
        flatten: bool = False,
        constant_infos: bool = False,
        render_mode: str | None = None,
        **overrides: Any,
    ) -> None:
        self._constant_infos = constant_infos
        self.render_mode = checked_render_mode(render_mode)
        self._world = choose_world(env_id, world, overrides)
        env, params = self._world.env, self._world.params
        self._batch = HostBatch(env, params, 1, autoreset="disabled", flatten=flatten)
        self.observation_space = gymnasium_spaces.observation_space(env, params, flatten=flatten)
        self.action_space = gymnasium_spaces.action_space(env)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode: with a seed, the first of that seed; without, the next one. There are no options."""
        super().reset(seed=seed)
        checked_options(options, ())
        if seed is None and not self._batch.started:
            # Gymnasium's generator is the environment's source of randomness, also where nobody seeds it.
            seed = int(self.np_random.integers(2**63))
        observation = _first(self._batch.reset([seed]))
        return observation, self.statistics() if self._constant_infos else {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """action: a whole number as ``action_space`` says; anything else raises and changes nothing."""
        turn = self._batch.step_one(action)
        terminated, truncated = bool(turn.terminated[0]), bool(turn.truncated[0])
        info = {}
        if self._constant_infos:
            info = self.statistics()
        elif terminated or truncated:
            info = {name: _plain(values[0]) for name, values in turn.statistics().items()}
        return _first(turn.observation), float(turn.reward[0]), terminated, truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """The published picture, uint8 (height, width, 3); None without a render mode."""
        return None if self.render_mode is None else self._batch.pictures()[0]

    @property
    def world(self) -> World:
        """The environment and its params."""
        return self._world

    def statistics(self) -> dict[str, Any]:
        """``EpisodeStatistics`` of the episode so far, by name."""
        return {name: _plain(values[0]) for name, values in self._batch.statistics().items()}


def _first(observation: Any) -> Any:
    """The only row. A copy was made already, so that a view of it belongs to the caller."""
    if isinstance(observation, dict):
        return {name: _first(part) for name, part in observation.items()}
    return observation[0]


def _plain(value: Any) -> Any:
    return value.item() if np.ndim(value) == 0 else value


def _register() -> None:
    """Once a process: Gymnasium warns about a second registration."""
    for env_id in registered():
        name = f"{NAMESPACE}/{env_id}"
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point="mnistpro_jax.adapters.gymnasium:MnistProEnv",
                vector_entry_point="mnistpro_jax.adapters.gymnasium:MnistProVectorEnv",
                kwargs={"env_id": env_id},
            )


_register()
