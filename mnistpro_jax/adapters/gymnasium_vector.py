"""Gymnasium's ``VectorEnv``: a whole batch in one jitted call a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.adapters import gymnasium_spaces
from mnistpro_jax.adapters.host import AutoReset, HostBatch
from mnistpro_jax.adapters.optional import missing
from mnistpro_jax.adapters.world import World, checked_world, load_world
from mnistpro_jax.env.environment import Environment, EnvParams

try:
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise missing("gymnasium 1.1 or newer", "gymnasium") from error

_MODES: dict[AutoresetMode, AutoReset] = {
    AutoresetMode.SAME_STEP: "same_step",
    AutoresetMode.NEXT_STEP: "next_step",
    AutoresetMode.DISABLED: "disabled",
}


class MnistProVectorEnv(VectorEnv[Any, Any, NDArray[Any]]):
    """``num_envs`` MNIST-PRO environments side by side.

    env_id, overrides: as for ``mnistpro_jax.make``; or ``world``, an (env, params) made before. autoreset_mode: a
    ``gymnasium.vector.AutoresetMode`` or its value, next-step by default as everywhere in Gymnasium. flatten: show
    one float32 vector (``features``) instead of a ``Dict``. copy: give arrays that may be written to; without,
    they are read-only views of the simulator's memory, which saves the copy. render_mode: None or "rgb_array".

    ``infos`` is empty unless an episode ended, and then holds the episodes' ``EpisodeStatistics`` by name, each with
    its mask ``_name``: in ``infos["final_info"]`` where the mode is same-step, beside ``infos["final_obs"]``, and in
    ``infos`` itself otherwise.

    Environment number i of seed s goes through the episodes of a single environment of seed s + i.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(
        self,
        env_id: str = "MnistPro-L1-v0",
        num_envs: int = 1,
        *,
        world: tuple[Environment, EnvParams] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        flatten: bool = False,
        copy: bool = True,
        render_mode: str | None = None,
        **overrides: Any,
    ) -> None:
        mode = _mode(autoreset_mode)
        self.render_mode = checked_render_mode(render_mode)
        self._world = choose_world(env_id, world, overrides)
        env, params = self._world.env, self._world.params
        self._batch = HostBatch(env, params, num_envs, autoreset=_MODES[mode], flatten=flatten, copy=copy)
        self.metadata = {**self.metadata, "autoreset_mode": mode}
        self.num_envs = self._batch.num_envs
        self.autoreset_mode = mode
        self.single_observation_space = gymnasium_spaces.observation_space(env, params, flatten=flatten)
        self.single_action_space = gymnasium_spaces.action_space(env)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes. seed: a whole number s (s, s + 1, ...), or one a environment; None goes on with the
        episodes of the seeds before. options: {"reset_mask": bool (num_envs,)} to reset some alone."""
        seeds: Sequence[int | None] | None = None
        if isinstance(seed, int | np.integer):
            super().reset(seed=int(seed))
            seeds = [int(seed) + lane for lane in range(self.num_envs)]
        elif seed is not None:
            if isinstance(seed, str) or not isinstance(seed, Iterable):
                raise ValueError(
                    f"seed is {seed!r}; expected a whole number, 0 or more, or one for each of the "
                    f"{self.num_envs} environments"
                )
            seeds = list(seed)
        mask = checked_options(options, ("reset_mask",)).get("reset_mask")
        return self._batch.reset(seeds, mask), {}

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """actions: integers (num_envs,), as ``single_action_space`` says; anything else raises and changes nothing."""
        turn = self._batch.step(actions)
        infos: dict[str, Any] = {}
        done = turn.terminated | turn.truncated
        if done.any():
            ended: dict[str, Any] = {}
            for name, values in turn.statistics().items():
                ended[name], ended[f"_{name}"] = values, done
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                infos = {
                    "final_obs": _rows(turn.final_observation(), done),
                    "_final_obs": done,
                    "final_info": ended,
                    "_final_info": done,
                }
            else:
                infos = ended
        return turn.observation, turn.reward, turn.terminated, turn.truncated, infos

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """The published picture of each environment, uint8 (height, width, 3); None without a render mode."""
        return None if self.render_mode is None else tuple(self._batch.pictures())

    @property
    def world(self) -> World:
        """The environment and its params."""
        return self._world

    def statistics(self) -> dict[str, NDArray[Any]]:
        """``EpisodeStatistics`` of the running episodes by name, (num_envs, ...)."""
        return self._batch.statistics()


def choose_world(
    env_id: str, world: tuple[Environment, EnvParams] | None, overrides: dict[str, Any]
) -> World:
    """The given world, or the one that the id and the overrides name."""
    if world is None:
        return load_world(env_id, overrides)
    if overrides:
        raise TypeError(f"a world is given, so that {', '.join(sorted(overrides))} would do nothing")
    return checked_world(*world)


def checked_render_mode(render_mode: str | None) -> str | None:
    """None or "rgb_array"; ValueError otherwise."""
    if render_mode not in (None, "rgb_array"):
        raise ValueError(f"render_mode is {render_mode!r}; expected None or 'rgb_array'")
    return render_mode


def checked_options(options: dict[str, Any] | None, known: tuple[str, ...]) -> dict[str, Any]:
    """Reset options, all of them known; ValueError otherwise."""
    unknown = sorted(set(options or {}) - set(known))
    if unknown:
        raise ValueError(
            f"unknown reset option {', '.join(unknown)}; expected {', '.join(known) if known else 'none'}"
        )
    return options or {}


def _mode(value: AutoresetMode | str) -> AutoresetMode:
    try:
        return AutoresetMode(value)
    except ValueError:
        modes = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise ValueError(
            f"autoreset_mode is {value!r}; expected an AutoresetMode, or one of {modes}"
        ) from None


def _rows(observation: Any, done: NDArray[np.bool_]) -> NDArray[np.object_]:
    """Gymnasium's ``final_obs``: an object array with the observation of each ended environment, else None."""
    rows = np.flatnonzero(done)
    result = np.full(len(done), None, dtype=object)
    for row, single in zip(rows, _singles(observation, rows), strict=True):
        result[row] = single
    return result


def _singles(observation: Any, rows: NDArray[np.intp]) -> list[Any]:
    if not isinstance(observation, dict):
        return list(observation[rows])
    parts = [_singles(part, rows) for part in observation.values()]
    return [dict(zip(observation, values, strict=True)) for values in zip(*parts, strict=True)]
