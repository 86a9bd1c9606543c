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
    pictures = jax.random.normal(jax.random.key(0), (2, side, side + 3, 3), jnp.float32)
    layer = PatchConv(5, stride)
    params = layer.init(jax.random.key(1), pictures)
    dense = params["params"]["Dense_0"]
    reference = nn.Conv(5, (3, 3), strides=(stride, stride), padding="SAME")
    weights = {"params": {"kernel": dense["kernel"].reshape(3, 3, 3, 5), "bias": dense["bias"]}}
    np.testing.assert_allclose(
        layer.apply(params, pictures), reference.apply(weights, pictures), rtol=1e-4, atol=1e-5
    )


def test_shapes_and_sizes() -> None:
    key = jax.random.key(0)
    reader = ReaderNetwork()
    params = reader.init(key, jnp.zeros((3, 28, 28, 2), jnp.float32))
    assert reader.apply(params, jnp.zeros((3, 28, 28, 2), jnp.float32)).shape == (3, 10)
    # Half precision in a file of at most 2 MiB.
    assert _size(params) == 356_522


def test_an_untrained_explorer_prefers_what_the_planner_prefers() -> None:
    actor = ActorCritic()
    seen = jax.random.normal(jax.random.key(1), (50, 30), jnp.float32)
    params = actor.init(jax.random.key(0), seen)
    outputs: Any = actor.apply(params, seen)
    logits, value = outputs
    assert (logits.shape, value.shape) == ((50, 4), (50,))
    np.testing.assert_allclose(logits, seen[:, -4:], atol=0.2)


@pytest.fixture(scope="module")
def ram() -> tuple[RecurrentAttention, Any, tuple[jax.Array, ...]]:
    # Unequal sizes: swapped arguments would not fit.
    network = RecurrentAttention(core_size=12, glimpse_hidden=9, location_hidden=5, policy_hidden=7)
    keys = jax.random.split(jax.random.key(0), 4)
    inputs = (
        jax.random.normal(keys[0], (6, 12), jnp.float32),
        jax.random.normal(keys[1], (6, 20), jnp.float32),
        jax.random.normal(keys[2], (6, 3), jnp.float32),
        jnp.tile(jnp.asarray([-1, 1], jnp.float32), (6, 1)),
    )
    return network, network.init(keys[3], *inputs), inputs


def _norms(gradient: Any) -> dict[str, float]:
    return {
        name: float(sum(jnp.abs(leaf).sum() for leaf in jax.tree.leaves(part)))
        for name, part in gradient["params"].items()
    }


def test_recurrent_attention_shapes(ram: Any) -> None:
    network, params, inputs = ram
    memory, answers, moves, baseline = network.apply(params, *inputs)
    assert (memory.shape, answers.shape, moves.shape, baseline.shape) == ((6, 12), (6, 10), (6, 4), (6,))


def test_reading_trains_core_and_glimpse_network_alone(ram: Any) -> None:
    network, params, inputs = ram
    norms = _norms(jax.grad(lambda p: jnp.sum(network.apply(p, *inputs)[1] ** 2))(params))
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
    norms = _norms(
        jax.grad(lambda p: jnp.sum(jax.nn.softplus(network.apply(p, *inputs)[output]) ** 2))(params)
    )
    assert all((norms[name] > 0) == (name in trained) for name in norms)


def test_the_core_receives_the_location(ram: Any) -> None:
    network, params, (memory, glimpse, where, beside) = ram
    moved = network.apply(params, memory, glimpse, where + 1, beside)[0]
    assert float(jnp.abs(moved - network.apply(params, memory, glimpse, where, beside)[0]).max()) > 1e-3


def test_doubts_beside_pull_the_window(ram: Any) -> None:
    network, params, (memory, glimpse, where, beside) = ram
    right = network.apply(params, memory, glimpse, where, beside)[2]
    left = network.apply(params, memory, glimpse, where, beside[:, ::-1])[2]
    sure = network.apply(params, memory, glimpse, where, jnp.full_like(beside, -1))[2]
    assert bool((right[:, Kind.RIGHT] > sure[:, Kind.RIGHT]).all())
    assert bool((left[:, Kind.LEFT] > sure[:, Kind.LEFT]).all())
