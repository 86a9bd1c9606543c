"""Shares and means of episodes, each with its interval."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mnistpro_jax.analysis.sheet import Estimate
from mnistpro_jax.runs.intervals import bootstrap_mean, wilson


def proportion(flags: npt.ArrayLike) -> Estimate:
    """A share of true values with its Wilson interval."""
    values = np.asarray(flags, bool)
    if not values.size:
        return Estimate(None, None, None)
    return Estimate(float(values.mean()), *wilson(int(values.sum()), values.size))


def mean(values: npt.ArrayLike) -> Estimate:
    """A mean over episodes with its bootstrap interval."""
    sample = np.asarray(values, np.float64)
    if not sample.size:
        return Estimate(None, None, None)
    return Estimate(float(sample.mean()), *bootstrap_mean(sample))
