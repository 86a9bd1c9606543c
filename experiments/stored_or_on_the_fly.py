"""Should the bank store packed canvases, or enlarge the window's rows from 28 x 28 when they are needed?

Stored: 7,168 bytes a digit (430 MB for 60,000), a window is a few words a row. On the fly: 900 bytes a digit
(edges padded), a window is two bilinear passes over some 80 native pixels. Both give the same bits; this
measures crops a second side by side in one process, and prints one line of JSON for each batch size.

    python -m experiments.stored_or_on_the_fly
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax import data
from mnistpro_jax.env import bitmap, pipeline
from mnistpro_jax.env.compile_hints import materialised
from mnistpro_jax.worlds.digits import digit_bank

WINDOW, FACTOR, CELLS = 64, 8, 11  # a window and its neighbours lie in 11 x 11 native pixels


def padded_images(images: np.ndarray) -> jax.Array:
    """uint8 (N, 28, 28) -> inverted uint8 (N, 30, 30) with one clamped pixel around."""
    return jnp.asarray(255 - np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="edge"))


def enlarged_crop(images: jax.Array, scene: jax.Array, xy: jax.Array, one: jax.Array) -> jax.Array:
    """The window at ``xy`` of image ``scene`` from its native pixels: uint32 (2, 64).

    Each pass is kept in memory (``one``: see ``compile_hints.materialised``); fused into one loop it is far slower.
    """
    corner = jnp.minimum(
        xy // FACTOR, pipeline.NATIVE + 2 - CELLS
    )  # in padded cells: one before the window's
    patch = jax.lax.dynamic_slice(images, (scene, corner[1], corner[0]), (1, CELLS, CELLS))[0].astype(
        jnp.int32
    )

    def enlarge(values: jax.Array, start: jax.Array, first: jax.Array) -> jax.Array:
        position = start + jnp.arange(WINDOW, dtype=jnp.int32)
        offset = 2 * (position % FACTOR) + 1 - FACTOR
        here = position // FACTOR + 1 - first
        there = here + jnp.sign(offset)
        far = jnp.abs(offset)
        return (values[..., here] * (2 * FACTOR - far) + values[..., there] * far + FACTOR) >> 4

    wide = materialised(lambda: enlarge(patch, xy[0], corner[0]), one)
    tall = materialised(lambda: enlarge(wide.T, xy[1], corner[1]), one)
    return bitmap.pack(tall.T <= pipeline.THRESHOLD)


def rate(crop: Callable[..., jax.Array], bank: object, count: int, batch: int, repeats: int = 5) -> float:
    """Crops a second of windows that move at random over random scenes; the crops are in the loop's carry."""
    key = jax.random.key(0)
    scene = jax.random.randint(key, (batch,), 0, count, jnp.int32)
    moves = 32 * jax.random.randint(key, (64, batch, 2), -1, 2, jnp.int32)
    xy = jax.random.randint(key, (batch, 2), 0, 161, jnp.int32)

    @functools.partial(jax.jit, static_argnums=4)
    def run(bank: object, scene: jax.Array, xy: jax.Array, one: jax.Array, steps: int) -> jax.Array:
        crops = jax.vmap(crop, in_axes=(None, 0, 0, None))

        def body(step: jax.Array, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            xy = jnp.clip(carry[0] + moves[step % 64], 0, 160)
            return xy, crops(bank, scene, xy, one)

        return jax.lax.fori_loop(0, steps, body, (xy, crops(bank, scene, xy, one)))[1]

    steps = max(4, 100_000 // batch)
    one = jnp.asarray(1, jnp.int32)
    run(bank, scene, xy, one, steps).block_until_ready()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run(bank, scene, xy, one, steps).block_until_ready()
        times.append(time.perf_counter() - began)
    return batch * steps / statistics.median(times)


def main() -> None:
    """Check that both agree, then measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--split", default="test", choices=("train", "test"), help="MNIST split (default: test)"
    )
    parser.add_argument("--batches", nargs="+", type=int, default=[1024, 8192], help="windows side by side")
    args = parser.parse_args()
    dataset = data.load("mnist", args.split)
    bank, images = digit_bank(dataset), padded_images(dataset.images)

    def stored(bank: object, scene: jax.Array, xy: jax.Array, one: jax.Array) -> jax.Array:
        return bank.crop(scene[None], xy, WINDOW)  # type: ignore[attr-defined, no-any-return]

    rng = np.random.default_rng(0)
    scenes = jnp.asarray(rng.integers(0, len(dataset), 2000), jnp.int32)
    corners = jnp.asarray(rng.integers(0, 161, (2000, 2)), jnp.int32)
    crops = [
        jax.jit(jax.vmap(crop, in_axes=(None, 0, 0, None)))(held, scenes, corners, jnp.asarray(1, jnp.int32))
        for crop, held in ((stored, bank), (enlarged_crop, images))
    ]
    if not bool((crops[0] == crops[1]).all()):
        raise AssertionError("stored and enlarged windows differ")
    for batch in args.batches:
        rates = [
            rate(crop, held, len(dataset), batch) for crop, held in ((stored, bank), (enlarged_crop, images))
        ]
        print(
            json.dumps(
                {
                    "batch": batch,
                    "stored_crops_per_s": round(rates[0]),
                    "on_the_fly_crops_per_s": round(rates[1]),
                    "stored_vs_on_the_fly": round(rates[0] / rates[1], 1),
                    "stored_bytes": bank.tiles.nbytes,
                    "on_the_fly_bytes": images.nbytes,
                }
            )
        )


if __name__ == "__main__":
    main()
