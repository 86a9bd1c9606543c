"""Which episodes a request means."""

from __future__ import annotations

import numpy as np
import pytest

from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.evaluation.world import draw_indices, world
from mnistpro_jax.worlds.published import published_episodes
from tests.episodes import mnist_test


def test_no_image_comes_twice_before_all_have_come() -> None:
    drawn = draw_indices(50, 1, 120, seed=1)
    assert drawn.shape == (120, 1) and drawn.dtype == np.int32
    for first in (0, 50):
        assert sorted(drawn[first : first + 50, 0]) == list(range(50))
    assert len(set(drawn[100:, 0])) == 20


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_shorter_list_is_the_beginning_of_a_longer_one(level: int) -> None:
    np.testing.assert_array_equal(draw_indices(50, level, 130, 7)[:33], draw_indices(50, level, 33, 7))
    assert not np.array_equal(draw_indices(50, level, 33, 8), draw_indices(50, level, 33, 7))


@pytest.mark.parametrize(("level", "window"), [(1, 64), (2, 64), (1, 128)])
def test_published_episodes_start_where_they_were_published(level: int, window: int) -> None:
    """For every window: the same stroke pixel is in its middle, so that the corner is another one."""
    request = EvaluationRequest(level=level, window=window, stride=window // 2)
    env, bank = world(request, mnist_test())
    published = published_episodes(level, window)
    assert (env.start, env.outline, bank.episodes is not None) == ("published", True, True)
    assert bank.episodes is not None
    np.testing.assert_array_equal(bank.episodes.starts, published.start_xy)
    indices = np.asarray(bank.indices)[np.asarray(bank.episodes.scenes), 0]
    np.testing.assert_array_equal(indices, published.indices)
