"""What the scripts share: what goes wrong is one line on standard error, and exit code 1; lists of numbers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from absl import app, logging


def run(main: Callable[[], Any]) -> None:
    """``app.run`` of a main without positional arguments."""

    def guarded(arguments: list[str]) -> int:
        from baselines.loop import TrainingError, TrainingInterrupted

        logging.set_verbosity(logging.WARNING)  # orbax says a lot
        if len(arguments) > 1:
            raise app.UsageError(f"unexpected argument {arguments[1]!r}")
        try:
            main()
        except TrainingInterrupted as stop:
            print(stop, file=sys.stderr)
            return 130
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        except OSError as error:
            print(f"error: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
            return 1
        except (TrainingError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        return 0

    app.run(guarded)


def numbers(texts: list[str]) -> list[float]:
    """A flag's list of numbers; ValueError for what is none."""
    try:
        return [float(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"{','.join(texts)!r} is not a list of numbers, as in 0.9,0.95") from error
