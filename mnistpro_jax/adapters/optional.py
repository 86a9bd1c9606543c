"""What an adapter says when the library that it adapts to is not installed."""

from __future__ import annotations


def missing(library: str, extra: str) -> ImportError:
    """The error to raise: which library, and which extra of this package installs it."""
    return ImportError(
        f'this adapter needs {library}, which is not installed: pip install "mnistpro_jax[{extra}]"'
    )
