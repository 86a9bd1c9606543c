"""What an environment refuses while it is traced: a forgotten vmap, another world's params, what is no key or state."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.adapters.gymnax import GymnaxEnv
from mnistpro_jax.agents import Geometry, make_agent
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import State
from mnistpro_jax.rollouts.rollout import rollout
from tests.episodes import world

KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 4)
RAW = jax.random.key_data(KEYS)


@functools.cache
def state_of(level: int, **given: Any) -> State:
    env, params = world(level, **given)
    state: State = jax.eval_shape(env.reset, KEY, params)[1]
    return state


def several(count: int, state: State) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((count, *leaf.shape), leaf.dtype), state)


def calls(env: Environment, state: State, key: Any) -> dict[str, Callable[[EnvParams], Any]]:
    """Every function of an environment that takes params."""
    scene, corner = jnp.zeros(env.num_digits, jnp.int32), jnp.zeros(2, jnp.int32)
    return {
        "reset": lambda params: env.reset(key, params),
        "reset_env": lambda params: env.reset_env(key, params),
        "reset_to": lambda params: env.reset_to(scene, corner, params),
        "draw_start": lambda params: env.draw_start(key, scene, params),
        "step": lambda params: env.step(key, state, jnp.int32(0), params),
        "step_env": lambda params: env.step_env(key, state, jnp.int32(0), params),
        "step_running": lambda params: env.step_running(key, state, jnp.int32(0), params),
        "statistics": lambda params: env.statistics(state, params),
        "final_statistics": lambda params: env.final_statistics(jnp.asarray(True), state, params),
        "gymnax reset": lambda params: GymnaxEnv(env, params).reset(key),
        "gymnax step": lambda params: GymnaxEnv(env, params).step(key, state, jnp.int32(0)),
    }


CALLS = list(calls(world(1)[0], state_of(1), KEY))
DRAWING = ["reset", "reset_env", "draw_start", "step", "gymnax reset", "gymnax step"]
STEPPING = ["step", "step_env", "step_running", "statistics", "final_statistics", "gymnax step"]


def traced(name: str, env: Environment, params: EnvParams, state: Any, key: Any = KEY) -> Any:
    return jax.eval_shape(lambda state, params: calls(env, state, key)[name](params), state, params)


@pytest.mark.parametrize("keys", [KEYS, RAW, KEYS[None, :1]], ids=["typed", "raw", "two axes"])
@pytest.mark.parametrize("name", DRAWING)
def test_several_keys_are_refused(name: str, keys: jax.Array) -> None:
    env, params = world(1)
    with pytest.raises(ValueError, match=r"key has shape \(.*expected one key.*jax\.vmap"):
        traced(name, env, params, state_of(1), keys)


@pytest.mark.parametrize("key", [0, None, jnp.float32(1), jnp.int32(3)], ids=str)
@pytest.mark.parametrize("name", DRAWING)
def test_what_is_no_key_is_refused(name: str, key: Any) -> None:
    env, params = world(1)
    with pytest.raises(TypeError, match=r"key is .*jax\.random\.key\(seed\)"):
        traced(name, env, params, state_of(1), key)


@pytest.mark.parametrize("name", STEPPING)
def test_several_states_are_refused(name: str) -> None:
    env, params = world(1)
    with pytest.raises(ValueError, match=r"state\.step has shape \(4,\).*jax\.vmap"):
        traced(name, env, params, several(4, state_of(1)))


@pytest.mark.parametrize(
    ("own", "theirs", "named"),
    [
        ((2, {}), (1, {}), "width 224 .*this environment 448"),
        ((1, {}), (2, {}), "width 448 .*this environment 224"),
        ((1, {}), (1, {"size": 112, "window": 32}), "height 112 .*this environment 224"),
        (
            (1, {"window": 32, "stride": 16}),
            (1, {}),
            "window of 64 pixels and a stride of 32, .* has 32 and 16",
        ),
        ((1, {}), (1, {"stride": 16}), "window of 64 pixels and a stride of 16, .* has 64 and 32"),
    ],
)
@pytest.mark.parametrize("name", CALLS)
def test_params_of_another_world_are_refused(name: str, own: Any, theirs: Any, named: str) -> None:
    env, _ = world(own[0], **own[1])
    _, params = world(theirs[0], **theirs[1])
    with pytest.raises(ValueError, match=f"another environment: .*{named}"):
        traced(name, env, params, state_of(own[0], **own[1]))


@pytest.mark.parametrize("name", STEPPING)
def test_a_state_of_another_world_is_refused(name: str) -> None:
    env, params = world(1)
    with pytest.raises(
        ValueError, match=r"state belongs to another environment: its (scene|visited) has shape"
    ):
        traced(name, env, params, state_of(2))
    with pytest.raises(ValueError, match="its visited has shape"):
        traced(name, env, params, state_of(1, stride=16))


def test_a_rollout_with_another_worlds_params_is_refused() -> None:
    env, _ = world(2)
    with pytest.raises(ValueError, match="another environment"):
        rollout(KEY, env, world(1)[1], make_agent("random", Geometry.of(env)), 4)


def test_batches_of_params_are_refused() -> None:
    env, params = world(1)
    swept = dataclasses.replace(params, budget=jnp.arange(1, 4, dtype=jnp.int32))
    with pytest.raises(ValueError, match=r"params\.budget has shape \(3,\)"):
        traced("reset", env, swept, state_of(1))


@pytest.mark.parametrize(
    ("scene", "corner", "message"),
    [
        (np.zeros(2, np.int32), np.zeros(2, np.int32), r"scene has shape \(2,\); expected \(1,\)"),
        (np.zeros(1, np.int32), np.zeros(3, np.int32), r"start_xy has shape \(3,\); expected \(2,\)"),
        (np.zeros((4, 1), np.int32), np.zeros((4, 2), np.int32), r"scene has shape \(4, 1\).*jax\.vmap"),
    ],
)
def test_scenes_and_corners_of_wrong_shape_are_refused(scene: Any, corner: Any, message: str) -> None:
    env, params = world(1)
    with pytest.raises(ValueError, match=message):
        env.reset_to(scene, corner, params)


def test_corners_between_pixels_are_refused() -> None:
    env, params = world(1)
    with pytest.raises(TypeError, match="start_xy is of dtype float"):
        env.reset_to(np.zeros(1, np.int32), np.array([1.5, 2.7]), params)


def test_what_is_no_params_or_state_is_refused() -> None:
    env, params = world(1)
    with pytest.raises(TypeError, match="params are None; expected the EnvParams"):
        env.reset(KEY, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"state is .*; expected the State"):
        env.step(KEY, jnp.int32(0), jnp.int32(0), params)  # type: ignore[arg-type]
