"""Outcomes are the same whether they come from a rollout or from its stored records."""

from __future__ import annotations

import numpy as np
import pytest

from mnistpro_jax.runs.from_rollout import episode_records
from mnistpro_jax.runs.outcomes import Outcomes
from tests.runs import played


def test_outcomes_of_records_are_those_of_statistics() -> None:
    trajectories = played.trajectories()
    direct = Outcomes.of(trajectories.statistics, played.PIXELS)
    stored = Outcomes.of_records(episode_records(trajectories, played.PIXELS))
    for name, column in vars(direct).items():
        np.testing.assert_array_equal(column, getattr(stored, name), err_msg=name)
        assert column.dtype == getattr(stored, name).dtype, name


def test_outcomes_of_nothing_or_of_mixed_levels_are_refused() -> None:
    record = episode_records(played.trajectories(), played.PIXELS)[0]
    with pytest.raises(ValueError, match="no records"):
        Outcomes.of_records([])
    with pytest.raises(ValueError, match="one level.*1, 2"):
        Outcomes.of_records([record, {**record, "level": 1}])
