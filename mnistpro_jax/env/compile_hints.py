"""Ways to make XLA's CPU compiler keep work where it belongs. Results are the same with and without them.

XLA on the CPU fuses the computation of a few scalars per episode into the loops over the pixels that use them,
and then computes them again for every pixel; and it knows no conditional under ``vmap``, so that what only the
ended episodes of a batch need is computed for all. Both cost more than the simulation itself. Other platforms
get the plain form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.sharding import AxisType

T = TypeVar("T")

_WORD = 32


def materialised(compute: Callable[[], T], one: jax.Array) -> T:
    """``compute()``, with its results in memory before anything uses them.

    one: int32 (), a positive number that the compiler cannot know to be one.
    """

    if not on_cpu():
        return compute()
    # A conditional is what XLA neither fuses into its users nor takes apart, if it cannot know the condition. (A loop
    # of one round does the same, but copies all that it carries.)
    traced = jax.jit(compute)  # once for the shapes and for the branch
    shapes = jax.eval_shape(traced)
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    filled: T = jax.lax.cond(one > 0, traced, lambda: empty)
    return filled


def where_needed(
    needed: jax.Array,
    compute: Callable[..., T],
    arguments: Any,
    otherwise: T,
    shared: Any,
) -> T:
    """``compute(arguments, shared)`` where ``needed`` (bool ()), else ``otherwise`` (same tree).

    Under ``vmap`` on a CPU, the episodes that need it are gathered into small batches and only those are
    computed, so that the cost is that of the episodes that need it. ``shared`` is not batched.
    """

    # Keys travel as their bits: a lane is visited once, which JAX's check of key reuse cannot see in here.
    def computed(bits: Any, shared: Any) -> T:
        return compute(jax.tree.map(_key_of, bits, arguments), shared)

    def select(needed: jax.Array, bits: Any, otherwise: T, shared: Any) -> T:
        selected: T = jax.tree.map(
            lambda new, old: jnp.where(needed, new, old), computed(bits, shared), otherwise
        )
        return selected

    def choose(needed: jax.Array, bits: Any, otherwise: T, shared: Any) -> T:
        chosen: T = jax.lax.cond(needed, lambda: computed(bits, shared), lambda: otherwise)
        return chosen

    by_lane = custom_vmap(choose)
    # A function with a batching rule has no reverse mode of its own.
    differentiable = jax.custom_jvp(by_lane)
    differentiable.defjvp(lambda primals, tangents: jax.jvp(choose, primals, tangents))

    @by_lane.def_vmap
    def choose_batch(
        size: int, batched: Any, needed: jax.Array, bits: Any, otherwise: T, shared: Any
    ) -> tuple[T, Any]:
        needed_batched, bits_batched, otherwise_batched, shared_batched = batched
        axes = [jax.tree.map(lambda b: 0 if b else None, part) for part in batched]

        def every() -> T:
            batched_select = jax.vmap(select, in_axes=tuple(axes), axis_size=size)
            selected: T = batched_select(needed, bits, otherwise, shared)
            return selected

        no_lanes = not isinstance(size, int) or not needed_batched or any(jax.tree.leaves(shared_batched))
        if no_lanes or not on_cpu() or _partitioned():
            # A batch of any size (an exported program), one decision for all, nothing shared (params swept by vmap), no
            # CPU, or lanes that XLA divides over devices, between which gathering would move them: the plain form.
            return every(), jax.tree.map(lambda _: True, otherwise)

        def compact() -> T:
            def spread(value: jax.Array, is_batched: bool) -> jax.Array:
                return value if is_batched else jnp.broadcast_to(value, (size, *value.shape))

            full_bits = jax.tree.map(spread, bits, bits_batched)
            result = jax.tree.map(spread, otherwise, otherwise_batched)
            chunk = max(1, min(size, 8 if size <= 64 else size // 32))
            order, count = _positions(needed)

            def body(carry: tuple[jax.Array, T]) -> tuple[jax.Array, T]:
                start, result = carry
                # The last batch reaches back over lanes that were done before: the same values again.
                first = jnp.maximum(jnp.minimum(start, count - chunk), 0)
                lanes = jax.lax.dynamic_slice_in_dim(order, first, chunk)
                part = jax.tree.map(lambda leaf: leaf[jnp.minimum(lanes, size - 1)], full_bits)
                new = jax.vmap(computed, in_axes=(0, None))(part, shared)
                result = jax.tree.map(
                    lambda old, new: old.at[lanes].set(new, mode="drop", unique_indices=True),
                    result,
                    new,
                )
                return start + chunk, result

            zero = jnp.zeros((), jnp.int32)
            filled: T = jax.lax.while_loop(lambda carry: carry[0] < count, body, (zero, result))[1]
            return filled

        return compact(), jax.tree.map(lambda _: True, otherwise)

    chosen: T = differentiable(needed, jax.tree.map(_key_bits, arguments), otherwise, shared)
    return chosen


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _key_bits(leaf: jax.Array) -> jax.Array:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _key_of(bits: jax.Array, like: jax.Array) -> jax.Array:
    return jax.random.wrap_key_data(bits, impl=jax.random.key_impl(like)) if _is_key(like) else bits


def on_cpu() -> bool:
    """Whether programs traced now are for a CPU. A wrong guess costs speed, nothing else."""
    # jax.lax.platform_dependent would know better, but traces every branch: twice the time to the first step.
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend() == "cpu"
    return (device if isinstance(device, str) else device.platform) == "cpu"


def _partitioned() -> bool:
    """Whether XLA divides programs traced now over several devices by itself (not so within ``shard_map``)."""
    mesh = jax.sharding.get_abstract_mesh()
    return any(kind == AxisType.Auto for kind in mesh.axis_types) and mesh.size > 1


def _positions(flags: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Indices of the set flags in ascending order, then unused entries that are out of range: int32 (N,); and how many
    are set, int32 ()."""
    size = flags.shape[0]
    # Running counts in two levels, of the words that hold the flags and within each: XLA makes a tree of a dozen
    # operations of a cumulative sum.
    words = -(-size // _WORD)
    bits = jnp.pad(flags, (0, words * _WORD - size)).reshape(words, _WORD).astype(jnp.uint32)
    bit = jnp.arange(_WORD, dtype=jnp.uint32)[None, :]
    packed = jnp.sum(bits << bit, axis=1, dtype=jnp.uint32)
    earlier = np.tri(words, k=-1, dtype=np.bool_)
    each = jax.lax.population_count(packed)
    before = jnp.sum(jnp.where(earlier, each[None, :], jnp.uint32(0)), axis=1, dtype=jnp.uint32)
    below = (jnp.uint32(1) << bit) - jnp.uint32(1)
    place = before[:, None] + jax.lax.population_count(packed[:, None] & below)
    place = place.reshape(-1)[:size].astype(jnp.int32)
    lanes = jnp.arange(size, dtype=jnp.int32)
    # Distinct out-of-range entries keep the promise of unique indices.
    order = (size + lanes).at[jnp.where(flags, place, size)].set(lanes, mode="drop", unique_indices=True)
    return order, (before[-1] + each[-1]).astype(jnp.int32)
