"""What an environment promises to every program that uses it: trees, dtypes, purity, imports."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from mnistpro_jax.env import OBSERVATIONS, EnvParams
from mnistpro_jax.types import Action, Ending, Kind
from tests.episodes import assert_trees_equal, quick_jit, world

ROOT = Path(__file__).resolve().parent.parent
MODES = [(level, mode) for level in (1, 2) for mode in OBSERVATIONS] + [(3, "canvas")]


def described(tree: Any) -> Any:
    """The tree with (shape, dtype, weak type) for each leaf."""
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype, leaf.weak_type), tree)


def an_action(digits: int) -> Action:
    return Action(jnp.int32(Kind.RIGHT), jnp.zeros(digits, jnp.int32))


# ---- Trees ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "mode"), MODES)
def test_reset_and_step_return_the_same_trees(level: int, mode: str) -> None:
    env, params = world(level, observation=mode)
    key, scene = jax.random.key(0), jnp.zeros(level, jnp.int32)
    observation, state = jax.eval_shape(env.reset, key, params)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves((observation, state)))
    assert described(jax.eval_shape(env.reset_env, key, params)) == described((observation, state))
    again = jax.eval_shape(env.reset_to, scene, jnp.zeros(2, jnp.int32), params)
    assert described(again) == described((observation, state))
    statistics = jax.eval_shape(env.statistics, state, params)
    outcomes = [
        jax.eval_shape(method, key, state, an_action(level), params) for method in (env.step, env.step_env)
    ]
    for shown, after, reward, terminated, truncated, info in outcomes:
        assert described(shown) == described(observation)
        assert described(after) == described(state)
        assert described((reward, terminated, truncated)) == (
            ((), jnp.float32, False), ((), jnp.bool_, False), ((), jnp.bool_, False)
        )  # fmt: skip
        assert set(info) == {"final_observation", "statistics"}
        assert described(info["final_observation"]) == described(observation)
        assert described(info["statistics"]) == described(statistics)
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(outcomes))


def test_trees_keep_their_structure_under_tree_map() -> None:
    env, params = world(2, observation="canvas")
    result = jax.eval_shape(env.step, jax.random.key(0), *_start(env, params), params)
    assert jax.tree.structure(result) == jax.tree.structure(jax.tree.map(lambda leaf: leaf, result))


def _start(env: Any, params: EnvParams) -> tuple[Any, Action]:
    return jax.eval_shape(env.reset, jax.random.key(0), params)[1], an_action(env.num_digits)


def test_reset_and_step_meet_in_scan_and_cond() -> None:
    """Traced only: a carry or a branch of another type would be refused."""
    env, params = world(2, observation="canvas_full")

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
    env, params = world(1, size=112, window=32)
    _, state = quick_jit(env.reset)(jax.random.key(0), params)
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
    env, params = world(1, size=112, window=32, stride=32)
    traces = 0

    def step(key: jax.Array, state: Any, action: jax.Array, params: EnvParams) -> Any:
        nonlocal traces
        traces += 1
        return env.step(key, state, action, params)

    key = jax.random.key(0)
    program = quick_jit(step)
    _, state = quick_jit(env.reset)(key, params)
    for budget, reward in ((1, -1.0), (2, 0.25), (40, 3.0)):
        changed = dataclasses.replace(
            world(1, size=112, window=32, stride=32, budget=budget, move_reward=reward)[1],
            start_xy=jnp.asarray([budget, 1], jnp.int32),
        )
        _, _, got, _, truncated, _ = program(key, state, jnp.int32(Kind.UP), changed)
        assert (float(got), bool(truncated)) == (reward, budget == 1)
        # The outputs of a step go back in.
        state = program(key, state, jnp.int32(Kind.DOWN), changed)[1]
    assert traces == 1
    assert program._cache_size() == 1


def test_no_key_is_used_twice() -> None:
    env, params = world(1, size=112, window=32, stride=32)

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
    env, params = world(1, size=112, window=32, stride=32)
    new, old = (quick_jit(env.reset)(key, params) for key in (jax.random.key(3), jax.random.PRNGKey(3)))
    assert_trees_equal(new, old)


# ---- 64-bit mode ----------------------------------------------------------------------------------------------

_PROBE = """
import json, sys, hashlib
import numpy as np
import jax, jax.numpy as jnp
from tests.test_contract import MODES, an_action, described
from tests.episodes import world, quick_jit

described_trees = []
for level, mode in MODES:
    env, params = world(level, observation=mode)
    key = jax.random.key(0)
    _, state = jax.eval_shape(env.reset, key, params)
    trees = [jax.eval_shape(env.reset, key, params)]
    for action in [an_action(level)] + ([jnp.asarray(1)] if level <= 2 else []):
        trees += [jax.eval_shape(method, key, state, action, params) for method in (env.step, env.step_env)]
    leaves = jax.tree.leaves(
        described((params, trees)),
        is_leaf=lambda x: isinstance(x, tuple) and len(x) == 3 and isinstance(x[2], bool),
    )
    described_trees.append([str(leaf) for leaf in leaves])

env, params = world(2, stride=64)

def play(key, params):
    first, rest = jax.random.split(key)
    actions = jax.random.randint(first, (40,), 0, 12, jnp.int32)
    _, state = env.reset(first, params)
    def turn(state, inputs):
        observation, state, reward, terminated, truncated, info = env.step(inputs[0], state, inputs[1], params)
        return state, (observation, reward, terminated, truncated, info)
    return jax.lax.scan(turn, state, (jax.random.split(rest, 40), actions))

result = quick_jit(jax.vmap(play, (0, None)))(jax.random.split(jax.random.key(5), 8), params)
digest = hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(result))).hexdigest()
print(json.dumps({"x64": bool(jax.config.jax_enable_x64), "trees": described_trees, "digest": digest}))
"""


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
    plain, wide = (
        json.loads(run_python(_PROBE, JAX_ENABLE_X64=flag).splitlines()[-1]) for flag in ("0", "1")
    )
    assert (plain.pop("x64"), wide.pop("x64")) == (False, True)
    assert plain == wide
    assert "int64" not in str(wide)
    assert "float64" not in str(wide)


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
MODULES = ["env", "registration", "types", "spaces", "reveal", "bitmap", "picture", "worlds.bank", "worlds.digits",
           "worlds.published", "data"]  # fmt: skip


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
