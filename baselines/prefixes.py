"""Training pictures for readers: canvases of augmented digits, revealed by a random number of windows.

Exact where it matters: strokes are those of the published canvas (``worlds.pipeline``), and a native cell that a
window shows in part counts only the pixels shown. Everything is made on the device, a batch at a time, so that no
picture is seen twice.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp

from baselines.bounds import NOT_NEGATIVE, SHARE, Range, check_fields
from mnistpro_jax.agents.base import Geometry, candidates, direction_to_best
from mnistpro_jax.env import bitmap, pipeline
from mnistpro_jax.env.outline import READABLE_HIGH, READABLE_LOW
from mnistpro_jax.rollouts.sharding import split_batch


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """Random maps of digits (the largest of each; drawn uniformly, the elastic one normally).

    rotation: radians. shear: ratio. scale: factor around 1. shift: native pixels. elastic: native pixels of a
    6 x 6 grid of displacements. ink: share by which strokes are made bolder or thinner. Raises ValueError for a value
    out of range.
    """

    rotation: float = 0.2
    shear: float = 0.15
    scale: float = 0.13
    shift: float = 1.5
    elastic: float = 0.6
    ink: float = 0.25

    def __post_init__(self) -> None:
        check_fields(
            self,
            rotation=NOT_NEGATIVE,
            shear=NOT_NEGATIVE,
            scale=Range(0, 1, under=True),
            shift=NOT_NEGATIVE,
            elastic=NOT_NEGATIVE,
            ink=SHARE,
        )


def augment(key: jax.Array, image: jax.Array, how: Augmentation) -> jax.Array:
    """A random affine and smooth elastic map of one digit, uint8 (28, 28) -> uint8 (28, 28)."""
    keys = jax.random.split(key, 6)
    size = image.shape[0]

    def draw(key: jax.Array, shape: tuple[int, ...], largest: float) -> jax.Array:
        return jax.random.uniform(key, shape, jnp.float32, -largest, largest)

    angle, shear = draw(keys[0], (), how.rotation), draw(keys[1], (), how.shear)
    scale = jnp.float32(1) + draw(keys[2], (2,), how.scale)
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    turn = jnp.stack([jnp.stack([cos, -sin]), jnp.stack([sin, cos])])
    lean = jnp.stack([jnp.stack([jnp.float32(1), jnp.float32(0)]), jnp.stack([shear, jnp.float32(1)])])
    matrix = (turn @ lean) / scale[:, None]
    waves = how.elastic * jax.random.normal(keys[3], (6, 6, 2), jnp.float32)
    waves = jax.image.resize(waves, (size, size, 2), "cubic")
    axis = jnp.arange(size, dtype=jnp.float32) - jnp.float32((size - 1) / 2)
    grid = jnp.stack(jnp.meshgrid(axis, axis, indexing="ij"), -1)
    at = grid @ matrix.T + jnp.float32((size - 1) / 2) + draw(keys[4], (2,), how.shift) + waves
    moved = jax.scipy.ndimage.map_coordinates(image.astype(jnp.float32), [at[..., 0], at[..., 1]], order=1)
    bolder = jnp.float32(1) + draw(keys[5], (), how.ink)
    return jnp.clip(jnp.round(moved * bolder), 0, 255).astype(jnp.uint8)


def start_corners(key: jax.Array, strokes: jax.Array, geometry: Geometry) -> jax.Array:
    """A window centred on a random stroke pixel, clamped: int32 (2,). strokes: float32 (h, w) per native cell."""
    cell_key, offset_key = jax.random.split(key)
    cell = jax.random.categorical(cell_key, jnp.log(strokes.reshape(-1) + jnp.float32(1e-6)))
    width = strokes.shape[1]
    offset = jax.random.randint(offset_key, (2,), 0, geometry.native_factor, jnp.int32)
    pixel = jnp.stack([cell % width, cell // width]).astype(jnp.int32) * geometry.native_factor + offset
    limit = jnp.asarray([geometry.limit_x, geometry.limit_y], jnp.int32)
    return jnp.clip(pixel - geometry.window // 2, 0, limit)


def revealed_by_walk(
    key: jax.Array,
    start: jax.Array,
    moves: jax.Array,
    informed: jax.Array,
    information: jax.Array,
    longest: int,
    geometry: Geometry,
) -> jax.Array:
    """Pixels seen in a walk, as a bitmap: uint32 (words, height).

    moves: int32 (), how many moves count, at most ``longest``. informed: bool (). Otherwise the walk is random, and
    keeps its direction with probability 0.6. An informed one goes as a planner does that doubts the digits at random
    and changes its mind now and then: to the window that shows most unseen ``information`` (float32 (28, 28), a
    digit's), times noise, discounted by distance; readers are asked about canvases that were explored like this.
    """
    words = bitmap.num_words(geometry.width)
    row = jnp.arange(geometry.height, dtype=jnp.int32)
    low, high = (READABLE_LOW, READABLE_HIGH) if geometry.outline else (0, 0)
    digits = geometry.num_digits
    # Where to go is decided at half the native resolution: four times cheaper.
    coarse = dataclasses.replace(geometry, native_factor=2 * geometry.native_factor)
    height, width = (side // 2 for side in information.shape)
    information = information.reshape(height, 2, width, 2).sum(axis=(1, 3))

    def seen(xy: jax.Array) -> jax.Array:
        columns = bitmap.span(xy[0] + low, xy[0] + geometry.window - high, words)[:, None]
        inside = (row >= xy[1] + low) & (row < xy[1] + geometry.window - high)
        return jnp.where(inside, columns, jnp.uint32(0))

    def hide(unseen: jax.Array, xy: jax.Array) -> jax.Array:
        rows = coarse.coverage(xy[1:], height)[0]
        columns = coarse.coverage(xy[:1], digits * width)[0].reshape(digits, width)
        return jnp.minimum(unseen, 1 - rows[None, :, None] * columns[:, None, :])

    keys = jax.random.split(key, 6)
    turns = jax.random.uniform(keys[0], (longest, 3), jnp.float32)
    doubts = jax.random.uniform(keys[1], (longest, digits), jnp.float32)
    discount = jax.random.uniform(keys[2], (), jnp.float32, 0.45, 0.9)
    shape = candidates(coarse, start).distance.shape
    noise = jnp.exp(0.4 * jax.random.normal(keys[3], shape, jnp.float32))
    direction = jax.random.randint(keys[4], (), 0, 4, jnp.int32)
    doubt = jax.random.uniform(keys[5], (digits,), jnp.float32)

    def step(
        carry: tuple[jax.Array, ...], drawn: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, ...], None]:
        xy, direction, mask, unseen, doubt, number = carry
        turn, new_doubt = drawn
        options = candidates(coarse, xy)
        gains = options.shown(doubt[:, None, None] * information * unseen) * noise
        best = direction_to_best(
            options, gains * discount ** (options.distance - 1).astype(jnp.float32), gains
        )
        direction = jnp.where(turn[0] < 0.6, direction, (turn[1] * 4).astype(jnp.int32))
        direction = jnp.where(informed & (turn[2] < 0.9), best, direction)
        doubt = jnp.where(turn[2] > 0.8, new_doubt, doubt)
        xy = geometry.move(xy, direction)
        mask = mask | jnp.where(number < moves, seen(xy), jnp.uint32(0))
        return (xy, direction, mask, hide(unseen, xy), doubt, number + 1), None

    unseen = hide(jnp.ones((digits, height, width), jnp.float32), start)
    carry = (start, direction, seen(start), unseen, doubt, jnp.zeros((), jnp.int32))
    return jax.lax.scan(step, carry, (turns, doubts))[0][2]


@functools.partial(jax.jit, static_argnames=("batch", "num_digits", "how", "longest"))
def prefixes(
    key: jax.Array,
    images: jax.Array,
    labels: jax.Array,
    information: jax.Array,
    *,
    batch: int,
    num_digits: int = 1,
    how: Augmentation | None = None,
    longest: int = 24,
    whole: float | jax.Array = 0.15,
    informed: float | jax.Array = 0.6,
) -> tuple[jax.Array, jax.Array]:
    """A batch of partly revealed digits: (float32 (batch, 28, 28, 2) shares of stroke and revealed, int32 (batch,)).

    images: uint8 (N, 28, 28), labels: int32 (N,), arguments and not constants. information: float32 (28, 28), of each
    native pixel. batch: digits, a multiple of ``num_digits``. longest: moves a digit; the number of them is drawn so
    that short walks are commoner. whole: share of canvases shown whole. informed: share of informed walks.
    """
    geometry = Geometry(width=224 * num_digits, num_digits=num_digits)
    scenes = batch // num_digits
    pick_key, augment_key, start_key, walk_key, moves_key, whole_key, informed_key = jax.random.split(key, 7)
    chosen = jax.random.randint(pick_key, (batch,), 0, images.shape[0], jnp.int32)
    digits = split_batch(images[chosen])
    if how is not None:
        keys = jax.random.split(augment_key, batch)
        digits = jax.vmap(functools.partial(augment, how=how))(keys, digits)
    words = pipeline.packed_strokes(digits, geometry.native_factor)
    words = words.reshape(scenes, -1, geometry.height)
    native = bitmap.pool(words, geometry.width, geometry.native_factor).astype(jnp.float32)

    starts = jax.vmap(functools.partial(start_corners, geometry=geometry))(
        jax.random.split(start_key, scenes), native
    )
    share = jax.random.uniform(moves_key, (scenes,), jnp.float32) ** 2
    moves = jnp.floor(share * (longest * num_digits + 1)).astype(jnp.int32)
    chooses = jax.random.uniform(informed_key, (scenes,), jnp.float32) < jnp.asarray(informed, jnp.float32)
    walk = functools.partial(revealed_by_walk, longest=longest * num_digits, geometry=geometry)
    mask = jax.vmap(walk, in_axes=(0, 0, 0, 0, None))(
        jax.random.split(walk_key, scenes), starts, moves, chooses, information
    )
    everything = jax.random.uniform(whole_key, (scenes,), jnp.float32) < jnp.asarray(whole, jnp.float32)
    mask = jnp.where(everything[:, None, None], jnp.uint32(0xFFFFFFFF), mask)

    cell = jnp.float32(geometry.native_factor**2)

    def shares(words: jax.Array) -> jax.Array:
        counts = bitmap.pool(words, geometry.width, geometry.native_factor).astype(jnp.float32) / cell
        return counts.reshape(scenes, 28, num_digits, 28).swapaxes(1, 2).reshape(batch, 28, 28)

    return jnp.stack([shares(words & mask), shares(mask)], axis=-1), labels[chosen].astype(jnp.int32)
