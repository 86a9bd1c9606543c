"""What the player writes to itself where the protocol carries its thoughts: the canvas so far, as text.

A note names the windows seen and holds the ink as compressed bits, so that a player who is shown one picture a turn
loses nothing.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

_NOTE = re.compile(r"start (\d+),(\d+) seen ([A-Za-z0-9_=-]+) ink ([A-Za-z0-9_=-]+)")


def write(start: tuple[int, int], known: Mask, stroke: Mask) -> str:
    """A note. start: corner of the first window. known, stroke: bool (H, W), see ``sight.Picture``."""
    return f"start {start[0]},{start[1]} seen {_pack(known)} ink {_pack(stroke)}"


def read(text: str, shape: tuple[int, int]) -> tuple[tuple[int, int], Mask, Mask] | None:
    """The last note in a text as (start, known, stroke), bool ``shape`` each; None where there is none of it."""
    for match in reversed(list(_NOTE.finditer(text))):
        known, stroke = _unpack(match[3], shape), _unpack(match[4], shape)
        if known is not None and stroke is not None:
            return (int(match[1]), int(match[2])), known, stroke
    return None


def _pack(mask: Mask) -> str:
    return base64.urlsafe_b64encode(zlib.compress(np.packbits(mask).tobytes(), 9)).decode()


def _unpack(text: str, shape: tuple[int, int]) -> Mask | None:
    """None for what is no mask of this shape: a note may have been cut short on its way."""
    count = shape[0] * shape[1]
    try:
        inflater = zlib.decompressobj()
        packed = inflater.decompress(base64.urlsafe_b64decode(text), -(-count // 8) + 1)
    except (binascii.Error, ValueError, zlib.error):
        return None
    if len(packed) != -(-count // 8):
        return None
    return np.unpackbits(np.frombuffer(packed, np.uint8))[:count].astype(bool).reshape(shape)
