"""Gymnasium: its own checker, its own SyncVectorEnv as the reference of the vector environment, the slow reference
of the rules, seeds, and everything that must be refused."""

from __future__ import annotations

import dataclasses
import itertools
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import mnistpro_jax.adapters.gymnasium as adapter
from mnistpro_jax.adapters.world import load_world
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Ending
from mnistpro_jax.registration import with_observation
from mnistpro_jax.render.published import published_picture
from tests.episodes import edge_digits, pack, pillow_canvas, scene_indices, world
from tests.reference import ANSWER, ReferenceEpisode

World = tuple[Environment, EnvParams]
ID = "mnistpro_jax/MnistPro-L1-v0"
LANES = 5


def vector(small: World, mode: str = "SameStep", **options: Any) -> Any:
    return gymnasium.make_vec(ID, num_envs=LANES, world=small, autoreset_mode=mode, **options)


def random_actions(turns: int, seed: int = 0) -> Any:
    """Mostly moves; some answers, so that lanes get out of step."""
    rng = np.random.default_rng(seed)
    answers = rng.integers(4, 14, (turns, LANES))
    return np.where(rng.random((turns, LANES)) < 0.2, answers, rng.integers(4, size=(turns, LANES)))


def assert_same(ours: Any, theirs: Any) -> None:
    """Equal values and shapes; also in dictionaries and object arrays."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert_same(ours[name], theirs[name])
    elif isinstance(theirs, tuple):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, np.ndarray) and theirs.dtype == object:
        assert ours.dtype == object and ours.shape == theirs.shape
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_the_single_environment_passes_gymnasiums_checker(small: World) -> None:
    env = gymnasium.make(ID, world=small, render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_the_vector_environment_is_gymnasiums_own_of_single_ones(small: World, mode: str) -> None:
    """Observations, rewards, flags and infos, final ones included, over many boundaries."""
    ours = vector(small, mode)
    theirs = SyncVectorEnv(
        [lambda: gymnasium.make(ID, world=small)] * LANES, autoreset_mode=AutoresetMode(mode)
    )
    assert ours.metadata["autoreset_mode"] is AutoresetMode(mode)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    both = (ours, theirs)
    assert_same(ours.reset(seed=11), theirs.reset(seed=11))
    ends = 0
    for actions in random_actions(20):
        results = [envs.step(actions) for envs in both]
        observation, reward, terminated, truncated, infos = results[0]
        assert observation in ours.observation_space
        assert reward.dtype == np.float32
        assert reward.shape == terminated.shape == truncated.shape == (LANES,)
        assert terminated.dtype == truncated.dtype == np.bool_
        np.testing.assert_array_equal(reward, np.float32(results[1][1]))
        for number in (0, 2, 3, 4):
            assert_same(results[0][number], results[1][number])
        done = terminated | truncated
        ends += int(done.sum())
        if mode == "SameStep" and done.any():
            assert infos["final_info"]["ending"][done].tolist() == [
                Ending.ANSWERED if end else Ending.STEP_LIMIT for end in terminated[done]
            ]
        if mode == "Disabled" and done.any():
            masks = [envs.reset(options={"reset_mask": done.copy()}) for envs in both]
            assert_same(*masks)
    assert ends > 10


def test_lanes_follow_the_slow_reference(small: World) -> None:
    env, params = small
    envs = vector(small, "SameStep")
    dataset = edge_digits()

    def begin(observation: dict[str, Any], lane: int) -> ReferenceEpisode:
        scene = np.asarray(envs.unwrapped._batch.state.scene)[lane : lane + 1]
        row = scene_indices(params, scene)[0]
        canvas = pillow_canvas(dataset.images[row], env.height)
        start = observation["xy"][lane]
        return ReferenceEpisode(canvas, dataset.labels[row], start, env.window, env.stride, 4)

    def check(observation: dict[str, Any], episode: ReferenceEpisode) -> None:
        np.testing.assert_array_equal(observation["view"], pack(episode.window_bits()))
        assert observation["xy"].tolist() == list(episode.xy)
        assert observation["step"].tolist() == [episode.steps]
        assert observation["steps_left"].tolist() == [4 - episode.steps]

    observation, _ = envs.reset(seed=5)
    running = [begin(observation, lane) for lane in range(LANES)]
    for actions in random_actions(20, seed=1):
        observation, reward, terminated, truncated, infos = envs.step(actions)
        for lane, action in enumerate(actions):
            outcome = running[lane].step(
                int(action) if action < 4 else ANSWER, [int(action) - 4 if action >= 4 else 0]
            )
            assert (reward[lane], terminated[lane], truncated[lane]) == outcome
            if outcome[1] or outcome[2]:
                check(infos["final_obs"][lane], running[lane])
                final = infos["final_info"]
                assert final["episode_return"][lane] == running[lane].episode_return
                assert final["correct"][lane] == running[lane].correct
                assert final["label"][lane].tolist() == running[lane].labels
                running[lane] = begin(observation, lane)
            row = {name: values[lane] for name, values in observation.items()}
            check(row, running[lane])


def test_seeds(small: World) -> None:
    envs = vector(small, "SameStep")
    first, _ = envs.reset(seed=7)
    assert_same(envs.reset(seed=[7, 8, 9, 10, 11])[0], first)
    # A single environment of seed s + i sees what lane i of seed s sees.
    single = gymnasium.make(ID, world=small)
    for lane in range(LANES):
        assert_same(single.reset(seed=7 + lane)[0], {name: values[lane] for name, values in first.items()})
    # Without a seed, the episodes go on; other seeds are other episodes.
    second, _ = envs.reset()
    assert not np.array_equal(second["view"], first["view"])
    assert not np.array_equal(envs.reset(seed=8)[0]["view"], first["view"])
    envs.reset(seed=7)
    assert_same(envs.reset()[0], second)
    # Some lanes seeded, the others go on.
    envs.reset(seed=7)
    mixed, _ = envs.reset(seed=[None, 8, None, None, 11])
    seeded = np.array([False, True, False, False, True])
    np.testing.assert_array_equal(mixed["view"][seeded], first["view"][seeded])
    np.testing.assert_array_equal(mixed["view"][~seeded], second["view"][~seeded])
    # Nobody's seed: random episodes.
    unseeded = [vector(small).reset()[0]["view"] for _ in range(2)]
    assert not np.array_equal(*unseeded)


def test_one_lane_may_be_reset_alone(small: World) -> None:
    envs = vector(small, "NextStep")
    before, _ = envs.reset(seed=3)
    mask = np.array([False, True, False, False, False])
    after, _ = envs.reset(seed=[0, 3, 0, 0, 0], options={"reset_mask": mask})
    for name in before:
        np.testing.assert_array_equal(after[name][~mask], before[name][~mask])
    np.testing.assert_array_equal(after["view"][1], before["view"][0])


def test_arrays_belong_to_the_caller(small: World) -> None:
    actions = random_actions(12, seed=2)
    plain, shared = vector(small), vector(small, copy=False)
    kept = []
    observations = [envs.reset(seed=0)[0] for envs in (plain, shared)]
    for turn in actions:
        kept.append((observations[1]["view"], observations[1]["view"].copy()))
        observations[0]["view"][:] = 0  # changes nothing in the simulator
        observations = [envs.step(turn)[0] for envs in (plain, shared)]
        assert_same(*observations)
    for view, copy in kept:
        np.testing.assert_array_equal(view, copy)


def test_flattened_observations(small: World) -> None:
    env, _ = small
    plain, flat = vector(small), vector(small, flatten=True)
    size = env.window**2 + 11
    assert flat.single_observation_space == gymnasium.spaces.Box(0, 1, (size,), np.float32)
    shown, vectors = plain.reset(seed=1)[0], flat.reset(seed=1)[0]
    for turn in random_actions(6, seed=3):
        assert vectors in flat.observation_space
        bits = np.unpackbits(
            np.ascontiguousarray(np.swapaxes(shown["view"], 1, 2)).view(np.uint8), axis=-1, bitorder="little"
        )
        np.testing.assert_array_equal(vectors[:, : env.window**2], bits.reshape(LANES, -1))
        np.testing.assert_allclose(vectors[:, -11:-9], shown["xy"] / (env.width - env.window), rtol=1e-6)
        np.testing.assert_allclose(vectors[:, -9], shown["step"][:, 0] / 4, rtol=1e-6)
        np.testing.assert_allclose(vectors[:, -8], shown["steps_left"][:, 0] / 4, rtol=1e-6)
        np.testing.assert_array_equal(vectors[:, -7:], np.eye(7)[shown["last_action"][:, 0] + 1])
        (shown, *_, infos), (vectors, *_, flat_infos) = plain.step(turn), flat.step(turn)
        assert infos.keys() == flat_infos.keys()
        for row in flat_infos.get("final_obs", ()):
            assert row is None or row in flat.single_observation_space


def test_render_is_the_published_picture(small: World) -> None:
    env, params = small
    envs = vector(small, render_mode="rgb_array")
    single = gymnasium.make(ID, world=small, render_mode="rgb_array")
    for turn in range(3):
        if turn == 0:
            envs.reset(seed=4), single.reset(seed=4)
        else:
            envs.step(np.full(LANES, turn)), single.step(turn)
        pictures, state = envs.render(), envs.unwrapped._batch.state
        assert len(pictures) == LANES
        np.testing.assert_array_equal(single.render(), pictures[0])
        rows = scene_indices(params, np.asarray(state.scene))
        for lane in range(LANES):
            canvas = pillow_canvas(edge_digits().images[rows[lane]], env.height)
            expected = published_picture(canvas, np.asarray(state.xy)[lane], env.window)
            np.testing.assert_array_equal(pictures[lane], expected)
    assert vector(small).render() is None


def test_statistics_of_running_episodes(small: World) -> None:
    env, params = small
    envs = vector(small)
    envs.reset(seed=0)
    envs.step(np.arange(LANES) % 4)
    statistics = envs.unwrapped.statistics()
    expected = jax.vmap(env.statistics, in_axes=(0, None))(envs.unwrapped._batch.state, params)
    for field in dataclasses.fields(expected):
        np.testing.assert_array_equal(statistics[field.name], getattr(expected, field.name))
    assert statistics["steps"].tolist() == [1] * LANES


BAD_ACTIONS = [
    (np.array([0, 1, 2, 3, 14]), ValueError, "action 14 of environment 4 is out of range; expected 0 to 13"),
    (np.array([0, -1, 2, 3, 4]), ValueError, "action -1 of environment 1"),
    (np.array([2**62, 0, 0, 0, 0]), ValueError, "out of range"),
    (np.array([2**64 - 1, 0, 0, 0, 0], np.uint64), ValueError, "out of range"),
    (np.zeros(4, np.int64), ValueError, "shape (4,); expected (5,)"),
    (np.zeros((5, 1), np.int64), ValueError, "shape (5, 1)"),
    (3, ValueError, "shape ()"),
    (np.zeros(5), TypeError, "dtype float64; expected integers"),
    (np.zeros(5, np.bool_), TypeError, "dtype bool"),
    (None, TypeError, "expected integers"),
]


@pytest.mark.parametrize(("action", "error", "message"), BAD_ACTIONS)
def test_bad_actions_are_refused_and_change_nothing(
    small: World, action: Any, error: type[Exception], message: str
) -> None:
    envs, twin = vector(small), vector(small)
    envs.reset(seed=0), twin.reset(seed=0)
    with pytest.raises(error) as raised:
        envs.step(action)
    assert message in str(raised.value)
    assert_same(envs.step(np.zeros(LANES, np.int64)), twin.step(np.zeros(LANES, np.int64)))


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (np.array([1]), ValueError, "the action has shape (1,); expected ()"),
        (1.0, TypeError, "the action has dtype float64; expected integers of shape ()"),
        (99, ValueError, "out of range"),
    ],
)
def test_a_bad_action_of_a_single_environment(
    small: World, action: Any, error: type[Exception], message: str
) -> None:
    env = adapter.MnistProEnv(world=small)
    env.reset(seed=0)
    with pytest.raises(error) as raised:
        env.step(action)
    assert message in str(raised.value)


def test_every_integer_dtype_is_taken(small: World) -> None:
    results = []
    for dtype in (np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64):
        envs = vector(small)
        envs.reset(seed=0)
        results.append(envs.step(np.array([0, 5, 1, 13, 3], dtype)))
    for first, second in itertools.pairwise(results):
        assert_same(first, second)


def test_what_has_no_episode_cannot_be_stepped(small: World) -> None:
    with pytest.raises(RuntimeError, match="call reset first"):
        vector(small).step(np.zeros(LANES, np.int64))
    single = adapter.MnistProEnv(world=small)
    with pytest.raises(RuntimeError, match="call reset first"):
        single.step(0)
    single.reset(seed=0)
    single.step(7)
    with pytest.raises(RuntimeError, match="has ended; call reset"):
        single.step(0)
    envs = vector(small, "Disabled")
    envs.reset(seed=0)
    envs.step(np.array([0, 0, 4, 0, 5]))
    with pytest.raises(RuntimeError, match="lanes 2, 4 have ended"):
        envs.step(np.zeros(LANES, np.int64))


def test_bad_resets_and_arguments(small: World) -> None:
    envs = vector(small)
    some = np.array([True, False, False, False, False])
    with pytest.raises(RuntimeError, match="before the first reset"):
        envs.reset(options={"reset_mask": some})
    for seed, message in [
        ([1, 2], "2 seeds for 5"),
        (-1, "-1"),
        ([0, 0, 0, 0, -1], "seed is -1"),
        ([0.5] * 5, "0.5"),
        (1.0, "seed is 1.0; expected a whole number, 0 or more, or one for each of the 5"),
        ("12345", "seed is '12345'; expected"),
    ]:
        with pytest.raises((ValueError, gymnasium.error.Error), match=message):
            envs.reset(seed=seed)
    envs.reset(seed=0)
    for mask in (np.ones(4, np.bool_), np.ones(LANES), np.zeros(LANES, np.bool_)):
        with pytest.raises(ValueError, match="reset mask"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match="unknown reset option start"):
        envs.reset(options={"start": 3})
    with pytest.raises(ValueError, match="num_envs is 0"):
        adapter.MnistProVectorEnv(num_envs=0, world=small)
    with pytest.raises(ValueError, match="autoreset_mode is 'sometimes'"):
        adapter.MnistProVectorEnv(num_envs=2, world=small, autoreset_mode="sometimes")
    with pytest.raises(ValueError, match="render_mode is 'human'"):
        adapter.MnistProVectorEnv(num_envs=2, world=small, render_mode="human")
    with pytest.raises(TypeError, match="split would do nothing"):
        adapter.MnistProEnv(world=small, split="test")
    env, params = small
    with pytest.raises(ValueError, match="batch axis"):
        adapter.MnistProEnv(world=(env, dataclasses.replace(params, budget=np.array([1, 2]))))


def test_spaces_of_other_views_and_levels() -> None:
    env, _ = world(1, size=112, window=32, stride=5, observation="canvas")
    space = adapter.MnistProEnv(world=world(1, size=112, window=32, stride=5, observation="canvas"))
    view = space.observation_space["view"]
    assert isinstance(view, gymnasium.spaces.Dict)
    assert view["stroke"] == gymnasium.spaces.Box(0, env.native_factor**2, (28, 28), np.uint8)
    three = adapter.MnistProVectorEnv("MnistPro-L3-v0", 2, world=world(3, size=112, window=32, stride=5))
    assert three.single_action_space == gymnasium.spaces.MultiDiscrete([5, 10, 10, 10])
    batch = three.unwrapped._batch
    good = np.array([[0, 0, 0, 0], [4, 9, 9, 9]])
    np.testing.assert_array_equal(batch._checked(good), good)
    for bad in ([[5, 0, 0, 0], [0, 0, 0, 0]], [[0, 0, 0, 0], [4, 0, 10, 0]], [[0, -1, 0, 0], [0, 0, 0, 0]]):
        with pytest.raises(ValueError, match="out of range"):
            batch._checked(np.array(bad))


def test_environments_of_one_id_share_a_bank() -> None:
    arguments = {"source": "mnist", "split": "test", "episodes": "published"}
    first = load_world("MnistPro-L1-v0", dict(arguments))
    assert load_world("MnistPro-L1-v0", dict(arguments)) is first
    assert load_world("MnistPro-L1-v0", {**arguments, "budget": 7}) is not first
    with pytest.raises(TypeError):
        load_world("MnistPro-L1-v0", {**arguments, "budget": 7.0})


def test_constant_infos_have_the_same_keys_always(small: World) -> None:
    env = adapter.MnistProEnv(world=small, constant_infos=True)
    _, first = env.reset(seed=0)
    assert first["steps"] == 0
    ended = False
    while not ended:
        _, _, terminated, truncated, info = env.step(0)
        ended = terminated or truncated
        assert info.keys() == first.keys()
    assert info["steps"] == 4


def test_minaris_collector_records_constant_infos(
    small: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    collector = minari.DataCollector(adapter.MnistProEnv(world=small, constant_infos=True), record_infos=True)
    for seed in range(2):
        collector.reset(seed=seed)
        while not any(collector.step(0)[2:4]):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Minari asks for an author and more
        dataset = collector.create_dataset("mnistpro/collected-v0")
    assert [episode.infos["steps"].tolist() for episode in dataset.iterate_episodes()] == [
        [0, 1, 2, 3, 4]
    ] * 2


def test_packed_words_warn_whoever_flattens_them(small: World) -> None:
    """A network would take the words for numbers; what it should take instead is said."""
    env, params = small
    packed = adapter.MnistProEnv(world=(with_observation(env, "packed"), params))
    with pytest.warns(UserWarning, match="flatten=True"):
        assert gymnasium.spaces.flatdim(packed.observation_space["view"]) == np.prod(
            packed.observation_space["view"].shape
        )
    with pytest.warns(UserWarning, match="glimpse"):
        gymnasium.wrappers.FlattenObservation(packed)
    assert packed.observation_space.contains(packed.reset(seed=0)[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gymnasium.wrappers.FlattenObservation(
            adapter.MnistProEnv(world=(with_observation(env, "glimpse"), params))
        )
        adapter.MnistProVectorEnv(num_envs=2, world=(with_observation(env, "packed"), params)).reset(seed=0)
