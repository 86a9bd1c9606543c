"""The event loop that calls run on: uvloop's where it is installed, which takes less of the processor."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_ResultT = TypeVar("_ResultT")


def run(main: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """``asyncio.run`` on the faster loop."""
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(main)


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory
