"""Which runs are tested against each other."""

from __future__ import annotations

from pathlib import Path

from mnistpro_jax.analysis.comparisons import pairs_to_test
from mnistpro_jax.runs.load import load_runs
from tests.runs import stored


def test_many_runs_are_compared_where_one_setting_differs(tmp_path: Path) -> None:
    for memory in ("textual", "grid-map"):
        for horizon in (1, 4, -1):
            for model in ("openai:a", "openai:b"):
                name = f"{memory} {horizon} {model[-1]}"
                stored.host_folder(tmp_path / name, memory=memory, horizon=horizon, model=model)
    pairs = pairs_to_test(load_runs([tmp_path]))
    for first, second in pairs:
        names = ("memory", "horizon", "model")
        assert sum(getattr(first.setting, name) != getattr(second.setting, name) for name in names) == 1
    # Each run has one partner by memory, two by horizon, one by model.
    assert len(pairs) == 12 * 4 / 2
