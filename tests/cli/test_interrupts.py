"""An interrupt that Python raises where nobody can catch it comes again."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator

import pytest

from mnistpro_jax.cli.interrupts import never_lost


@pytest.fixture
def interrupted_collector() -> Iterator[object]:
    """Raises an interrupt in the next collection."""
    pending = [True]

    def callback(*_: object) -> None:
        if pending and pending.pop():
            raise KeyboardInterrupt

    gc.callbacks.append(callback)
    yield callback
    gc.callbacks.remove(callback)


def test_an_interrupt_in_the_garbage_collector_comes_again(interrupted_collector: object) -> None:
    before = sys.unraisablehook
    heard = False
    try:
        with never_lost():
            gc.collect()
            time.sleep(10)
    except KeyboardInterrupt:
        heard = True
    assert heard
    assert sys.unraisablehook is before


def test_other_exceptions_there_are_printed_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[type[BaseException]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: heard.append(unraisable.exc_type))

    class Faulty:
        def __del__(self) -> None:
            raise RuntimeError

    with never_lost():
        Faulty()
        gc.collect()
    assert heard == [RuntimeError]
