"""Ctrl-C, and SIGTERM, which schedulers send: the first one lets the calls under way end, the second gives them up."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

from mnistpro_jax.host.ledger import Ledger

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def on_loop(ledger: Ledger) -> Iterator[None]:
    """For the running task of a loop: the first interrupt stops the ledger, the second one cancels the task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def heard() -> None:
        if ledger.interrupted:
            task.cancel()
            return
        ledger.interrupt()

    installed = []
    for number in _SIGNALS:
        # Not the main thread, or a system without them: then interrupts arrive as Python delivers them.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, heard)
            installed.append(number)
    try:
        yield
    finally:
        for number in installed:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def in_main_thread(heard: Callable[[], None]) -> Iterator[None]:
    """Interrupts call ``heard`` instead of raising; in the main thread alone, which gets them.

    An exception would be raised wherever the thread happens to be, and lost where nobody can catch it (in a callback of
    the garbage collector, say).
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(*_: Any) -> None:
        # What is said of it may break into a line that is being written, which Python refuses.
        with contextlib.suppress(RuntimeError):
            heard()

    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
