"""Rollouts: results depend on the episode alone, records agree with the environment, bad counts are refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mnistpro_jax
from mnistpro_jax import data
from mnistpro_jax.env.types import Action, Ending, Kind, pytree
from mnistpro_jax.registration import environment, make_params
from mnistpro_jax.rollouts.rollout import Trajectories, rollout
from mnistpro_jax.worlds.digits import episode_bank
from tests.wanderer import Wanderer, wanderer


@pytest.fixture(scope="module")
def world() -> tuple[mnistpro_jax.Environment, mnistpro_jax.EnvParams]:
    dataset = data.load("mnist", "test")
    bank = mnistpro_jax.digit_bank(
        data.Dataset(dataset.images[:256], dataset.labels[:256], 10, "mnist", "test")
    )
    env = environment(bank)
    return env, make_params(env, bank, budget=12)


EPISODES, LANES = 48, 8  # every test with the same numbers shares one compiled program


def play(world, eagerness: float, seed: int = 0) -> Trajectories:
    return rollout(jax.random.key(seed), *world, wanderer(eagerness), EPISODES, batch_size=LANES)


def leaves(part: Trajectories) -> list[np.ndarray]:
    return [part.indices, part.windows, part.kinds, *jax.tree.leaves(part.statistics)]


def assert_same(first: Trajectories, second: Trajectories) -> None:
    for a, b in zip(leaves(first), leaves(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_results_do_not_depend_on_lanes_or_chunks(world):
    key = jax.random.key(3)
    reference = rollout(key, *world, wanderer(0.2), EPISODES, batch_size=LANES)
    assert_same(reference, rollout(key, *world, wanderer(0.2), EPISODES, batch_size=3, chunk_size=17))
    prefix = rollout(key, *world, wanderer(0.2), 20, batch_size=3, chunk_size=17)
    for whole, part in zip(leaves(reference), leaves(prefix), strict=True):
        np.testing.assert_array_equal(whole[:20], part)


def test_another_key_gives_other_episodes(world):
    first, second = (play(world, 0.2, seed) for seed in (0, 1))
    assert (first.indices != second.indices).any()
    assert (first.start_xy != second.start_xy).any()


def test_episodes_differ_from_each_other(world):
    """Each has a key of its own: scenes, starts and what the agent does are drawn anew. Of 48 scenes out of 256 some 43
    are different."""
    played = play(world, 0.2)
    assert len(np.unique(played.indices)) >= 30
    assert len(np.unique(played.start_xy, axis=0)) >= 30
    assert len(np.unique(played.kinds, axis=0)) >= 30


def test_records_replay_in_the_environment(world):
    env, params = world
    played = play(world, 0.15, 5)
    step = jax.jit(env.step_env)
    for episode in range(12):
        scene = jnp.asarray(played.indices[episode])  # tile numbers are image numbers in this bank
        _, state = env.reset_to(scene, jnp.asarray(played.start_xy[episode]), params)
        kinds = played.kinds[episode]
        count = int((kinds != Kind.NONE).sum())
        assert count == played.statistics.steps[episode]
        for number in range(count):
            digits = jnp.asarray(np.maximum(played.statistics.answer[episode], 0))
            action = Action(jnp.asarray(kinds[number], jnp.int32), digits)
            _, state, _, terminated, truncated, info = step(jax.random.key(0), state, action, params)
            if kinds[number] < Kind.ANSWER:
                np.testing.assert_array_equal(played.windows[episode, number + 1], state.xy)
            assert bool(terminated | truncated) == (number == count - 1)
        for stored, replayed in zip(
            jax.tree.leaves(played.statistics), jax.tree.leaves(info["statistics"]), strict=True
        ):
            np.testing.assert_array_equal(stored[episode], replayed)
        moves = int(played.statistics.moves[episode])
        assert (played.windows[episode, moves + 1 :] == -1).all()


def test_endings_of_eager_and_of_silent_agents(world):
    eager = play(world, 1.0)
    assert len(eager) == EPISODES and (eager.statistics.ending == Ending.ANSWERED).all()
    assert (eager.statistics.steps == 1).all()
    silent = play(world, 0.0)
    assert len(silent) == EPISODES and (silent.statistics.ending == Ending.STEP_LIMIT).all()
    assert (silent.statistics.steps == 12).all()
    assert (silent.statistics.answer == -1).all()
    assert not silent.statistics.correct.any()


def test_published_episodes_come_in_order_with_their_starts():
    env, params = mnistpro_jax.make("MnistPro-L1-v0", episodes="published", budget=3)
    episodes = mnistpro_jax.published_episodes(1)
    played = rollout(jax.random.key(0), env, params, wanderer(0.5), 130, batch_size=16)
    order = np.arange(130) % 100
    np.testing.assert_array_equal(played.indices, episodes.indices[order])
    np.testing.assert_array_equal(played.start_xy, episodes.start_xy[order])
    np.testing.assert_array_equal(played.statistics.label, episodes.labels[order])


def test_given_scenes_and_starts_of_two_digits():
    dataset = data.load("mnist", "test")
    bank = episode_bank(dataset, np.arange(12).reshape(6, 2))
    env = environment(bank)
    rng = np.random.default_rng(0)
    scenes = rng.integers(0, 12, (9, 2))  # tile numbers are image numbers in this bank; not its own list
    starts = np.stack([rng.integers(0, 385, 9), rng.integers(0, 161, 9)], axis=-1)

    @pytree
    class Both(Wanderer):
        def init(self, key: jax.Array) -> jax.Array:
            return jax.random.randint(key, (2,), 0, 10, jnp.int32)

    params, policy = make_params(env, bank, budget=5), Both(jnp.asarray(0.5, jnp.float32))
    played = rollout(jax.random.key(0), env, params, policy, 9, scenes=scenes, starts=starts, batch_size=4)
    np.testing.assert_array_equal(played.indices, scenes)
    np.testing.assert_array_equal(played.start_xy, starts)
    np.testing.assert_array_equal(played.statistics.label, dataset.labels[scenes])
    answered = played.statistics.ending == Ending.ANSWERED
    assert answered.any()
    assert (played.statistics.answer[answered] >= 0).all()


def test_progress_rises_to_the_total(world):
    calls: list[tuple[int, int]] = []
    rollout(
        jax.random.key(0),
        *world,
        wanderer(0.2),
        EPISODES,
        batch_size=3,
        chunk_size=17,
        progress=lambda *call: calls.append(call),
    )
    done = [finished for finished, total in calls if total == EPISODES]
    assert len(done) == len(calls)
    assert done == sorted(done)
    assert done[-1] == EPISODES


def test_a_million_published_episodes_would_fit(world):
    played = play(world, 0.2)
    # The published budget is 36 steps, here it is 12: four bytes a window and one a kind.
    assert played.nbytes / len(played) + 24 * 5 < 400


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_episodes": 0}, "num_episodes is 0; expected 1 or more"),
        ({"batch_size": -1}, "batch_size is -1; expected 1 or more"),
        ({"chunk_size": 0}, "chunk_size is 0; expected 1 or more"),
        ({"starts": np.full((4, 2), 1.5)}, "starts has dtype float64; expected integers"),
        ({"scenes": np.zeros((3, 1), int)}, r"scenes has shape \(3, 1\); expected \(4, 1\)"),
        ({"scenes": np.full((4, 1), 256)}, r"scenes span 256\.\.256; the bank has tiles 0\.\.255"),
        ({"starts": np.zeros((4, 3), int)}, r"starts has shape \(4, 3\); expected \(4, 2\)"),
    ],
)
def test_bad_counts_and_shapes(world, changes, message):
    arguments = {"num_episodes": 4, **changes}
    with pytest.raises(ValueError, match=message):
        rollout(jax.random.key(0), *world, wanderer(0.2), **arguments)


def test_a_batch_of_budgets_is_refused(world):
    env, params = world
    params = params.replace(budget=jnp.asarray([3, 4], jnp.int32))
    with pytest.raises(ValueError, match="params.budget has a batch axis"):
        rollout(jax.random.key(0), env, params, wanderer(0.2), 4)
