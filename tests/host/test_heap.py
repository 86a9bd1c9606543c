"""The collector during a run."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from mnistpro_jax.host.heap import settled_heap


@pytest.fixture(autouse=True)
def _nothing_frozen() -> Iterator[None]:
    """The tests' own process has frozen what it imported (``tests.conftest``)."""
    gc.unfreeze()
    yield
    gc.freeze()


def test_what_was_there_before_is_set_aside_while_it_lasts() -> None:
    with settled_heap():
        assert gc.get_freeze_count() > 0
        made_since = gc.get_objects()
        assert not any(one is pytest for one in made_since)
    assert gc.get_freeze_count() == 0


def test_an_error_leaves_the_collector_as_it_was() -> None:
    with pytest.raises(KeyError), settled_heap():
        raise KeyError
    assert gc.get_freeze_count() == 0


def test_a_heap_that_the_caller_froze_stays_frozen() -> None:
    gc.freeze()
    try:
        with settled_heap():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
