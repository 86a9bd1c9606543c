"""The functional adapters, gymnax's, Brax's and Jumanji's, held to the environment's own step in one program."""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.adapters import brax, gymnax, jumanji
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Ending
from mnistpro_jax.rollouts.features import features
from tests.episodes import assert_trees_equal

World = tuple[Environment, EnvParams]
TURNS, LANES = 24, 6


@functools.cache
def _actions() -> jax.Array:
    rng = np.random.default_rng(0)
    answers = rng.integers(4, 14, (TURNS, LANES))
    moves = rng.integers(4, size=(TURNS, LANES))
    return jnp.asarray(np.where(rng.random((TURNS, LANES)) < 0.2, answers, moves), jnp.int32)


@pytest.fixture(scope="module")
def played(small: World) -> dict[str, Any]:
    """The same random episodes through every adapter, and by ``env.step`` itself: one compiled program."""
    env, params = small
    five = gymnax.GymnaxEnv(env, params)
    bare = brax.BraxEnv(env, params)
    functional = jumanji.JumanjiEnv(env, params, flatten=True)

    def lane(key: jax.Array, actions: jax.Array, params: EnvParams) -> dict[str, Any]:
        start, rest = jax.random.split(key)
        keys = jax.random.split(rest, TURNS)

        def by_both(state: Any, inputs: Any) -> Any:
            five_tuple = five.step(inputs[0], state, inputs[1], params)
            observation, state, reward, terminated, truncated, info = env.step(
                inputs[0], state, inputs[1], params
            )
            final = features(env, info["final_observation"], params)
            shown = features(env, observation, params)
            six = (shown, reward, terminated, truncated, final, info["statistics"], state)
            return state, (five_tuple, six)

        def by_brax(state: Any, action: jax.Array) -> Any:
            scores = jnp.zeros(14, jnp.float32).at[action].set(0.5)
            state = bare.step_with(state, scores, params)
            return state, state

        def by_jumanji(carry: Any, action: jax.Array) -> Any:
            state, timestep = functional.step_with(carry, action, params)
            return state, timestep

        observation, state = five.reset(start, params)
        brax_state = bare.reset_with(start, params)
        jumanji_state, first = functional.reset_with(start, params)
        return {
            "first": observation,
            "gymnax and env": jax.lax.scan(by_both, state, (keys, actions))[1],
            "brax_first": brax_state,
            "brax": jax.lax.scan(by_brax, brax_state, actions)[1],
            "jumanji_first": (jumanji_state, first),
            "jumanji": jax.lax.scan(by_jumanji, jumanji_state, actions)[1],
        }

    keys = jax.random.split(jax.random.key(0), LANES)
    program = jax.jit(jax.vmap(lane, in_axes=(0, 1, None)))
    result: dict[str, Any] = program(keys, _actions(), params)
    # Keys are no numpy arrays.
    return jax.tree.map(
        lambda leaf: leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf), result
    )


def test_the_five_tuple_is_the_six_tuple(small: World, played: dict[str, Any]) -> None:
    (observation, state, reward, done, info), six = played["gymnax and env"]
    shown, own_reward, terminated, truncated, final, statistics, own_state = six
    assert_trees_equal(state, own_state)
    assert_trees_equal(
        (observation, reward, info["terminated"], info["truncated"], info["final_observation"]),
        (shown, own_reward, terminated, truncated, final),
    )
    assert_trees_equal(info["statistics"], statistics)
    np.testing.assert_array_equal(done, terminated | truncated)
    np.testing.assert_array_equal(info["discount"], np.where(terminated, 0, 1).astype(np.float32))
    assert truncated.any() and terminated.any()
    assert not (truncated & terminated).any()


def test_gymnax_of_other_default_params_is_another_program(small: World) -> None:
    """As a static argument, it stands for its default params: a compiled program must not take another one's."""
    env, params = small
    dear = dataclasses.replace(params, move_reward=jnp.float32(-7))

    @functools.partial(jax.jit, static_argnums=0)
    def first_reward(five: gymnax.GymnaxEnv, key: jax.Array) -> jax.Array:
        _, state = five.reset(key)
        return five.step(key, state, jnp.int32(0))[2]

    found = [float(first_reward(gymnax.GymnaxEnv(env, each), jax.random.key(0))) for each in (params, dear)]
    assert found == [float(params.move_reward), -7.0]


