"""gymnax 1.x's own wrappers, over the environment as it is and over the adapter with flat observations."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.adapters import gymnax
from mnistpro_jax.env import spaces
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Ending
from tests.episodes import assert_trees_equal, world

theirs = pytest.importorskip("gymnax", minversion=None, reason="gymnax is not installed")
wrappers = pytest.importorskip("gymnax.wrappers")

KEY = jax.random.key(0)


def small() -> tuple[Environment, EnvParams]:
    return world(1, size=56, window=16, stride=8)


def flat() -> gymnax.Gymnax1Env:
    return gymnax.Gymnax1Env(*small())


def played(wrapper: Any, action: int = 4) -> Any:
    """Reset and one step, an answer unless another action is asked for."""
    _, state = wrapper.reset(KEY, small()[1])
    return wrapper.step(KEY, state, jnp.int32(action), small()[1])


@pytest.mark.parametrize("make", [lambda: small()[0], flat], ids=["native", "flat"])
def test_wrappers_step_as_the_environment_does(make: Any) -> None:
    env = make()
    own = played(env)
    logged = played(wrappers.LogWrapper(env))
    assert_trees_equal((logged[0], logged[1].env_state, *logged[2:5]), own[:5])
    assert bool(logged[5]["returned_episode"])
    assert float(logged[5]["returned_episode_returns"]) == float(own[2])
    sticky = played(wrappers.StickyActionWrapper(env, 0.0))
    assert_trees_equal((sticky[0], sticky[1].env_state, *sticky[2:5]), own[:5])
    assert len(played(wrappers.LegacyStepAPIWrapper(env))) == 5
    timestep = wrappers.GymnaxToDmEnvWrapper(env).reset(KEY, small()[1])
    timestep = wrappers.GymnaxToDmEnvWrapper(env).step(KEY, timestep, jnp.int32(4), small()[1])
    assert float(timestep.discount) == 0.0 and float(timestep.reward) == float(own[2])


@pytest.mark.parametrize("make", [lambda: small()[0], flat], ids=["native", "flat"])
def test_as_a_gymnasium_environment(make: Any) -> None:
    single = wrappers.GymnaxToGymWrapper(make(), small()[1])
    single.reset(seed=0)
    assert single.action_space.n == 14
    assert single.observation_space is not None
    assert bool(single.step(4)[2])


def test_vectors_of_the_flat_environment() -> None:
    flattened = wrappers.LogWrapper(wrappers.FlattenObservationWrapper(flat()))
    assert_trees_equal(played(flattened)[0], played(flat())[0])
    assert wrappers.FlattenObservationWrapper(flat()).observation_space(None).shape == (16 * 16 + 11,)
    several = wrappers.GymnaxToVectorGymWrapper(flat(), 3, small()[1])
    several.reset(seed=0)
    assert several.step(np.array([4, 0, 1]))[2].tolist() == [True, False, False]


def test_terminal_states_by_gymnax_names() -> None:
    env, params = small()
    state = env.reset(KEY, params)[1]
    for ending, terminated, truncated in [
        (Ending.RUNNING, False, False),
        (Ending.ANSWERED, True, False),
        (Ending.INVALID_ACTION, True, False),
        (Ending.STEP_LIMIT, False, True),
    ]:
        at = state.replace(ending=jnp.int32(ending))
        for names in (env, flat()):
            assert bool(names.is_terminated(at, params)) == bool(names.is_terminal(at, params)) == terminated
            assert bool(names.is_truncated(at, params)) == truncated
            assert float(names.discount(at, params)) == 1.0 - terminated
    assert (env.name, env.num_actions, env.default_params) == ("MnistPro-L1", 14, None)


def test_spaces_are_both_ours_and_gymnaxs() -> None:
    space = small()[0].action_space()
    assert isinstance(space, spaces.Discrete) and isinstance(space, theirs.environments.spaces.Discrete)
    assert space == spaces.Discrete(14) and spaces.Discrete(14) == space
    assert hash(space) == hash(spaces.Discrete(14)) and space != spaces.Discrete(15)
    assert pickle.loads(pickle.dumps(space)) == space
    assert space.contains(13) and not space.contains(14)


def test_a_copy_is_equal_and_shares_its_params() -> None:
    env = flat()
    copied = copy.deepcopy(env)
    assert copied == env and hash(copied) == hash(env)
    assert copied.default_params is env.default_params
    assert env != gymnax.GymnaxEnv(*small())


def test_versions() -> None:
    with pytest.raises(ValueError, match="version is 2; expected gymnax's major version, 0 or 1"):
        gymnax.make("MnistPro-L1-v0", version=2)  # type: ignore[call-overload]
    assert isinstance(
        gymnax.make("MnistPro-L1-v0", version=1, bank=small()[1].bank, window=16)[0], gymnax.Gymnax1Env
    )
