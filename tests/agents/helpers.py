"""Observations made by hand, without an environment."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from mnistpro_jax.agents import Geometry
from mnistpro_jax.env.types import FusedCanvas, Kind, Observation


def window_mask(geometry: Geometry, corners: list[tuple[int, int]]) -> NDArray[np.bool_]:
    """Pixels that the windows at ``corners`` reveal, bool (height, width)."""
    mask = np.zeros((geometry.height, geometry.width), bool)
    low, high = (2, 1) if geometry.outline else (0, 0)
    for x, y in corners:
        mask[y + low : y + geometry.window - high, x + low : x + geometry.window - high] = True
    return mask


def native(geometry: Geometry, pixels: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Counts per native pixel of a full-size bool picture."""
    factor = geometry.native_factor
    height, width = pixels.shape
    return pixels.reshape(height // factor, factor, width // factor, factor).sum((1, 3)).astype(np.uint8)


def fused(geometry: Geometry, strokes: NDArray[np.bool_], corners: list[tuple[int, int]]) -> FusedCanvas:
    mask = window_mask(geometry, corners)
    return FusedCanvas(jnp.asarray(native(geometry, mask & strokes)), jnp.asarray(native(geometry, mask)))


def observation(
    view: FusedCanvas | None, xy: tuple[int, int], step: int = 0, budget: int = 36, last: int = Kind.NONE
) -> Observation:
    return Observation(
        view=view,
        xy=jnp.asarray(xy, jnp.int32),
        step=jnp.asarray(step, jnp.int32),
        steps_left=jnp.asarray(budget - step, jnp.int32),
        last_action=jnp.asarray(last, jnp.int32),
    )
