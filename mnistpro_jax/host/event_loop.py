"""The event loop that calls run on: uvloop's where it is installed, which takes less of the processor."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from mnistpro_jax.host import interrupts
from mnistpro_jax.host.contract import HostPolicy
from mnistpro_jax.host.heap import settled_heap
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.sitting import Sittings

_ResultT = TypeVar("_ResultT")


def drive(
    play: Callable[..., Coroutine[Any, Any, object]],
    sittings: Sittings,
    policy: HostPolicy,
    numbers: Sequence[int],
    *,
    ledger: Ledger,
    **options: Any,
) -> None:
    """Let a driver play to its end, with the policy closed at the end and interrupts heard.

    play: ``runner.play``, or another with its arguments. options: more of them.
    """
    sittings.warm_up()

    async def session() -> None:
        with interrupts.on_loop(ledger):
            try:
                await play(sittings, policy, numbers, ledger=ledger, **options)
            finally:
                await policy.close()

    try:
        with settled_heap():
            run(session())
    except asyncio.CancelledError:
        ledger.interrupted = True  # the second interrupt: calls under way were given up


def run(main: Coroutine[Any, Any, _ResultT]) -> _ResultT:
    """``asyncio.run`` on the faster loop."""
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(main)


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory
