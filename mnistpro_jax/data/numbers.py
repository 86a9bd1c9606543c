"""Whole numbers that people give, checked before they are used."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np


def whole_number(name: str, value: Any, unit: str, least: int, most: int | None = None) -> int:
    """``value`` as an int. name, unit: for the message, such as "window" and "pixels" ("" for a bare number). least,
    most: both allowed.

    Raises TypeError for what is no whole number (also 64.0, "64" and True), ValueError for one out of range.
    """
    kind = f"a whole number of {unit}" if unit else "a whole number"
    expected = f"{kind}, {least} or more" if most is None else f"{kind}, {least} to {most}"
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; expected {expected}") from None
    if number < least or (most is not None and number > most):
        raise ValueError(f"{name} is {number}; expected {expected}")
    return number
