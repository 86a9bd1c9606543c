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
            _say(f"error: unexpected argument {arguments[1]!r}; every value needs its flag, see --help")
            return 1
        try:
            main()
        except TrainingInterrupted as stop:
            _say(str(stop))
            return 130
        except KeyboardInterrupt:
            _say("interrupted")
            return 130
        except OSError as error:
            where = "" if error.filename is None else f"{error.filename}: "
            _say(f"error: {where}{error.strerror or error}")
            return 1
        except (TrainingError, ValueError) as error:
            _say(f"error: {error}")
            return 1
        return 0

    app.run(guarded)


def _say(message: str) -> None:
    """One line on standard error, whatever a library's message holds."""
    print(" ".join(message.split()), file=sys.stderr)


def numbers(texts: list[str]) -> list[float]:
    """A flag's list of numbers; ValueError for what is none."""
    try:
        return [float(text) for text in texts]
    except ValueError as error:
        raise ValueError(f"{','.join(texts)!r} is not a list of numbers, as in 0.9,0.95") from error
