"""What every policy shares: the ``Policy`` protocol, the world's geometry, moves towards a target window."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol, TypeVar

import jax
import jax.numpy as jnp

from mnistpro_jax.env.outline import READABLE_HIGH, READABLE_LOW
from mnistpro_jax.env.types import Action, Kind, Observation, pytree, static_field

if TYPE_CHECKING:
    from mnistpro_jax.env.environment import Environment

CarryT = TypeVar("CarryT")


class Policy(Protocol[CarryT]):
    """A pure agent: a pytree whose array leaves are its parameters, so that it passes through ``jit``.

    Both methods are written for one episode; a rollout maps them over a batch.
    """

    @property
    def observation(self) -> str:
        """The observation mode that ``act`` reads (static), e.g. "canvas"."""

    def init(self, key: jax.Array) -> CarryT:
        """The memory at the start of an episode, a pytree (``()`` where there is none)."""

    def act(self, key: jax.Array, observation: Observation, carry: CarryT) -> tuple[Action, CarryT]:
        """The next action, and the memory to pass on."""


@dataclasses.dataclass(frozen=True)
class Geometry:
    """The static facts of a world that a planning agent needs (hashable).

    height, width: canvas, pixels. window, stride: pixels. num_digits: equal parts of the width.
    native_factor: canvas pixels per native pixel. outline: whether the outline hides the window's outer
    pixels from the agent. Raises ValueError where these do not fit together.
    """

    height: int = 224
    width: int = 224
    window: int = 64
    stride: int = 32
    num_digits: int = 1
    native_factor: int = 8
    outline: bool = True

    def __post_init__(self) -> None:
        smallest = READABLE_LOW + READABLE_HIGH + 1 if self.outline else 1
        if not smallest <= self.window <= min(self.height, self.width):
            raise ValueError(
                f"window is {self.window}; expected {smallest} to {min(self.height, self.width)} pixels"
            )
        if self.stride < 1 or self.num_digits < 1 or self.native_factor < 1:
            raise ValueError(
                f"stride is {self.stride}, num_digits {self.num_digits}, native_factor {self.native_factor}; "
                "expected 1 or more"
            )
        part = self.native_factor * self.num_digits
        if self.height % self.native_factor or self.width % part:
            raise ValueError(
                f"a canvas of {self.height} x {self.width} pixels is not {self.num_digits} digit(s) of whole "
                f"native pixels of {self.native_factor}; use a canvas whose sides are multiples of it"
            )

    @classmethod
    def of(cls, env: Environment) -> Geometry:
        """The geometry of an environment."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: getattr(env, name) for name in names})

    @property
    def native_height(self) -> int:
        """Native pixels of the canvas, top to bottom."""
        return self.height // self.native_factor

    @property
    def native_width(self) -> int:
        """Native pixels of one digit, left to right."""
        return self.width // self.native_factor // self.num_digits

    @property
    def limit_x(self) -> int:
        """The largest x of a window's corner."""
        return self.width - self.window

    @property
    def limit_y(self) -> int:
        """The largest y of a window's corner."""
        return self.height - self.window

    @property
    def budget(self) -> int:
        """The published number of steps: the window positions on the stride's grid."""
        return (self.limit_x // self.stride + 1) * (self.limit_y // self.stride + 1)

    def move(self, xy: jax.Array, direction: jax.Array) -> jax.Array:
        """Where a move leads, int32 (2,): a stride in the direction 0..3, clamped into the canvas."""
        right = (direction == Kind.RIGHT).astype(jnp.int32) - (direction == Kind.LEFT).astype(jnp.int32)
        down = (direction == Kind.DOWN).astype(jnp.int32) - (direction == Kind.UP).astype(jnp.int32)
        x = jnp.clip(xy[0] + self.stride * right, 0, self.limit_x)
        y = jnp.clip(xy[1] + self.stride * down, 0, self.limit_y)
        return jnp.stack([x, y]).astype(jnp.int32)

    def useful_moves(self, xy: jax.Array) -> jax.Array:
        """The moves that change the window, bool (4,); all where none does."""
        ends = jax.vmap(self.move, in_axes=(None, 0))(xy, jnp.arange(4, dtype=jnp.int32))
        useful = jnp.any(ends != xy[None, :], axis=-1)
        return useful | ~jnp.any(useful)

    def coverage(self, corners: jax.Array, cells: int) -> jax.Array:
        """Share of each native pixel's side that a window shows along one axis.

        corners: int32 (m,). cells: native pixels along the axis. Returns float32 (m, cells), 0..1. The
        outline's ring is not shown where ``outline`` is set.
        """
        return self.shown(corners, cells).astype(jnp.float32) / jnp.float32(self.native_factor)

    def shown(self, corners: jax.Array, cells: int) -> jax.Array:
        """``coverage`` in canvas pixels: int32 (m, cells), 0..native_factor."""
        low, high = (READABLE_LOW, READABLE_HIGH) if self.outline else (0, 0)
        near = jnp.arange(cells, dtype=jnp.int32) * self.native_factor
        begin = jnp.maximum(corners[:, None] + low, near[None, :])
        end = jnp.minimum(corners[:, None] + self.window - high, near[None, :] + self.native_factor)
        return jnp.clip(end - begin, 0, self.native_factor).astype(jnp.int32)


@pytree
class Candidates:
    """All windows that clamped moves reach from a corner, as the product of two axes.

    moves_x: int32 (X,), moves_y: int32 (Y,): strides to go, negative = left or up. distance: int32 (Y, X),
    moves needed. valid: bool (Y, X): neither the current window nor a farther copy of another candidate.
    rows: int32 (Y, native height), columns: int32 (X, n, native width): canvas pixels of the native pixels' sides that
    each window shows, 0..factor; a window shows their outer product. factor: static, canvas pixels per native pixel.
    """

    moves_x: jax.Array
    moves_y: jax.Array
    distance: jax.Array
    valid: jax.Array
    rows: jax.Array
    columns: jax.Array
    factor: int = static_field(default=8)

    def shown(self, weights: jax.Array) -> jax.Array:
        """Sum of the weights that each window shows: float32 (n, native height, native width) -> (Y, X)."""
        rows, columns = (
            pixels.astype(jnp.float32) / jnp.float32(self.factor) for pixels in (self.rows, self.columns)
        )
        return jnp.einsum("yr,nrc,xnc->yx", rows, weights, columns)


def candidates(geometry: Geometry, xy: jax.Array) -> Candidates:
    """The windows that can be reached from the corner ``xy``, int32 (2,), and what they show.

    The lattice is that of the current phase plus both borders (7 positions along 224 pixels as published).
    """
    x, moves_x, new_x = _axis(xy[0], geometry.limit_x, geometry.stride)
    y, moves_y, new_y = _axis(xy[1], geometry.limit_y, geometry.stride)
    distance = jnp.abs(moves_y)[:, None] + jnp.abs(moves_x)[None, :]
    columns = geometry.shown(x, geometry.num_digits * geometry.native_width)
    return Candidates(
        moves_x=moves_x,
        moves_y=moves_y,
        distance=distance,
        valid=new_y[:, None] & new_x[None, :] & (distance > 0),
        rows=geometry.shown(y, geometry.native_height),
        columns=columns.reshape(-1, geometry.num_digits, geometry.native_width),
        factor=geometry.native_factor,
    )


def _axis(position: jax.Array, limit: int, stride: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(corners, moves, whether each corner is a new one) along one axis, int32 (m,) twice and bool (m,)."""
    count = -(-limit // stride) + 2  # both borders and every step between, whatever the phase
    before = (position + (stride - 1)) // stride  # moves to the near border
    moves = jnp.arange(count, dtype=jnp.int32) - before.astype(jnp.int32)
    corners = jnp.clip(position + stride * moves, 0, limit).astype(jnp.int32)
    nearer = jnp.clip(position + stride * (moves - jnp.sign(moves)), 0, limit)
    return corners, moves, (moves == 0) | (corners != nearer)


def direction_to_best(options: Candidates, values: jax.Array, gains: jax.Array) -> jax.Array:
    """The first move towards the valid candidate of the highest value: int32 (), a direction 0..3.

    values: float32 (Y, X), what is maximised; the first of equals. gains: float32 or int32 (Y, X), what a window
    shows by itself: where the way there may begin along either axis, it begins where more is seen on the first step.
    """
    best = jnp.argmax(jnp.where(options.valid, values, -jnp.inf))
    row, column = best // values.shape[1], best % values.shape[1]
    step_x = jnp.sign(options.moves_x[column])
    step_y = jnp.sign(options.moves_y[row])
    here_x = jnp.argmin(jnp.abs(options.moves_x))
    here_y = jnp.argmin(jnp.abs(options.moves_y))
    least = jnp.min(gains) - 1  # where no step is along an axis; a whole number stays one
    gain_x = jnp.where(step_x != 0, gains[here_y, here_x + step_x], least)
    gain_y = jnp.where(step_y != 0, gains[here_y + step_y, here_x], least)
    horizontal = jnp.where(step_x > 0, Kind.RIGHT, Kind.LEFT)
    vertical = jnp.where(step_y > 0, Kind.DOWN, Kind.UP)
    return jnp.where(gain_x >= gain_y, horizontal, vertical).astype(jnp.int32)
