"""Lines and cells of random axes against a list of all line positions."""

from __future__ import annotations

import bisect
import dataclasses

import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mnistpro_jax.env.lattice import Axis, div_rem

LONGEST = 200  # every array has this many entries, so that nothing compiles twice


@dataclasses.dataclass(frozen=True)
class Case:
    axis: Axis
    start: int

    @property
    def corners(self) -> set[int]:
        """Every corner that clamped moves reach from the start."""
        far, stride = self.axis.length - self.axis.window, self.axis.stride
        reached, fresh = set(), {self.start}
        while fresh:
            reached |= fresh
            fresh = {min(max(x + move, 0), far) for x in fresh for move in (-stride, stride)} - reached
        return reached

    @property
    def lines(self) -> list[int]:
        return [int(line) for line in self.axis.lines(jnp.int32(self.start))]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    length = draw(st.integers(1, LONGEST))
    window = draw(st.integers(1, length))
    stride = draw(st.one_of(st.sampled_from([1, 2, 8, 16, 32, 64]), st.integers(1, LONGEST + 10)))
    low, high = draw(st.sampled_from([(0, 0), (2, 1)])) if window >= 4 else (0, 0)
    return Case(Axis(length, window, stride, low, high), draw(st.integers(0, length - window)))


EXAMPLES = settings(max_examples=50, deadline=None)


@EXAMPLES
@given(cases())
def test_every_edge_of_every_window_lies_on_a_line(case: Case) -> None:
    axis, lines = case.axis, case.lines
    assert lines == sorted(lines)
    assert len(lines) == axis.lines_per_stride
    assert all(0 <= line < axis.stride for line in lines)
    for corner in case.corners:
        assert (corner + axis.low) % axis.stride in lines
        assert (corner + axis.window - axis.high) % axis.stride in lines


@EXAMPLES
@given(cases())
def test_cells_are_numbered_from_line_to_line(case: Case) -> None:
    axis, lines = case.axis, case.lines
    cells = np.asarray(axis.cell(jnp.arange(LONGEST + 1, dtype=jnp.int32), axis.lines(jnp.int32(case.start))))
    passed = np.cumsum([lines.count(position % axis.stride) for position in range(LONGEST + 1)])
    np.testing.assert_array_equal(cells - cells[0], passed - passed[0])
    assert cells[0] >= 0
    assert cells[axis.length - 1] < axis.num_cells
    for corner in case.corners:
        inside = cells[corner + axis.low], cells[corner + axis.window - axis.high]
        assert inside[1] - inside[0] <= axis.window_cells
        assert inside[0] + axis.window_cells <= axis.num_cells


@EXAMPLES
@given(cases())
def test_borders_are_where_cells_begin(case: Case) -> None:
    axis = case.axis
    lines = axis.lines(jnp.int32(case.start))
    count = min(axis.window_cells + 1, 24)
    edges = np.array(sorted(case.corners)) + axis.low
    first = axis.cell(jnp.asarray(np.resize(edges, LONGEST), jnp.int32), lines)
    borders = np.broadcast_to(np.stack(axis.borders(first, count, lines), axis=-1), (LONGEST, count))
    known = case.lines
    positions = [block * axis.stride + line for block in range(-1, 2 * LONGEST) for line in known]
    for edge, found in zip(edges.tolist(), borders.tolist(), strict=False):
        at = bisect.bisect_right(positions, edge) - 1
        assert found == positions[at : at + count]
        assert found[0] == edge


def test_the_published_axes_are_small() -> None:
    whole, readable = Axis(224, 64, 32), Axis(224, 64, 32, 2, 1)
    assert (whole.lines_per_stride, whole.window_cells) == (2, 4)
    assert (readable.lines_per_stride, readable.window_cells) == (4, 8)
    assert readable.num_cells <= 32


@EXAMPLES
@given(st.integers(0, 2**31 - 1), st.sampled_from([1, 2, 3, 7, 32, 100, 224]))
def test_div_rem(value: int, divisor: int) -> None:
    quotient, remainder = div_rem(jnp.int32(value), divisor)
    assert (int(quotient), int(remainder)) == divmod(value, divisor)
    assert (quotient.dtype, remainder.dtype) == (jnp.int32, jnp.int32)
