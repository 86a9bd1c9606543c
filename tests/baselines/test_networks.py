"""Networks: shapes, sizes, and where gradients go."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from mnistpro_jax.agents.learned.networks import ActorCritic, PatchConv, ReaderNetwork, RecurrentAttention
from mnistpro_jax.env.types import Kind


def _size(params: Any) -> int:
    return sum(leaf.size for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [7, 8])
def test_patch_convolution_is_the_convolution(stride: int, side: int) -> None:
    pictures = np.random.default_rng(0).standard_normal((2, side, side + 3, 3)).astype(np.float32)
    layer = PatchConv(5, stride)
    params = jax.jit(layer.init)(jax.random.key(1), pictures)
    dense = params["params"]["Dense_0"]
    reference = nn.Conv(5, (3, 3), strides=(stride, stride), padding="SAME")
    weights = {"params": {"kernel": dense["kernel"].reshape(3, 3, 3, 5), "bias": dense["bias"]}}
    np.testing.assert_allclose(
        jax.jit(layer.apply)(params, pictures),
        jax.jit(reference.apply)(weights, pictures),
        rtol=1e-4,
        atol=1e-5,
    )


def test_shapes_and_sizes() -> None:
    key = jax.random.key(0)
    reader = ReaderNetwork()
    pictures = jnp.zeros((3, 28, 28, 2), jnp.float32)
    params = jax.eval_shape(reader.init, key, pictures)
    assert jax.eval_shape(reader.apply, params, pictures).shape == (3, 10)
    # Half precision in a file of at most 2 MiB.
    assert _size(params) == 356_522


def test_an_untrained_explorer_prefers_what_the_planner_prefers() -> None:
    actor = ActorCritic()
    seen = jax.random.normal(jax.random.key(1), (50, 30), jnp.float32)
    params = jax.jit(actor.init)(jax.random.key(0), seen)
    outputs: Any = jax.jit(actor.apply)(params, seen)
    logits, value = outputs
    assert (logits.shape, value.shape) == ((50, 4), (50,))
    np.testing.assert_allclose(logits, seen[:, -4:], atol=0.2)


@pytest.fixture(scope="module")
def ram() -> tuple[RecurrentAttention, Any, tuple[jax.Array, ...]]:
    # Unequal sizes: swapped arguments would not fit.
    network = RecurrentAttention(core_size=12, glimpse_hidden=9, location_hidden=5, policy_hidden=7)
    rng = np.random.default_rng(0)
    drawn = [jnp.asarray(rng.standard_normal((6, size)), jnp.float32) for size in (12, 20, 3)]
    inputs = (*drawn, jnp.asarray(np.tile([-1, 1], (6, 1)), jnp.float32))
    return network, jax.jit(network.init)(jax.random.key(0), *inputs), inputs


_apply = jax.jit(lambda network, params, *inputs: network.apply(params, *inputs), static_argnums=0)


def _applied(ram: Any, *inputs: Any) -> tuple[jax.Array, ...]:
    network, params, _ = ram
    outputs: tuple[jax.Array, ...] = _apply(network, params, *inputs)
    return outputs


def _norms(gradient: Any) -> dict[str, float]:
    return {
        name: float(sum(np.abs(leaf).sum() for leaf in jax.tree.leaves(part)))
        for name, part in gradient["params"].items()
    }


def test_recurrent_attention_shapes(ram: Any) -> None:
    memory, answers, moves, baseline = _applied(ram, *ram[2])
    assert (memory.shape, answers.shape, moves.shape, baseline.shape) == ((6, 12), (6, 10), (6, 4), (6,))


def test_reading_trains_core_and_glimpse_network_alone(ram: Any) -> None:
    network, params, inputs = ram
    norms = _norms(jax.jit(jax.grad(lambda p: jnp.sum(network.apply(p, *inputs)[1] ** 2)))(params))
    assert all(norms[name] > 0 for name in ("glimpse_network", "core", "action_network"))
    assert all(
        norms[name] == 0
        for name in ("location_hidden", "location_network", "pull", "baseline_hidden", "baseline")
    )


@pytest.mark.parametrize(
    ("output", "trained"),
    [(2, ("location_hidden", "location_network", "pull")), (3, ("baseline_hidden", "baseline"))],
)
def test_the_policy_trains_its_own_heads_alone(ram: Any, output: int, trained: tuple[str, ...]) -> None:
    network, params, inputs = ram
    slope = jax.grad(lambda p: jnp.sum(jax.nn.softplus(network.apply(p, *inputs)[output]) ** 2))
    norms = _norms(jax.jit(slope)(params))
    assert all((norms[name] > 0) == (name in trained) for name in norms)


def test_the_core_receives_the_location(ram: Any) -> None:
    memory, glimpse, where, beside = ram[2]
    moved, still = (np.asarray(_applied(ram, memory, glimpse, where + by, beside)[0]) for by in (1, 0))
    assert np.abs(moved - still).max() > 1e-3


def test_doubts_beside_pull_the_window(ram: Any) -> None:
    memory, glimpse, where, beside = map(np.asarray, ram[2])
    right, left, sure = (
        np.asarray(_applied(ram, memory, glimpse, where, doubts)[2])
        for doubts in (beside, beside[:, ::-1], np.full_like(beside, -1))
    )
    assert (right[:, Kind.RIGHT] > sure[:, Kind.RIGHT]).all()
    assert (left[:, Kind.LEFT] > sure[:, Kind.LEFT]).all()
