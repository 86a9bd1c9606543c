"""Keeps Python's collector away from what was there before a run."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def settled_heap() -> Iterator[None]:
    """While it lasts, the collector looks at new objects alone.

    JAX and the SDK leave some hundred thousand objects behind when they are imported; to walk through them again and
    again is a tenth of what a call costs. Where the caller has frozen objects already, nothing is done.
    """
    if gc.get_freeze_count():
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
