"""Predictors: what reads the canvases that a run had fused, in the place of its agent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import jax
import numpy as np
import numpy.typing as npt

from mnistpro_jax import data
from mnistpro_jax.agents.reader import build_reader
from mnistpro_jax.env.types import FusedCanvas

Pixels = npt.NDArray[np.uint8]
Digits = tuple[int, ...]

NOT_COUNTED: Digits = ()
"""The answer of a predictor that failed for a reason outside it: no outcome, and never a wrong one."""

_READ_AT_ONCE = 64


@dataclasses.dataclass(frozen=True, eq=False)
class FixedCanvas:
    """What an episode left: the canvas and which of it was seen.

    canvas: uint8 (H, W), 0 stroke and 255 background. seen: bool (H, W). level: digits.
    """

    canvas: Pixels
    seen: npt.NDArray[np.bool_]
    level: int

    def picture(self) -> Pixels:
        """The composite picture, grey where nothing was seen: numbers of ``render.published.PALETTE``, uint8 (H, W)."""
        return np.where(self.seen, (self.canvas & 1) + np.uint8(1), np.uint8(0))

    def counts(self, native: int = 28) -> tuple[Pixels, Pixels]:
        """(stroke, revealed) pixels per native pixel, uint8 (native, native n), as readers take them."""
        height, width = self.canvas.shape
        factor = height // native

        def pooled(mask: npt.NDArray[np.bool_]) -> Pixels:
            blocks = mask.reshape(native, factor, width // factor, factor)
            counts: Pixels = blocks.sum(axis=(1, 3)).astype(np.uint8)
            return counts

        return pooled(self.seen & (self.canvas == 0)), pooled(self.seen)


class Predictor(Protocol):
    """Reads fused canvases. ``name`` is for people. Models behind an API fit in here as well."""

    name: str

    def read(self, fixed: Sequence[FixedCanvas]) -> list[Digits | None]:
        """The answer to each canvas; None where it gave none, ``NOT_COUNTED`` where it was not able to. All canvases
        have one size."""


class ReaderPredictor:
    """A reader of ours (``agents.reader.Reader``) as a predictor."""

    def __init__(self, name: str, reader: Any) -> None:
        self.name = name
        self._reader = reader

    def read(self, fixed: Sequence[FixedCanvas]) -> list[Digits | None]:
        """See ``Predictor``."""
        stroke, revealed = (np.stack(part) for part in zip(*(one.counts() for one in fixed), strict=True))
        answers: list[Digits | None] = []
        for first in range(0, len(fixed), _READ_AT_ONCE):
            # The last block is filled up, so that all have the shape that was compiled.
            rows = np.minimum(np.arange(first, first + _READ_AT_ONCE), len(fixed) - 1)
            digits = np.asarray(_digits(self._reader, stroke[rows], revealed[rows]))
            answers += [tuple(row) for row in digits[: len(fixed) - first].tolist()]
        return answers


@jax.jit
def _digits(reader: Any, stroke: jax.Array, revealed: jax.Array) -> jax.Array:
    """int32 (B, n) from counts (B, 28, 28 n)."""
    return jax.vmap(lambda s, r: reader.posterior(FusedCanvas(s, r)).digits)(stroke, revealed)


def shipped_predictor() -> ReaderPredictor:
    """The trained reader in the package."""
    # Networks bring flax, which nobody else here needs.
    from mnistpro_jax.agents.learned.shipped import load_reader

    return ReaderPredictor("shipped", load_reader()[0])


def bank_predictor(source: str = "mnist") -> ReaderPredictor:
    """The reader that compares with every training image of a source."""
    return ReaderPredictor("bank", build_reader(data.load(source, "train")))


PREDICTORS: dict[str, Callable[[], Predictor]] = {"shipped": shipped_predictor, "bank": bank_predictor}
"""Readers by name."""