def test_gymnax_attributes(small: World) -> None:
    env, params = small
    five = gymnax.GymnaxEnv(env, params)
    assert hash(five) == hash(gymnax.GymnaxEnv(env, params)) and five == gymnax.GymnaxEnv(env, params)
    assert five != gymnax.GymnaxEnv(env, params, flatten=False)
    assert five != env
    assert five.default_params is params
    assert int(five.default_params.max_steps_in_episode) == 4
    assert (five.num_actions, five.name) == (14, "MnistPro-L1")
    assert five.action_space(params).n == 14
    assert five.observation_space(params).shape == (env.window**2 + 11,)
    lean = gymnax.GymnaxEnv(env, params, flatten=False, keep_final_observation=False)
    shapes = jax.eval_shape(lean.step, jax.random.key(0), *_state_and_action(lean, params), params)
    assert "final_observation" not in shapes[4]
    assert shapes[0].view.shape == env.observation_space()["view"].shape
    with pytest.raises(TypeError, match="3 digits have no flat actions"):
        gymnax.GymnaxEnv(dataclasses.replace(env, num_digits=3), params).action_space()


def _state_and_action(five: gymnax.GymnaxEnv, params: EnvParams) -> Any:
    return jax.eval_shape(five.reset, jax.random.key(0), params)[1], jax.ShapeDtypeStruct((), jnp.int32)


def test_gymnax_spaces_without_gymnax(monkeypatch: pytest.MonkeyPatch, small: World) -> None:
    monkeypatch.setitem(sys.modules, "gymnax", None)
    monkeypatch.setitem(sys.modules, "gymnax.environments", None)
    five = gymnax.GymnaxEnv(*small)
    actions, observations = five.action_space(), five.observation_space()
    assert isinstance(actions, gymnax.Discrete) and isinstance(observations, gymnax.Box)
    assert actions.contains(actions.sample(jax.random.key(0))) and not actions.contains(14)
    sample = observations.sample(jax.random.key(0))
    assert observations.contains(sample)
    assert not observations.contains(sample + 1) and not observations.contains(sample[1:])


def test_brax(small: World, played: dict[str, Any]) -> None:
    """The same rules, whatever the next episode: up to the first end, and at every end."""
    state, first = played["brax"], played["brax_first"]
    assert jax.tree.structure(state) == jax.tree.structure(first)
    for leaf, start in zip(jax.tree.leaves(state), jax.tree.leaves(first), strict=True):
        assert leaf.dtype == start.dtype and leaf.shape == (LANES, TURNS, *start.shape[1:])
    statistics = state.info["episode_metrics"]
    done = state.done.astype(bool)
    assert set(np.unique(state.done)) == {0, 1}
    np.testing.assert_array_equal(state.info["terminated"] + state.info["truncation"], state.done)
    np.testing.assert_array_equal(state.info["episode_done"], state.done)
    np.testing.assert_array_equal(state.info["steps"], statistics["length"])
    # Ended by an answer, right or wrong, or by the fourth move.
    actions = np.asarray(_actions()).T
    np.testing.assert_array_equal(state.info["terminated"], actions >= 4)
    np.testing.assert_array_equal(
        state.info["truncation"].astype(bool), (statistics["length"] == 4) & (actions < 4)
    )
    np.testing.assert_array_equal(state.metrics["correct"], state.reward == 10)
    # Episodes are counted from one end to the next, and the next one is another one.
    for lane in range(LANES):
        length = 0
        for turn in range(TURNS):
            length += 1
            assert statistics["length"][lane, turn] == length
            step = state.obs[lane, turn, -9] * 4
            assert step == (0 if done[lane, turn] else length)
            assert state.info["final_obs"][lane, turn, -9] * 4 == length
            length = 0 if done[lane, turn] else length
    scenes = state.pipeline_state.scene[..., 0]
    ends = [(lane, turn) for lane, turn in np.argwhere(done) if turn > 0]
    changed = [scenes[lane, turn] != scenes[lane, turn - 1] for lane, turn in ends]
    assert np.mean(changed) > 0.9  # 64 digits: now and then the same one again


