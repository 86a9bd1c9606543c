"""What an episode saw, counted again, is what the slow reference counted."""

from __future__ import annotations

import pytest

from mnistpro_jax.render.seen import coverage_along
from mnistpro_jax.runs.recount import counted
from tests.runs import played


def test_recount_is_the_slow_reference() -> None:
    for world in played.references():
        found = counted(world.canvas, world.windows, 64, 2)
        seen, total = world.stroke_seen, world.stroke_total
        assert found["revisits"] == world.revisits
        assert found["stroke_coverage"] == sum(seen) / sum(total)
        assert found["digit_stroke_coverage"] == [a / b for a, b in zip(seen, total, strict=True)]
        assert found["stroke_coverage_readable"] == sum(world.stroke_seen_readable) / sum(total)
        assert found["area_coverage"] == world.area_seen / world.canvas.size
        assert found["area_coverage_readable"] == world.area_seen_readable / world.canvas.size
        along = coverage_along(world.canvas, world.windows, 64)
        assert along[-1] == pytest.approx(found["stroke_coverage"]) and along == sorted(along)
