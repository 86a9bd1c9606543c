from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.agents import Geometry, agent_names, describe, make_agent
from mnistpro_jax.agents.reader import EmpiricalBayesReader
from mnistpro_jax.agents.registry import reads_with
from mnistpro_jax.data import Dataset
from mnistpro_jax.env.types import Kind, Observation
from tests.agents.helpers import fused, observation
from tests.episodes import pillow_canvas

GEOMETRY = Geometry()
READING = [name for name in agent_names() if reads_with(name) in ("bank", "network")]
# The recurrent agent has weights for few numbers of digits and a memory of floats: see test_learned.
ANY_LEVEL = [name for name in agent_names() if reads_with(name) != "memory"]


def stroke_pixels(images: np.ndarray) -> np.ndarray:
    return pillow_canvas(images, 224) == 0


@pytest.fixture(scope="module")
def first_look(held_out: Dataset) -> Observation:
    return observation(fused(GEOMETRY, stroke_pixels(held_out.images[:1]), [(70, 51)]), (70, 51))


read = jax.jit(EmpiricalBayesReader.posterior)


@jax.jit
def act(policy, seen: Observation):
    """The first action of an episode; compiled once per kind of agent."""
    return policy.act(jax.random.key(0), seen, policy.init(jax.random.key(0)))[0]


@pytest.mark.parametrize("name", READING)
def test_threshold_decides_between_moving_and_answering(
    name: str, reader: EmpiricalBayesReader, first_look: Observation
) -> None:
    posterior = read(reader, first_look.view)
    sure, digits = float(posterior.confidence), posterior.digits.tolist()
    for confidence, answers in ((sure - 1e-4, True), (sure + 1e-4, False), (0.0, True), (1.1, False)):
        action = act(make_agent(name, GEOMETRY, reader=reader, confidence=confidence), first_look)
        assert (int(action.kind) == Kind.ANSWER) == answers
        assert int(action.kind) in range(5)
        assert action.digits.tolist() == digits


@pytest.mark.parametrize("name", READING)
def test_the_last_step_is_an_answer(name: str, reader: EmpiricalBayesReader, first_look: Observation) -> None:
    policy = make_agent(name, GEOMETRY, reader=reader, confidence=1.1)
    for step, answers in ((0, False), (34, False), (35, True)):
        seen = first_look.replace(
            step=jnp.asarray(step, jnp.int32), steps_left=jnp.asarray(36 - step, jnp.int32)
        )
        assert (int(act(policy, seen).kind) == Kind.ANSWER) == answers


def test_max_moves(reader: EmpiricalBayesReader, first_look: Observation) -> None:
    policy = make_agent("random-walk", GEOMETRY, reader=reader, confidence=1.1, max_moves=3)
    kinds = [int(act(policy, first_look.replace(step=jnp.asarray(k, jnp.int32))).kind) for k in range(5)]
    assert [kind == Kind.ANSWER for kind in kinds] == [False, False, False, True, True]


@pytest.mark.parametrize("name", ANY_LEVEL)
def test_actions_are_pinned_and_pure(name: str, reader: EmpiricalBayesReader, held_out: Dataset) -> None:
    digits = 3
    geometry = Geometry(width=224 * digits, num_digits=digits)
    strokes = stroke_pixels(held_out.images[:digits])
    seen = observation(
        fused(geometry, strokes, [(10, 60), (42, 60)]), (42, 60), step=1, budget=geometry.budget
    )
    policy = make_agent(name, geometry, reader=reader, confidence=1.1)
    batch = jax.tree.map(lambda leaf: np.stack([leaf] * 3), seen)
    keys = jax.random.split(jax.random.key(0), 3)

    @jax.jit
    def act_all(policy: Any, keys: jax.Array, seen: Any) -> Any:
        return jax.vmap(lambda key, one: policy.act(key, one, policy.init(key)))(keys, seen)

    actions, carry = act_all(policy, keys, batch)
    assert actions.kind.shape == (3,) and actions.digits.shape == (3, digits)
    before = jax.eval_shape(jax.vmap(policy.init), keys)
    assert jax.tree.structure(before) == jax.tree.structure(carry)
    for leaf in (*jax.tree.leaves(actions), *jax.tree.leaves(carry)):
        assert leaf.dtype == jnp.int32 and not leaf.weak_type
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(carry), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    alone, _ = jax.jit(lambda p: p.act(keys[1], seen, p.init(keys[1])))(policy)
    assert int(alone.kind) == int(actions.kind[1])
    assert alone.digits.tolist() == actions.digits[1].tolist()
    for leaf in jax.tree.leaves(policy):
        assert not leaf.weak_type


def test_random_is_uniform_over_flat_actions() -> None:
    for digits in (1, 2):
        policy = make_agent("random", Geometry(width=224 * digits, num_digits=digits))
        draw = jax.jit(jax.vmap(lambda key, policy=policy: decide_random(policy, key)))
        actions = draw(jax.random.split(jax.random.key(0), 20_000))
        kinds = np.bincount(actions.kind, minlength=5) / 20_000
        each = 1 / (4 + 10**digits)
        np.testing.assert_allclose(kinds, [each] * 4 + [10**digits * each], atol=0.012)
        answered = np.asarray(actions.digits)[np.asarray(actions.kind) == Kind.ANSWER]
        for place, value in itertools.product(range(digits), range(10)):
            assert np.mean(answered[:, place] == value) == pytest.approx(0.1, abs=0.012)


def decide_random(policy: Any, key: jax.Array) -> Any:
    return policy.act(key, observation(None, (0, 0)), ())[0]


def test_random_needs_no_bank_and_reads_nothing() -> None:
    policy = make_agent("random")
    assert policy.observation == "packed" and jax.tree.leaves(policy) == []
    assert all(make_agent.__doc__ and describe(name) for name in agent_names())


def test_a_bank_or_a_reader(train: Dataset) -> None:
    few = Dataset(train.images[:60], train.labels[:60], 10, "mnist", "train")
    policy = make_agent("coverage", GEOMETRY, few)
    assert policy.reader.labels.shape == (60,) and policy.observation == "canvas"
    with pytest.raises(ValueError, match="train_dataset"):
        make_agent("coverage", GEOMETRY)


def test_unknown_names_list_the_valid_ones() -> None:
    for call in (make_agent, describe):
        with pytest.raises(ValueError, match="random, random-walk, serpentine, coverage, observer"):
            call("oracle")


@pytest.mark.parametrize(
    "wrong",
    [
        {"confidence": float("nan")},
        {"confidence": -1},
        {"discount": 1.5},
        {"floor": -0.1},
        {"particles": 0},
        {"max_moves": -1},
        {"tie_break": -1.0},
    ],
)
def test_values_out_of_range(wrong: dict[str, float], reader: EmpiricalBayesReader) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} is .*expected"):
        make_agent("observer", GEOMETRY, reader=reader, **wrong)


def test_a_reader_of_another_world_is_refused(reader: EmpiricalBayesReader) -> None:
    with pytest.raises(ValueError, match="build one for this world"):
        make_agent("coverage", Geometry(height=112, width=112, native_factor=4), reader=reader)