def test_brax_actions(small: World) -> None:
    env, params = small
    bare = brax.BraxEnv(env, params)
    assert (bare.action_size, bare.observation_size, bare.unwrapped) == (14, env.window**2 + 11, bare)
    assert int(bare._flat(jnp.int32(5))) == 5
    assert int(bare._flat(jnp.arange(14, dtype=jnp.float32))) == 13
    assert int(bare._flat(jnp.full(14, jnp.nan))) == -1
    for bad in (jnp.zeros(13), jnp.zeros(14, jnp.int32), jnp.float32(0), jnp.zeros((2, 14))):
        with pytest.raises(TypeError, match="expected float"):
            bare._flat(bad)
    batch = brax.wrap(bare, episode_length=7)
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = jax.eval_shape(batch.reset, keys)
    assert shapes.obs.shape == (3, bare.observation_size)
    stepped = jax.eval_shape(batch.step, shapes, jax.ShapeDtypeStruct((3, 14), jnp.float32))
    assert jax.tree.map(lambda leaf: leaf.shape, stepped) == jax.tree.map(lambda leaf: leaf.shape, shapes)
    with pytest.raises(ValueError, match="action_repeat is 2"):
        brax.wrap(bare, action_repeat=2)


def test_brax_state_has_the_fields_of_braxs_own() -> None:
    base = pytest.importorskip("brax.envs.base")
    ours, theirs = ([field.name for field in dataclasses.fields(state)] for state in (brax.State, base.State))
    assert ours == theirs
    public = [name for name in vars(base.Env) if not name.startswith("_")]
    assert all(hasattr(brax.BraxEnv, name) for name in public)


def test_jumanji(small: World, played: dict[str, Any]) -> None:
    """The first episode of a lane is the environment's own; after its end nothing changes."""
    timestep = played["jumanji"]
    _, _, terminated, truncated, *_ = played["gymnax and env"][1]
    _, first = played["jumanji_first"]
    assert first.first().all() and not first.last().any()
    assert jax.tree.structure(first) == jax.tree.structure(timestep)
    starts = (timestep.step_type.dtype, timestep.reward.dtype, timestep.discount.dtype)
    assert starts == (np.int8, np.float32, np.float32)
    for lane in range(LANES):
        end = int(np.argmax(terminated[lane] | truncated[lane]))
        kinds = timestep.step_type[lane]
        assert kinds.tolist() == [jumanji.MID] * end + [jumanji.LAST] * (TURNS - end)
        discount = 0 if terminated[lane, end] else 1
        assert timestep.discount[lane].tolist() == [1] * end + [discount] * (TURNS - end)
        assert timestep.reward[lane, end + 1 :].tolist() == [0] * (TURNS - end - 1)
        endings = timestep.extras["statistics"].ending[lane, end:]
        assert set(endings.tolist()) == {Ending.ANSWERED if discount == 0 else Ending.STEP_LIMIT}


def test_jumanji_with_jumanji(small: World) -> None:
    """Its specifications take what the environment gives, and its auto-reset runs it."""
    wrappers = pytest.importorskip("jumanji.wrappers")
    for flatten in (False, True):
        env = jumanji.JumanjiEnv(*small, flatten=flatten)
        _, timestep = env.reset(jax.random.key(0))
        env.observation_spec.validate(timestep.observation)
        assert env.action_spec.num_values == 14
        env.reward_spec.validate(timestep.reward)
        env.discount_spec.validate(timestep.discount)
    wrapped = wrappers.AutoResetWrapper(env)
    state, timestep = wrapped.reset(jax.random.key(1))
    step = jax.jit(wrapped.step)
    for turn in range(9):
        state, timestep = step(state, jnp.int32(0))
        assert bool(timestep.last()) == (turn % 4 == 3)


def test_jumanjis_specifications_ask_for_it(monkeypatch: pytest.MonkeyPatch, small: World) -> None:
    monkeypatch.setitem(sys.modules, "jumanji", None)
    with pytest.raises(ImportError, match=r'pip install "mnistpro_jax\[jumanji\]"'):
        jumanji.JumanjiEnv(*small).action_spec  # noqa: B018
