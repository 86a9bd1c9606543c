"""dm_env: its own conformance tests, and what it leaves open."""

from __future__ import annotations

import dm_env
import numpy as np
import pytest
from absl.testing import absltest
from dm_env import specs, test_utils

from mnistpro_jax.adapters import dm_env as adapter
from mnistpro_jax.env.environment import Environment, EnvParams

World = tuple[Environment, EnvParams]


@pytest.fixture(autouse=True, scope="module")
def _share_world(small: World) -> None:
    TestConformance.world = small


class TestConformance(test_utils.EnvironmentTestMixin, absltest.TestCase):
    """dm_env's tests; the actions reach the budget and an answer."""

    world: World

    def make_object_under_test(self) -> dm_env.Environment:
        return adapter.MnistProDmEnv(*self.world, seed=1)

    def make_action_sequence(self) -> list[np.int32]:
        return [np.int32(action) for action in (0, 1, 2, 3, 0, 1, 9, 3, 3, 2)]


def test_discount_tells_termination_from_truncation(small: World) -> None:
    env = adapter.MnistProDmEnv(*small, seed=0)
    steps = [env.reset(), *(env.step(0) for _ in range(4))]
    assert [step.step_type for step in steps] == [0, 1, 1, 1, 2]
    assert [step.discount for step in steps[1:]] == [1, 1, 1, 1]  # the budget
    assert steps[-1].observation["steps_left"].tolist() == [0]
    first = env.step(9)  # ignored: a new episode
    assert first.first()
    answered = env.step(9)
    assert answered.last()
    assert (answered.discount, abs(answered.reward)) == (0, 10)
    assert env.statistics()["steps"] == 1


def test_seeds_and_spaces(small: World) -> None:
    one, same, other = (adapter.MnistProDmEnv(*small, seed=seed) for seed in (3, 3, 4))
    views = [[env.reset().observation["view"] for _ in range(2)] for env in (one, same, other)]
    np.testing.assert_array_equal(views[0], views[1])
    assert not np.array_equal(views[0][0], views[0][1])
    assert not np.array_equal(views[0][0], views[2][0])
    assert one.action_spec() == specs.DiscreteArray(14, np.int32, "action")
    for name, spec in one.observation_spec().items():
        spec.validate(one.reset().observation[name])


def test_bad_actions(small: World) -> None:
    env = adapter.MnistProDmEnv(*small, seed=0)
    env.reset()
    for action, error in ((14, ValueError), (-1, ValueError), (0.0, TypeError), ([0], ValueError)):
        with pytest.raises(error):
            env.step(action)
    assert env.step(0).observation["step"].tolist() == [1]
