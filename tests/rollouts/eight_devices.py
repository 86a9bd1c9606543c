"""What has to hold on eight devices, as a script for a process that has them: prints a line of JSON for each check."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import json
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from baselines import loop
from baselines.canvas import CanvasConfig, CanvasTrainer
from baselines.glimpse import GlimpseConfig, GlimpseTrainer
from baselines.ram import RamConfig, RamTrainer
from baselines.reader import ReaderConfig, ReaderTrainer
from mnistpro_jax import data, digit_bank
from mnistpro_jax.agents.learned.shipped import load_reader
from mnistpro_jax.cli import main
from mnistpro_jax.data import idx
from mnistpro_jax.env.environment import EnvParams
from mnistpro_jax.env.types import State
from mnistpro_jax.registration import environment, make_params
from mnistpro_jax.rollouts.rollout import Trajectories, rollout
from mnistpro_jax.rollouts.sharding import episode_mesh, replicated, split_batch, splitting
from tests.wanderer import wanderer


def small(split: str, count: int) -> data.Dataset:
    """The beginning of a split of MNIST."""
    full = data.load("mnist", split)
    return data.Dataset(full.images[:count], full.labels[:count], 10, "mnist", split)


def rows(part: Trajectories, first: int, count: int) -> list[np.ndarray]:
    leaves = [part.indices, part.windows, part.kinds, *jax.tree.leaves(part.statistics)]
    return [leaf[first : first + count] for leaf in leaves]


def rollouts_are_those_of_one_device() -> None:
    """Also where eight divide neither the episodes nor the chunks, and where there are fewer episodes than devices."""
    bank = digit_bank(small("test", 64))
    env = environment(bank)
    params, key = make_params(env, bank, budget=9), jax.random.key(3)
    policy = wanderer(0.2)
    one = rollout(key, env, params, policy, 50, batch_size=7)
    assert len(np.unique(one.statistics.steps)) > 5
    calls: list[int] = []
    for first, count in ((13, 37), (0, 5)):
        many = rollout(
            key,
            env,
            params,
            policy,
            count,
            first_episode=first,
            batch_size=2,
            chunk_size=36,
            mesh=episode_mesh(),
            progress=lambda done, total: calls.append(done),
        )
        for expected, actual in zip(rows(one, first, count), rows(many, 0, count), strict=True):
            assert expected.dtype == actual.dtype
            np.testing.assert_array_equal(expected, actual)
        assert calls == sorted(calls)
        assert calls[-1] == count
        calls.clear()


def evaluations_are_those_of_one_device() -> None:
    """The command, with an agent that reads: the reader and the control run on all devices too."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for split, prefix, count in (("train", "train", 100), ("test", "t10k", 30)):
            part = small(split, count)
            idx.write(folder / f"{prefix}-images-idx3-ubyte", part.images)
            idx.write(folder / f"{prefix}-labels-idx1-ubyte", part.labels.astype(np.uint8))
        common = ["evaluate", "--agent", "serpentine", "--episodes", "37", "--budget", "5", "--batch", "5"]
        for devices in ("1", "8"):
            out = ["--out", str(folder / devices), "--devices", devices, "--json"]
            with tempfile.TemporaryFile("w") as nowhere:
                before, sys.stdout = sys.stdout, nowhere
                try:
                    assert main([*common, "--data", f"idx:{folder}", *out]) == 0
                finally:
                    sys.stdout = before
        for file in ("summary.json", "episodes.jsonl"):
            assert (folder / "1" / file).read_bytes() == (folder / "8" / file).read_bytes()
        assert json.loads((folder / "8" / "summary.json").read_text())["control_accuracy"] is not None


@dataclasses.dataclass(frozen=True)
class PlaneConfig:
    updates: int = 6


class PlaneTrainer:
    """Fits a plane to a batch of noisy points that every update draws."""

    config, data = PlaneConfig(), jnp.asarray([2.0, -1.0, 0.5], jnp.float32)

    def init(self, key: jax.Array) -> dict[str, jax.Array]:
        return {"plane": jax.random.normal(key, (3,), jnp.float32)}

    def step(self, state: Any, key: jax.Array, data: jax.Array) -> tuple[Any, dict[str, jax.Array]]:
        points = split_batch(jax.random.normal(key, (32, 3), jnp.float32))

        def loss(plane: jax.Array) -> jax.Array:
            return jnp.mean((points @ (plane - data)) ** 2)

        value, gradient = jax.value_and_grad(loss)(state["plane"])
        return {"plane": state["plane"] - 0.1 * gradient}, {"loss": value}

    def evaluate(self, state: Any, key: jax.Array) -> dict[str, float]:
        assert len(state["plane"].sharding.device_set) == 1
        return {"distance": float(jnp.abs(state["plane"] - self.data).max())}


