"""The lattice of lines on which every window edge of an episode lies, along one axis.

A window moves by the stride s and is clamped at the borders, so each of its corners lies at a position that
is congruent (mod s) to the episode's start, to 0 (the near border) or to W - w (the far border). Window edges
therefore lie on a few residues mod s, and between two neighbouring lines an episode has seen either all
pixels or none: the axis falls into *cells*. Positions and cells convert both ways with a few comparisons;
nothing is sorted or stored per episode.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp


def div_rem(value: jax.Array, divisor: int) -> tuple[jax.Array, jax.Array]:
    """Quotient and remainder of int32 ``value`` >= 0 by a constant."""
    # Python's operators round towards minus infinity, which costs a dozen operations a pair.
    if divisor & (divisor - 1) == 0:
        shift = jnp.int32(divisor.bit_length() - 1)
        return jax.lax.shift_right_logical(value, jnp.full_like(value, shift)), value & jnp.int32(divisor - 1)
    constant = jnp.full_like(value, divisor)
    return jax.lax.div(value, constant), jax.lax.rem(value, constant)


@dataclasses.dataclass(frozen=True)
class Axis:
    """Static description of one axis.

    length: canvas pixels. window: window pixels. stride: pixels per move. low, high: pixels at the near and
    far end of the window that do not count (the outline's ring; 0, 0 for the whole window).
    """

    length: int
    window: int
    stride: int
    low: int = 0
    high: int = 0

    @property
    def _residues(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(residues that are the same in every episode, offsets from the start of those that are not)."""
        offsets = {self.low % self.stride, (self.window - self.high) % self.stride}
        corners = {0, (self.length - self.window) % self.stride}
        fixed = {(corner + offset) % self.stride for corner in corners for offset in offsets}
        if len(fixed) + len(offsets) >= self.stride:
            return tuple(range(self.stride)), ()
        return tuple(sorted(fixed)), tuple(sorted(offsets))

    @property
    def lines_per_stride(self) -> int:
        """Lines within each stretch of ``stride`` pixels."""
        fixed, moving = self._residues
        return len(fixed) + len(moving)

    @property
    def starts_at_zero(self) -> bool:
        """Whether a line lies at position 0 in every episode."""
        return 0 in self._residues[0]

    @property
    def _first(self) -> int:
        """Cells are counted from the first line on, or from position 0 if that is no line."""
        return int(self.starts_at_zero)

    @property
    def window_cells(self) -> int:
        """Upper bound on the cells inside one window."""
        return self.lines_per_stride * -(-(self.window - self.low - self.high) // self.stride)

    @property
    def num_cells(self) -> int:
        """Cells of the axis, with room for ``window_cells`` of them after any window's first cell."""
        last_corner = self.length - self.window + self.low
        room = self.lines_per_stride * (last_corner // self.stride + 1) - self._first + self.window_cells
        return max(self.lines_per_stride * -(-self.length // self.stride) + 1 - self._first, room)

    def lines(self, start: jax.Array) -> list[jax.Array]:
        """The residues of the episode's lines, ascending, as ``lines_per_stride`` int32 scalars."""
        fixed, moving = self._residues
        residues = [jnp.full_like(start, residue) for residue in fixed]
        residues += [div_rem(start + offset, self.stride)[1] for offset in moving]
        if not moving:
            return residues
        # Each residue's rank, ties broken by order, then the residue of each rank.
        ranks = [
            _total([(other < r) | ((other == r) & (j < i)) for j, other in enumerate(residues) if j != i])
            for i, r in enumerate(residues)
        ]
        ordered = []
        for wanted in range(len(residues)):
            line = residues[-1]
            for rank, residue in zip(ranks[:-1], residues[:-1], strict=True):
                line = jnp.where(rank == wanted, residue, line)
            ordered.append(line)
        return ordered

    def cell(self, position: jax.Array, lines: list[jax.Array]) -> jax.Array:
        """Number of the cell that holds pixel ``position``."""
        block, residue = div_rem(position, self.stride)
        passed = _total([(line <= residue).astype(jnp.int32) for line in lines])
        return len(lines) * block + passed - self._first

    def borders(self, first: jax.Array, count: int, lines: list[jax.Array]) -> list[jax.Array]:
        """Positions at which the cells first, first + 1, ... begin: ``count`` int32 scalars."""
        pitch = len(lines)
        borders = []
        for k in range(min(count, pitch)):
            # One pitch is added to keep the number from being negative.
            block, phase = div_rem(first + (k + self._first - 1 + pitch), pitch)
            line = lines[-1]
            for r, candidate in enumerate(lines[:-1]):
                line = jnp.where(phase == r, candidate, line)
            borders.append(self.stride * (block - 1) + line)
        # The lines repeat with the stride.
        for k in range(pitch, count):
            borders.append(borders[k - pitch] + self.stride)
        return borders


def _total(terms: list[jax.Array]) -> jax.Array:
    return functools.reduce(jnp.add, [term.astype(jnp.int32) for term in terms])
