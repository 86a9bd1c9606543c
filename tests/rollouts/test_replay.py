"""Stored episodes played again, and as a Minari data set read back by Minari's own loader."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mnistpro_jax
from mnistpro_jax.cli import main
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.env.types import Action, Ending, Kind, pytree, static_field
from mnistpro_jax.rollouts.replay import replay, scenes_of
from mnistpro_jax.rollouts.rollout import Trajectories
from tests.episodes import edge_digits, pack, pillow_canvas, world
from tests.reference import ANSWER, ReferenceEpisode

minari = pytest.importorskip("minari")
EPISODES, BUDGET = 12, 5


@pytree
class Wanderer:
    """Moves at random, and now and then answers."""

    observation: str = static_field(default="packed")

    def init(self, key: jax.Array) -> tuple[()]:
        return ()

    def act(self, key: jax.Array, observation: Any, memory: tuple[()]) -> tuple[Action, tuple[()]]:
        move, digit, when = jax.random.split(key, 3)
        kind = jax.random.randint(move, (), 0, 4, jnp.int32)
        answers = jax.random.bernoulli(when, 0.15)
        digits = jax.random.randint(digit, (1,), 0, 10, jnp.int32)
        return Action(jnp.where(answers, jnp.int32(Kind.ANSWER), kind), digits), memory


@pytest.fixture(scope="module")
def played() -> tuple[Environment, EnvParams, Trajectories]:
    """Some answered, some cut off by the budget."""
    env, params = world(1, size=112, window=32, stride=5)
    params = dataclasses.replace(params, budget=jnp.int32(BUDGET))
    trajectories = mnistpro_jax.rollout(jax.random.key(0), env, params, Wanderer(), EPISODES, batch_size=4)
    return env, params, trajectories


def test_replayed_episodes_are_the_slow_references(played: Any) -> None:
    env, params, trajectories = played
    dataset = edge_digits()
    endings = set()
    for number, episode in enumerate(replay(env, params, trajectories)):
        canvas = pillow_canvas(dataset.images[trajectories.indices[number]], env.height)
        label = dataset.labels[trajectories.indices[number]]
        start = trajectories.start_xy[number].tolist()
        reference = ReferenceEpisode(canvas, label, start, env.window, env.stride, BUDGET)
        steps = len(episode.actions)
        assert steps == trajectories.statistics.steps[number]
        for turn in range(steps + 1):
            shown = {name: leaf[turn] for name, leaf in episode.observations.items()}
            np.testing.assert_array_equal(shown["view"], pack(reference.window_bits()))
            assert shown["xy"].tolist() == list(reference.xy)
            assert shown["step"].tolist() == [turn]
            if turn < steps:
                action = int(episode.actions[turn])
                outcome = reference.step(action if action < 4 else ANSWER, [max(0, action - 4)])
                flags = (episode.terminations[turn], episode.truncations[turn])
                assert (episode.rewards[turn], *flags) == outcome
        endings.add(reference.ending)
        np.testing.assert_array_equal(episode.label, label)
    assert number == EPISODES - 1
    assert endings == {Ending.ANSWERED, Ending.STEP_LIMIT}


def test_what_does_not_fit_is_refused(played: Any) -> None:
    env, params, trajectories = played
    with pytest.raises(ValueError, match="goes another way"):
        list(replay(env, dataclasses.replace(params, move_reward=jnp.float32(-1)), trajectories))
    elsewhere = dataclasses.replace(trajectories, windows=trajectories.windows + np.int16(1))
    with pytest.raises(ValueError, match="goes another way"):
        list(replay(env, params, elsewhere))
    with pytest.raises(ValueError, match="its budget was 5 steps, and params say 9"):
        list(replay(env, dataclasses.replace(params, budget=jnp.int32(9)), trajectories))
    ending = trajectories.statistics.ending.copy()
    ending[3] = Ending.INVALID_ACTION
    broken = dataclasses.replace(
        trajectories, statistics=dataclasses.replace(trajectories.statistics, ending=ending)
    )
    with pytest.raises(ValueError, match="number 3"):
        list(replay(env, params, broken))
    with pytest.raises(ValueError, match="does not hold image"):
        scenes_of(params.bank, np.array([[10_000]]))


def test_another_window_is_refused_where_no_border_tells(played: Any) -> None:
    """Away from the borders, windows of all sizes have the same corners."""
    env, params, trajectories = played
    room = 112 - 32
    inside = ((trajectories.windows[:, :, :] < room) & (trajectories.windows != 0)).all(axis=(1, 2))
    rows = np.flatnonzero(inside)
    assert len(rows)
    chosen = Trajectories(
        trajectories.indices[rows],
        trajectories.windows[rows],
        trajectories.kinds[rows],
        jax.tree.map(lambda leaf: np.asarray(leaf)[rows], trajectories.statistics),
    )
    narrow = dataclasses.replace(env, window=24)
    others = mnistpro_jax.make_params(narrow, params.bank)
    with pytest.raises(ValueError, match="goes another way"):
        list(replay(narrow, others, chosen))


@pytest.fixture
def minari_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    return tmp_path


def test_minari_reads_the_data_set_back(played: Any, minari_folder: Path) -> None:
    from mnistpro_jax.adapters import minari as minari_adapter
    from mnistpro_jax.adapters.gymnasium import MnistProEnv
    from mnistpro_jax.adapters.minari import export_minari

    env, params, trajectories = played
    written = []
    export_minari(
        "mnistpro/tests/random-v0",
        env,
        params,
        trajectories,
        algorithm_name="random",
        make_overrides={"split": "test"},
        progress=lambda done, total: written.append((done, total)),
    )
    assert written[-1] == (EPISODES, EPISODES)
    loaded = minari.load_dataset("mnistpro/tests/random-v0")
    assert (loaded.total_episodes, loaded.total_steps) == (EPISODES, int(trajectories.statistics.steps.sum()))
    for episode, expected in zip(loaded.iterate_episodes(), replay(env, params, trajectories), strict=True):
        assert episode.observations.keys() == expected.observations.keys()
        for name, leaf in expected.observations.items():
            np.testing.assert_array_equal(episode.observations[name], leaf)
            assert episode.observations[name].dtype == leaf.dtype
        for name in ("actions", "rewards", "terminations", "truncations"):
            np.testing.assert_array_equal(getattr(episode, name), getattr(expected, name))
        np.testing.assert_array_equal(episode.infos["label"][-1], expected.label)
        assert {name: leaf[0] for name, leaf in episode.observations.items()} in loaded.observation_space
        assert episode.actions[-1] in loaded.action_space
    spec = loaded.env_spec
    assert spec.id == "mnistpro_jax/MnistPro-L1-v0"
    assert spec.kwargs["split"] == "test" and spec.kwargs["budget"] == BUDGET
    # The arguments make the same world again, for both kinds of start.
    given = {"split": None, "dataset": edge_digits(), "size": env.height}
    again = MnistProEnv(**{**spec.kwargs, **given}).world
    assert again.env == env and again.params.replace(start_xy=params.start_xy) == params
    fixed = dataclasses.replace(env, start="fixed")
    again = MnistProEnv(**{**minari_adapter._spec(fixed, params, False, {}).kwargs, **given}).world
    assert again.env == fixed and again.params == params

    with pytest.raises(ValueError, match="exists already"):
        export_minari("mnistpro/tests/random-v0", env, params, trajectories)
    with pytest.raises(ValueError, match="has no version; expected .*-v0"):
        export_minari("mnistpro/tests", env, params, trajectories)
    # A failure leaves nothing, and what was there stays.
    with pytest.raises(ValueError, match="goes another way"):
        export_minari(
            "mnistpro/tests/bad-v0", env, dataclasses.replace(params, budget=jnp.int32(9)), trajectories
        )
    assert sorted(minari.list_local_datasets()) == ["mnistpro/tests/random-v0"]


def test_the_command(minari_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["export", "mnistpro/command-v0", "--agent", "random", "--episodes", "3", "--flatten", "--json"]
    assert main(command) == 0
    facts = json.loads(capsys.readouterr().out)
    loaded = minari.load_dataset("mnistpro/command-v0")
    assert facts["episodes"] == loaded.total_episodes == 3
    assert facts["steps"] == loaded.total_steps
    assert Path(facts["folder"]).is_dir()
    episode = loaded[0]
    assert episode.observations.shape == (len(episode.actions) + 1, 64 * 64 + 11)
    assert loaded.env_spec.kwargs["source"] == "mnist" and loaded.env_spec.kwargs["split"] == "test"
    # Again, and under a name that is none: one line, before anything is played.
    for name in ("mnistpro/command-v0", "no good"):
        assert main([*command[:1], name, *command[2:]]) == 2
        assert capsys.readouterr().err.startswith("mnistpro: error: ")


def test_without_minari(played: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from mnistpro_jax.adapters.minari import export_minari

    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r'pip install "mnistpro_jax\[minari\]"'):
        export_minari("mnistpro/none-v0", *played)