def training_is_that_of_one_device_up_to_rounding() -> None:
    """Also where eight take up a run of one device."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:

        def trained(folder: str, mesh: Mesh | None) -> jax.Array:
            run = loop.Run(Path(name) / folder, "plane", 0)
            plane: jax.Array = loop.train(PlaneTrainer(), run, evaluate_every=1, quiet=True, mesh=mesh)[
                "plane"
            ]
            return plane

        one, many = trained("one", None), trained("many", episode_mesh())
        again = trained("one", episode_mesh())
        with (Path(name) / "many" / "curve.csv").open(encoding="utf-8") as file:
            distances = [float(row["distance"]) for row in csv.DictReader(file)]
    assert len(many.sharding.device_set) == 8
    np.testing.assert_allclose(one, many, rtol=1e-5)
    np.testing.assert_array_equal(one, again)
    assert distances[-1] < distances[0]


def trainers_split_their_batches() -> None:
    """Each trainer's program, traced and not compiled, divides its batch."""
    images = small("train", 300)
    tiny: dict[str, Any] = {"held_out": 10, "updates": 9}
    trainers = [
        RamTrainer(RamConfig(batch=32, glimpses=2, **tiny), images),
        ReaderTrainer(
            ReaderConfig(channels=(4,), strides=(2,), hidden=8, batch=32, longest=2, **tiny), images
        ),
        GlimpseTrainer(GlimpseConfig(worlds=((1, 16, 2),), core_size=8, **tiny), images),
        CanvasTrainer(
            CanvasConfig(worlds=((1, 16, 2),), hidden=(8,), minibatches=2, **tiny), images, load_reader()[0]
        ),
    ]
    for trainer in trainers:
        state = jax.eval_shape(trainer.init, jax.random.key(0))
        with splitting(episode_mesh()):
            program = str(jax.make_jaxpr(trainer.step)(state, jax.random.key(1), trainer.data))
        assert "sharding_constraint" in program, type(trainer)


def batches_are_divided() -> None:
    """``split_batch`` is not only a note: each device holds an eighth, and sums over all are right."""
    x = replicated(jnp.arange(64.0).reshape(16, 4), episode_mesh())
    with splitting(episode_mesh()):
        halves, total = jax.jit(lambda x: (split_batch(2 * x), jnp.sum(split_batch(x), dtype=jnp.float32)))(x)
        with pytest.raises(ValueError, match="8 devices do not divide a batch of 12"):
            jax.jit(lambda x: split_batch(x[:12]))(x)
    assert {shard.data.shape for shard in halves.addressable_shards} == {(2, 4)}
    assert float(total) == 64 * 63 / 2
    assert split_batch(x) is x


def batches_on_an_explicit_mesh_are_played_where_they_lie() -> None:
    """What ``jax.make_mesh`` makes where nothing is said. Nobody says how what a step looks up is laid out."""
    bank = digit_bank(small("test", 64), size=56)
    env = environment(bank, window=16, stride=8)
    params = make_params(env, bank)
    keys, moves = jax.random.split(jax.random.key(0), 16), jnp.arange(16, dtype=jnp.int32)

    def play(keys: jax.Array, moves: jax.Array, params: EnvParams) -> Any:
        _, state = jax.vmap(env.reset, in_axes=(0, None))(keys, params)

        def turn(state: State, _: None) -> tuple[State, Any]:
            over_episodes = jax.vmap(env.step, in_axes=(0, 0, 0, None))
            observation, state, reward, *_ = over_episodes(keys, state, moves, params)
            return state, (observation, reward)

        return jax.lax.scan(turn, state, length=3)

    expected = jax.device_get(jax.jit(play)(keys, moves, params))
    mesh = jax.make_mesh((8,), ("episodes",))
    divided = jax.device_put((keys, moves), NamedSharding(mesh, PartitionSpec("episodes")))
    everywhere = jax.device_put(params, NamedSharding(mesh, PartitionSpec()))
    for context in (contextlib.nullcontext(), jax.set_mesh(mesh)):
        with context:
            state, (_, rewards) = result = jax.jit(play)(*divided, everywhere)
        assert state.xy.sharding.spec[0] == "episodes" and rewards.sharding.spec[1] == "episodes"
        chex.assert_trees_all_equal(jax.device_get(result), expected)


def more_devices_than_there_are() -> None:
    assert episode_mesh(1) is None
    for count in (0, 9):
        with pytest.raises(ValueError, match=f"devices is {count}; expected 1 to 8"):
            episode_mesh(count)


CHECKS: list[Callable[[], None]] = [
    rollouts_are_those_of_one_device,
    evaluations_are_those_of_one_device,
    training_is_that_of_one_device_up_to_rounding,
    trainers_split_their_batches,
    batches_are_divided,
    batches_on_an_explicit_mesh_are_played_where_they_lie,
    more_devices_than_there_are,
]

if __name__ == "__main__":
    assert len(jax.devices()) == 8
    for check in CHECKS:
        try:
            check()
            fault = ""
        except Exception:
            fault = traceback.format_exc()
        spent = round(time.process_time(), 1)
        print(json.dumps({"check": check.__name__, "cpu_s": spent, "fault": fault}), flush=True)
