"""``python -m mnistpro_jax``: the ``mnistpro`` command."""

from __future__ import annotations

import sys

from mnistpro_jax.cli import main

sys.exit(main())
