"""Spaces: what they contain is what they sample, and nothing else."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.env import spaces
from mnistpro_jax.env.environment import OBSERVATIONS
from mnistpro_jax.env.types import Action, FusedCanvas, Observation
from tests.episodes import world

KEYS = jax.random.split(jax.random.key(0), 200)


def sample_all(space: Any) -> Any:
    return jax.jit(jax.vmap(space.sample))(KEYS)


def test_discrete() -> None:
    space = spaces.Discrete(5)
    drawn = sample_all(space)
    assert (drawn.dtype, drawn.shape, space.shape, space.dtype) == (jnp.int32, (200,), (), jnp.int32)
    assert set(drawn.tolist()) == set(range(5))
    assert all(space.contains(value) for value in (0, 4, np.uint8(3), jnp.int32(2)))
    assert not any(
        space.contains(value) for value in (-1, 5, 1.0, True, np.zeros(1, int), jnp.zeros((2,), jnp.int32))
    )


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [(0, 255, jnp.uint8), (0, 1, jnp.uint8), (0, 2**32 - 1, jnp.uint32), (5, 9, jnp.uint32), (-1, 5, jnp.int32),
     (0, 2**31 - 1, jnp.int32)],
)  # fmt: skip
def test_box(low: int, high: int, dtype: Any) -> None:
    space = spaces.Box(low, high, (2, 3), dtype)
    drawn = np.asarray(sample_all(space))
    assert (drawn.dtype, drawn.shape) == (dtype, (200, 2, 3))
    assert all(space.contains(value) for value in drawn)
    spread = drawn.astype(np.float64)
    assert low <= spread.min() <= low + 0.1 * (high - low)
    assert high - 0.1 * (high - low) <= spread.max() <= high
    assert space.contains(np.full((2, 3), high, dtype))
    assert not space.contains(np.full((3, 2), low, dtype))
    assert not space.contains(np.full((2, 3), low, np.float32))


def test_small_boxes_sample_both_ends() -> None:
    assert set(np.unique(sample_all(spaces.Box(-1, 1, (3,), jnp.int32)))) == {-1, 0, 1}
    assert set(np.unique(sample_all(spaces.Box(5, 6, (3,), jnp.uint32)))) == {5, 6}


def test_box_refuses_values_out_of_bounds() -> None:
    space = spaces.Box(-1, 5, (2,), jnp.int32)
    assert not space.contains(np.array([-2, 0], np.int32))
    assert not space.contains(np.array([0, 6], np.int32))
    assert spaces.Box(0, 1, (0,), jnp.uint8).contains(np.zeros(0, np.uint8))


def test_tree() -> None:
    space = spaces.Tree(Action, (("kind", spaces.Discrete(5)), ("digits", spaces.Box(0, 9, (2,), jnp.int32))))
    drawn = sample_all(space)
    assert isinstance(drawn, Action)
    assert drawn.digits.shape == (200, 2)
    assert all(space.contains(jax.tree.map(lambda leaf, i=i: leaf[i], drawn)) for i in range(20))
    assert space["digits"].shape == (2,)
    assert not space.contains(Action(jnp.int32(5), jnp.zeros(2, jnp.int32)))
    assert not space.contains(FusedCanvas(jnp.int32(0), jnp.zeros(2, jnp.int32)))


@pytest.mark.parametrize(("level", "count"), [(1, 14), (2, 104)])
def test_flat_action_spaces(level: int, count: int) -> None:
    env, params = world(level)
    assert env.action_space(params) == env.action_space() == spaces.Discrete(count)


def test_three_digits_have_structured_actions() -> None:
    env, params = world(3)
    space = env.action_space(params)
    assert space == env.structured_action_space()
    assert space.contains(space.sample(KEYS[0]))


@pytest.mark.parametrize("mode", OBSERVATIONS)
def test_observation_space_samples_observations(mode: str) -> None:
    env, params = world(2, observation=mode)
    space = env.observation_space(params)
    drawn = jax.eval_shape(space.sample, KEYS[0])
    shown = jax.eval_shape(env.reset, KEYS[0], params)[0]
    assert isinstance(drawn, Observation)
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), drawn) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), shown
    )
    assert space.contains(space.sample(KEYS[1]))


def test_spaces_are_hashable() -> None:
    env, _ = world(2)
    assert hash(env.observation_space()) == hash(env.observation_space())
    assert hash(env.structured_action_space()) == hash(env.structured_action_space())
