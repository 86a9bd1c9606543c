"""``mnistpro evaluate`` in a process that is killed: run by ``test_hosts`` with (when, then the command's arguments).

when: "before" its first part is played, or "after" it has stored so many parts.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from mnistpro_jax.cli import main
from mnistpro_jax.evaluation import parts
from mnistpro_jax.evaluation.evaluate import Prepared


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    when, *arguments = sys.argv[1:]
    if when == "before":
        Prepared.play = lambda *_, **__: die()  # type: ignore[method-assign, assignment, return-value]
    else:
        stored, save = 0, parts.Parts.save

        def counted(*of_part: Any) -> None:
            global stored
            save(*of_part)
            stored += 1
            if stored == int(when):
                die()

        parts.Parts.save = counted  # type: ignore[method-assign, assignment]
    sys.exit(main(arguments))
