"""The vector adapter in the shape of stable-baselines3, whose ``VecEnv`` is older than Gymnasium's ``VectorEnv``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from mnistpro_jax.adapters.gymnasium_vector import AutoresetMode, MnistProVectorEnv


class Sb3VecEnv(VecEnv):
    """``num_envs`` environments side by side, observations flattened to one float32 vector each.

    ``infos`` holds, where an episode ended, "terminal_observation", "TimeLimit.truncated", and what stable-baselines3
    logs of an episode; beside them "correct" and "steps".
    """

    def __init__(self, env_id: str, num_envs: int, **overrides: Any) -> None:
        self.envs = MnistProVectorEnv(
            env_id, num_envs, autoreset_mode=AutoresetMode.SAME_STEP, flatten=True, **overrides
        )
        super().__init__(num_envs, self.envs.single_observation_space, self.envs.single_action_space)
        self._actions: Any = None
        self._first: int | None = None

    def reset(self) -> Any:
        """Begin new episodes in all environments."""
        observation, _ = self.envs.reset(seed=self._first)
        self._first = None
        return observation

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """For the next reset."""
        self._first = seed
        return [None if seed is None else seed + lane for lane in range(self.num_envs)]

    def step_async(self, actions: Any) -> None:
        """Keep the actions for ``step_wait``."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """One step of all environments."""
        observation, reward, terminated, truncated, infos = self.envs.step(self._actions)
        done = terminated | truncated
        per_lane: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for lane in np.flatnonzero(done):
            ended = {name: values[lane] for name, values in infos["final_info"].items() if name[0] != "_"}
            per_lane[lane] = {
                "terminal_observation": infos["final_obs"][lane],
                "TimeLimit.truncated": bool(truncated[lane] and not terminated[lane]),
                "episode": {"r": float(ended["episode_return"]), "l": int(ended["steps"])},
                "correct": bool(ended["correct"]),
                "steps": int(ended["steps"]),
            }
        return observation, reward, done, per_lane

    def close(self) -> None:
        """Nothing is held open."""
        self.envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """The same for every environment."""
        return [getattr(self.envs, attr_name)] * len(self._indices(indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: one object serves all environments."""
        raise AttributeError(f"{attr_name!r} cannot be set on single environments of one batch")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        """Refused, as ``set_attr``."""
        raise AttributeError(f"{method_name!r} cannot be called on single environments of one batch")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Nothing is wrapped."""
        return [False] * len(self._indices(indices))

    def _indices(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)
