"""An event loop on a thread of its own, for callers that must wait where no loop may run."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_ResultT = TypeVar("_ResultT")


class LoopThread:
    """An event loop on a thread of its own. Use as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="host agents", daemon=True)
        self._work: concurrent.futures.Future[Any] | None = None

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, _ResultT]) -> _ResultT:
        """The result of a coroutine on the loop; for any other thread."""
        self._work = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        result: _ResultT = self._work.result()
        return result

    def abort(self) -> None:
        """Cancel what is running; ``run`` then raises CancelledError in its thread."""
        if self._work is not None:
            self._work.cancel()
