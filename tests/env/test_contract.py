"""What an environment promises to every program that uses it: trees, dtypes, purity, imports."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mnistpro_jax.env.environment import EnvParams
from mnistpro_jax.env.types import Action, Ending, Kind
from tests.episodes import assert_trees_equal, world

ROOT = Path(__file__).resolve().parents[2]
# Worlds of every observation mode, 1 to 3 digits, strides that divide the window, and others.
WORLDS: list[tuple[int, dict[str, Any]]] = [
    (1, {}),
    (2, {"observation": "canvas"}),
    (2, {"observation": "canvas_full", "outline": True}),
    (3, {"observation": "canvas", "stride": 5}),
    (1, {"observation": "glimpse", "outline": True, "size": 112, "stride": 5}),
    (2, {"observation": "published", "stride": 5}),
]


def described(tree: Any) -> Any:
    """The tree with (shape, dtype, weak type) for each leaf."""
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)


def an_action(digits: int) -> Action:
    return Action(jnp.int32(Kind.RIGHT), jnp.zeros(digits, jnp.int32))


# ---- Trees ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "overrides"), WORLDS)
def test_reset_and_step_return_the_same_trees(level: int, overrides: dict[str, Any]) -> None:
    env, params = world(level, **overrides)
    key, scene = jax.random.key(0), jnp.zeros(level, jnp.int32)
    observation, state = jax.eval_shape(env.reset, key, params)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((observation, state)))
    assert described(jax.eval_shape(env.reset_env, key, params)) == described((observation, state))
    again = jax.eval_shape(env.reset_to, scene, jnp.zeros(2, jnp.int32), params)
    assert described(again) == described((observation, state))
    statistics = jax.eval_shape(env.statistics, state, params)
    ended = jax.eval_shape(env.final_statistics, jnp.asarray(True), state, params)
    assert described(ended) == described(statistics)
    outcomes = [
        jax.eval_shape(method, key, state, an_action(level), params) for method in (env.step, env.step_env)
    ]
    for shown, after, reward, terminated, truncated, info in outcomes:
        assert described(shown) == described(observation)
        assert described(after) == described(state)
        assert described((reward, terminated, truncated)) == (
            ((), jnp.float32, False), ((), jnp.bool_, False), ((), jnp.bool_, False)
        )  # fmt: skip
        assert set(info) == {"final_observation", "final_state", "statistics"}
        assert described(info["final_state"]) == described(state)
        assert described(info["final_observation"]) == described(observation)
        assert described(info["statistics"]) == described(statistics)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(outcomes))


def test_reset_and_step_meet_in_scan_and_cond() -> None:
    """Traced only: a carry or a branch of another type would be refused."""
    env, params = world(2, observation="canvas_full", stride=5)

    def program(key: jax.Array, params: EnvParams) -> Any:
        def turn(carry: Any, key: jax.Array) -> Any:
            observation, state = carry
            stepped = env.step(key, state, an_action(2), params)[:2]
            fresh = jax.lax.cond(stepped[1].step > 3, lambda: env.reset(key, params), lambda: stepped)
            return fresh, observation.step

        return jax.lax.scan(turn, env.reset(key, params), jax.random.split(key, 5))

    carry, steps = jax.eval_shape(program, jax.random.key(0), params)
    assert steps.shape == (5,)
    assert described(carry) == described(jax.eval_shape(env.reset, jax.random.key(0), params))


def test_the_state_is_small() -> None:
    for level, most in ((1, 1024), (2, 1536)):
        env, params = world(level)
        _, state = jax.eval_shape(env.reset, jax.random.key(0), params)
        assert sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state)) <= most


def test_statistics_of_a_running_episode() -> None:
    env, params = world(1, size=112, window=32, stride=5)
    _, state = jax.jit(env.reset)(jax.random.key(0), params)
    statistics = env.statistics(state, params)
    assert (int(statistics.ending), int(statistics.steps), bool(statistics.correct)) == (
        Ending.RUNNING,
        0,
        False,
    )


# ---- Static and dynamic ---------------------------------------------------------------------------------------


def test_environments_are_hashable_and_params_are_pytrees() -> None:
    env, params = world(1)
    same = dataclasses.replace(env)
    assert (env, hash(env)) == (same, hash(same))
    assert env != dataclasses.replace(env, window=32)
    assert all(isinstance(leaf, jax.Array) and not leaf.weak_type for leaf in jax.tree.leaves(params))
    with pytest.raises(dataclasses.FrozenInstanceError):
        env.window = 3  # type: ignore[misc]

    @functools.partial(jax.jit, static_argnums=0)
    def width(env: Any, params: EnvParams) -> Any:
        return env.width + params.budget

    assert int(width(env, params)) == 224 + 36


def test_values_of_params_change_without_compiling_again() -> None:
    env, params = world(1, size=112, window=32, stride=5)
    traces = 0

    def step(key: jax.Array, state: Any, action: jax.Array, params: EnvParams) -> Any:
        nonlocal traces
        traces += 1
        return env.step(key, state, action, params)

    key = jax.random.key(0)
    program = jax.jit(step)
    _, state = jax.jit(env.reset)(key, params)
    for budget, reward in ((1, -1.0), (2, 0.25), (40, 3.0)):
        changed = dataclasses.replace(
            world(1, size=112, window=32, stride=5, budget=budget, move_reward=reward)[1],
            start_xy=jnp.asarray([budget, 1], jnp.int32),
        )
        _, _, got, _, truncated, _ = program(key, state, jnp.int32(Kind.UP), changed)
        assert (float(got), bool(truncated)) == (reward, budget == 1)
        # The outputs of a step go back in.
        state = program(key, state, jnp.int32(Kind.DOWN), changed)[1]
    assert traces == 1
    assert program._cache_size() == 1


def test_no_key_is_used_twice() -> None:
    env, params = world(1, size=112, window=32, stride=5)

    def episode(key: jax.Array, params: EnvParams) -> Any:
        first, rest = jax.random.split(key)
        _, state = env.reset(first, params)

        def turn(state: Any, key: jax.Array) -> Any:
            return env.step(key, state, jnp.int32(Kind.UP), params)[1], ()

        return jax.lax.scan(turn, state, jax.random.split(rest, 3))[0]

    with jax.debug_key_reuse(True):
        jax.block_until_ready(jax.jit(episode)(jax.random.key(0), params))
        keys = jax.random.split(jax.random.key(0), 4)
        jax.block_until_ready(jax.jit(jax.vmap(episode, (0, None)))(keys, params))
        draws = jax.jit(lambda key: env.draw_start(key, jnp.zeros(1, jnp.int32), params))
        jax.block_until_ready(draws(jax.random.key(1)))


def test_legacy_keys_work_too() -> None:
    env, params = world(1, size=112, window=32, stride=5)
    new, old = (jax.jit(env.reset)(key, params) for key in (jax.random.key(3), jax.random.PRNGKey(3)))
    assert_trees_equal(new, old)


# ---- 64-bit mode ----------------------------------------------------------------------------------------------


def fingerprint() -> dict[str, Any]:
    """Every leaf's shape and dtype in half of ``WORLDS``, and a digest of all bits of a few episodes of pairs."""
    key, leaves = jax.random.key(0), []
    for level, overrides in WORLDS[::2]:
        env, params = world(level, **overrides)
        reset = jax.eval_shape(env.reset, key, params)
        stepped = jax.eval_shape(env.step, key, reset[1], an_action(level), params)
        leaves += [f"{leaf.dtype}{leaf.shape}" for leaf in jax.tree.leaves((params, reset, stepped))]

    env, params = world(2, window=32, stride=5)

    def play(key: jax.Array, params: EnvParams) -> Any:
        first, second, rest = jax.random.split(key, 3)
        actions = jax.random.randint(second, (40,), 0, 12, jnp.int32)

        def turn(state: Any, inputs: Any) -> Any:
            observation, state, *outcome = env.step(inputs[0], state, inputs[1], params)
            return state, (observation, state, outcome)

        return jax.lax.scan(turn, env.reset(first, params)[1], (jax.random.split(rest, 40), actions))

    result = jax.jit(jax.vmap(play, (0, None)))(jax.random.split(jax.random.key(5), 8), params)
    octets = b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(result))
    return {"leaves": leaves, "digest": hashlib.sha256(octets).hexdigest()}


def run_python(code: str, **environment: str) -> str:
    """The standard output of a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_64_bit_mode_changes_nothing() -> None:
    """Every dtype, and the bits of whole episodes, are the same with JAX_ENABLE_X64."""
    code = "import jax, json; from tests.env.test_contract import fingerprint; print(jax.config.jax_enable_x64); "
    wide = run_python(code + "print(json.dumps(fingerprint()))", JAX_ENABLE_X64="1").splitlines()
    assert wide[-2] == "True"
    assert json.loads(wide[-1]) == fingerprint()
    assert "64[" not in wide[-1].replace("(", "[")


# ---- Imports --------------------------------------------------------------------------------------------------

_IMPORT = """
import json, sys, time
import jax, jax.numpy
before = set(sys.modules)
began = time.process_time()
import mnistpro_jax
for name in {modules!r}:
    __import__("mnistpro_jax." + name)
seconds = time.process_time() - began
from jax._src import xla_bridge
print(json.dumps({{
    "seconds": seconds,
    "backends": xla_bridge.backends_are_initialized(),
    "new": sorted(set(sys.modules) - before),
}}))
"""
HEAVY = {"PIL", "flax", "optax", "tensorflow", "tensorflow_datasets", "gymnax", "matplotlib", "scipy"}
MODULES = ["registration", "types"] + [
    f"{room}.{path.stem}"
    for room in ("data", "env", "worlds")
    for path in sorted((ROOT / "mnistpro_jax" / room).glob("[!_]*.py"))
]


@pytest.mark.parametrize("modules", [[], MODULES], ids=["package", "modules"])
def test_importing_does_no_work(modules: list[str]) -> None:
    report = json.loads(run_python(_IMPORT.format(modules=modules)))
    assert not report["backends"]
    assert not HEAVY & {name.partition(".")[0] for name in report["new"]}
    assert report["seconds"] < (0.1 if not modules else 1.0)
    if not modules:
        ours = {name for name in report["new"] if name.startswith("mnistpro_jax")}
        assert ours == {"mnistpro_jax"}


def test_the_package_lists_what_it_offers() -> None:
    import mnistpro_jax

    missing = [name for name in mnistpro_jax.__all__ if not hasattr(mnistpro_jax, name)]
    assert missing == []
    assert set(mnistpro_jax.__all__) <= set(dir(mnistpro_jax))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        mnistpro_jax.nonsense  # noqa: B018
