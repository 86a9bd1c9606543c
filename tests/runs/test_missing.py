"""What an unfinished run says of itself: how much is missing, which way that leans, and what can still come of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.host.contract import COUNTED, UNFINISHED, Status
from mnistpro_jax.runs.load import load_runs
from mnistpro_jax.runs.missing import OVER, Missing, missing_of
from tests.runs import stored


def records(*numbers: int, right: int = 0) -> list[dict[str, Any]]:
    return [{"episode": number, "correct": k < right} for k, number in enumerate(numbers)]


def test_a_status_is_counted_over_or_unfinished() -> None:
    assert {Status(name) for name in OVER} == set(Status) - COUNTED - UNFINISHED


def test_bounds_are_those_of_every_outcome_of_what_is_missing() -> None:
    # 14 of 15 right among the episodes that ended early in a run of 100: 93.3 % may become 14 % or 99 %.
    missing = missing_of(100, records(*range(0, 60, 4), right=14), {"budget_spent": 16})
    assert missing == Missing(planned=100, counted=15, right=14, not_over=85, short_first=True)
    assert missing.missing == 85 and missing.bounds == (0.14, 0.99)
    assert missing.mark == "unfinished, 15 of 100"
    for said in (missing.warning, missing.as_dict()["note"]):
        assert said == (
            "unfinished: 85 of 100 episodes are not over; short episodes end first, so that all figures are biased to "
            "them; accuracy of all 100 lies between 14.0 % (all missing wrong) and 99.0 % (all missing right)"
        )
    assert missing.so_far == "85 missing, biased to short episodes; all 100: 14.0 to 99.0 %"


def test_the_first_of_the_list_are_not_there_because_they_were_short() -> None:
    assert not missing_of(10, records(0, 1, 2), {"cancelled": 1}).short_first  # type: ignore[union-attr]
    assert not missing_of(10, records(0, 2), {"refused": 1}).short_first  # type: ignore[union-attr]
    assert missing_of(10, records(0, 2), {"api_error": 1}).short_first  # type: ignore[union-attr]
    assert not missing_of(10, [], {}).short_first  # type: ignore[union-attr]


def test_what_is_over_and_not_counted_is_missing_in_a_finished_run() -> None:
    missing = missing_of(10, records(*range(8), right=6), {"refused": 1, "truncated": 1, "api_error": 0})
    assert missing is not None and (missing.missing, missing.not_over, missing.mark) == (2, 0, "")
    assert missing.warning == (
        "2 of 10 episodes are not counted (replies refused or cut off); accuracy of all 10 lies between 60.0 % (all "
        "missing wrong) and 80.0 % (all missing right)"
    )
    both = missing_of(10, records(*range(5)), {"refused": 1})
    assert both is not None and both.not_over == 4
    assert both.sentence.startswith("4 of 10 episodes are not over, and 1 are not counted")


@pytest.mark.parametrize("uncounted", [{}, {"api_error": 0}])
def test_a_complete_run_lacks_nothing(uncounted: dict[str, int]) -> None:
    assert missing_of(3, records(0, 1, 2), uncounted) is None
    assert (
        missing_of(3, [{"episode": 0}, {"episode": 1, "correct": None}], {}) is None
    )  # graded when all is over


def test_the_name_of_a_stored_run_says_so(tmp_path: Path) -> None:
    stored.host_folder(tmp_path / "a", failed=2)
    stored.host_folder(tmp_path / "b", failed=0, memory="grid-map")
    first, second = load_runs([tmp_path])
    assert first.name == "openai:gpt, textual, H=1 (unfinished, 5 of 7)"
    assert first.missing is not None and first.missing.bounds == (3 / 7, 5 / 7)
    assert (second.name, second.missing) == ("openai:gpt, grid-map, H=1", None)
