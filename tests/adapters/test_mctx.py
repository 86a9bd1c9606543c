"""The model for planners: legal actions, and a search by mctx that finds what only the model can tell it."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.adapters.mctx import Model, legal_actions
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Ending, State
from tests.episodes import world

World = tuple[Environment, EnvParams]
LANES = 4


def uninformed(weights: Any, observation: Any) -> tuple[jax.Array, jax.Array]:
    """Knows nothing: equal priors, value 0."""
    size = observation.step.shape[0]
    return jnp.zeros((size, 14), jnp.float32), jnp.zeros(size, jnp.float32)


def states(of: World, corners: list[tuple[int, int]], ending: int = Ending.RUNNING) -> State:
    env, params = of
    shape = jax.eval_shape(lambda key, params: env.reset(key, params)[1], jax.random.key(0), params)
    size = len(corners)
    blank = jax.tree.map(lambda leaf: np.zeros((size, *leaf.shape), leaf.dtype), shape)
    return dataclasses.replace(
        blank, xy=jnp.asarray(corners, jnp.int32), ending=jnp.full(size, ending, jnp.int32)
    )


def test_legal_actions() -> None:
    env = world(1)[0]
    corners = [(0, 0), (160, 160), (80, 80), (0, 100), (3, 160)]
    running = states(world(1), corners)
    moves = [  # up, down, left, right
        [False, True, False, True],
        [True, False, True, False],
        [True, True, True, True],
        [True, True, False, True],
        [True, False, True, True],
    ]
    legal = np.asarray(legal_actions(env, running))
    assert legal[:, :4].tolist() == moves and legal[:, 4:].all() and legal.shape == (5, 14)
    assert np.asarray(legal_actions(env, running, clamped=True)).all()
    silent = np.asarray(legal_actions(env, running, answers=False))
    assert silent[:, :4].tolist() == moves and not silent[:, 4:].any()
    assert not np.asarray(legal_actions(env, states(world(1), corners, Ending.ANSWERED))).any()
    # A window as large as the canvas: no move changes it, but a search without answers needs an action.
    whole = dataclasses.replace(env, window=224)
    stuck = states(world(1), [(0, 0)])
    assert np.asarray(legal_actions(whole, stuck, answers=False))[:, :4].all()
    assert not np.asarray(legal_actions(whole, stuck))[:, :4].any()


def test_a_search_with_answers_finds_the_right_one(small: World) -> None:
    mctx = pytest.importorskip("mctx")
    env, params = small
    model = Model(env, uninformed)

    def search(key: jax.Array, params: EnvParams) -> Any:
        start, sampled = jax.random.split(key)
        observation, state = jax.vmap(env.reset, (0, None))(jax.random.split(start, LANES), params)
        output = mctx.gumbel_muzero_policy(
            params=((), params),
            rng_key=sampled,
            root=model.root(((), params), observation, state),
            recurrent_fn=model.recurrent_fn,
            num_simulations=32,
            invalid_actions=model.invalid_actions(state),
            max_num_considered_actions=16,
        )
        return state, output.action, output.action_weights

    state, action, weights = jax.jit(search)(jax.random.key(0), params)
    labels = np.asarray(params.bank.answers)[np.asarray(state.scene)[:, 0], 0]
    assert action.tolist() == (4 + labels).tolist()
    # What is not legal gets no weight.
    invalid = np.asarray(model.invalid_actions(state))
    assert (np.asarray(weights)[invalid] < 1e-6).all()


def test_one_step_of_the_model(small: World) -> None:
    """Rewards, discounts, and nodes past the end."""
    pytest.importorskip("mctx")
    env, params = small
    model = Model(env, uninformed, discount=0.9, answers=False)

    def play(key: jax.Array, params: EnvParams) -> Any:
        _, state = jax.vmap(env.reset, (0, None))(jax.random.split(key, LANES), params)
        right = 4 + params.bank.answers[state.scene[:, 0], 0]
        wrong = 4 + (right - 3) % 10
        action = jnp.stack([right[0], wrong[1], jnp.int32(0), jnp.int32(3)])

        def turn(state: State, _: None) -> Any:
            output, state = model.recurrent_fn(((), params), key, action, state)
            return state, (output.reward, output.discount, output.value, output.prior_logits)

        state, plays = jax.lax.scan(turn, state, length=4)
        return plays, model.legal_actions(state)

    plays, legal = jax.tree.map(np.asarray, jax.jit(play)(jax.random.key(1), params))
    rewards, discounts, values, logits = plays
    assert rewards[0].tolist() == [10, -10, np.float32(-0.1), np.float32(-0.1)]
    np.testing.assert_array_equal(discounts[0], np.float32([0, 0, 0.9, 0.9]))
    # Ended nodes give nothing more; the fourth move uses up the budget, which ends an episode too.
    assert not rewards[1:, :2].any() and not discounts[1:, :2].any()
    np.testing.assert_array_equal(discounts[3], np.zeros(4))
    assert not values.any() and np.isfinite(logits).all()
    assert not legal.any()
    assert (logits[0][2:, 4:] == np.finfo(np.float32).min).all()


def test_bad_arguments(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    env, params = small
    with pytest.raises(ValueError, match="discount is 2"):
        Model(env, uninformed, discount=2)
    with pytest.raises(TypeError, match="3 digits have no flat actions"):
        Model(dataclasses.replace(env, num_digits=3), uninformed)
    short = Model(env, lambda weights, observation: (jnp.zeros((1, 3)), jnp.zeros(1)))
    observation, state = jax.eval_shape(
        jax.vmap(env.reset, (0, None)), jax.random.split(jax.random.key(0), 1), params
    )
    with pytest.raises(ValueError, match=r"evaluate gave logits \(1, 3\)"):
        short.root(((), params), observation, state)
    monkeypatch.setitem(sys.modules, "mctx", None)
    with pytest.raises(ImportError, match=r'pip install "mnistpro_jax\[mctx\]"'):
        Model(env, uninformed).root(((), params), observation, states(small, [(0, 0)]))
