"""Ctrl-C that cannot get lost.

Python raises the interrupt wherever the main thread happens to be. In a callback of the garbage collector or a
destructor nobody can catch it: Python prints it and goes on, and the command would run to its end.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
from collections.abc import Iterator

_AGAIN_S = 0.05


@contextlib.contextmanager
def never_lost() -> Iterator[None]:
    """Within the block, an interrupt that was raised where nobody can catch it is raised once more a moment later."""
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN_S, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
