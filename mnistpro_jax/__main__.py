"""``python -m mnistpro_jax``: the ``mnistpro`` command."""

from __future__ import annotations

from mnistpro_jax.cli import entry

entry()
