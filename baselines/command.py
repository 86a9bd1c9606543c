"""What the scripts share: what goes wrong is one line on standard error, and exit code 1; lists of numbers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, logging

from mnistpro_jax.cli import options


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
    """A flag's list of confidences; ValueError for what is none (as ``mnistpro evaluate`` has it), or comes twice."""
    try:
        for text in texts:
            float(text)
    except ValueError as error:
        raise ValueError(f"{','.join(texts)!r} is not a list of numbers, as in 0.9,0.95") from error
    return _parsed(texts, options.confidence)


def whole_numbers(texts: list[str], low: int, high: int) -> list[int]:
    """A flag's list of whole numbers in low..high; ValueError for what is none, or comes twice."""
    return _parsed(texts, options.whole(low, high))


def each_once(flag: str, values: Sequence[Any]) -> None:
    """ValueError for a value that comes again: its rows would be those of the first, and pass for another run."""
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{flag} has {value} twice; name each once")


def exact(value: float) -> str:
    """The shortest text that is this number and no other."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _parsed(texts: list[str], parse: Callable[[str], Any]) -> list[Any]:
    try:
        values = [parse(text) for text in texts]
    except argparse.ArgumentTypeError as error:
        raise ValueError(str(error)) from None
    each_once(repr(",".join(texts)), values)
    return values
