"""Eight devices give the results of one. All checks run in one process, since a process has its devices for life."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mnistpro_jax.rollouts.sharding import parts_of
from tests.evaluation.processes import finish, start
from tests.rollouts.eight_devices import CHECKS


@pytest.fixture(scope="module")
def faults() -> dict[str, str]:
    """By check: a traceback, or nothing."""
    code, output, errors = finish(start("-m", "tests.rollouts.eight_devices", devices=8))
    assert code == 0, errors
    lines = [json.loads(line) for line in output.splitlines()]
    return {line["check"]: line["fault"] for line in lines}


@pytest.mark.parametrize("check", [check.__name__ for check in CHECKS])
def test_on_eight_devices(faults: dict[str, str], check: str) -> None:
    assert faults[check] == "", faults[check]


@pytest.mark.parametrize(("count", "devices"), [(0, 3), (2, 8), (16, 8), (50, 8), (7, 1)])
def test_parts_cover_all_once(count: int, devices: int) -> None:
    firsts, sizes = parts_of(count, devices)
    assert firsts.dtype == sizes.dtype == np.int32
    covered = [item for first, size in zip(firsts, sizes, strict=True) for item in range(first, first + size)]
    assert covered == list(range(count))
    assert sizes.max() - sizes.min() <= 1
