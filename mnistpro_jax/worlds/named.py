"""Banks by what they are made of: built from the source of their data, and again from a pickle that holds the name."""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from mnistpro_jax import data
from mnistpro_jax.data import DataError, Dataset
from mnistpro_jax.env.bank import Bank
from mnistpro_jax.env.content import digest
from mnistpro_jax.worlds.digits import digit_bank, episode_bank
from mnistpro_jax.worlds.published import PUBLISHED_SIZE, canvas_of, published_episodes, published_start


@dataclasses.dataclass(frozen=True)
class BankName:
    """What a bank is made of, in values that a pickle can hold.

    source, split: as for ``data.load``. level, size, num_scenes, seed: as for ``digit_bank``. episodes: "published" for
    the published list. starts: "published" where every image is an episode that starts by the published rule. window:
    pixels, on which published starts depend.
    """

    source: str
    split: str
    level: int
    size: int = PUBLISHED_SIZE
    num_scenes: int | None = None
    seed: int | None = None
    episodes: str | None = None
    starts: str | None = None
    window: int | None = None

    def build(self, dataset: Dataset | None = None) -> Bank:
        """The bank. dataset: given instead of loading the source. Raises what loading and building raise."""
        if self.episodes == "published":
            listed = published_episodes(self.level, self.window or 0)
            return episode_bank(data.load("mnist", "test"), listed.indices, starts=listed.start_xy)
        dataset = data.load(self.source, self.split) if dataset is None else dataset
        if self.starts == "published":
            return _published_starts(dataset, self.level, self.window or 0, self.size)
        return digit_bank(dataset, self.level, size=self.size, num_scenes=self.num_scenes, seed=self.seed)


class NamedOrigin:
    """``Bank.origin`` of a bank with a name. ``digest``: of the bank's arrays, found when it is asked for."""

    def __init__(self, name: BankName, bank: Bank) -> None:
        self.name = name
        self._bank = weakref.ref(bank)

    @functools.cached_property
    def digest(self) -> str:
        bank = self._bank()
        assert bank is not None  # it holds this object
        return digest(bank)

    def reduced(self, bank: Bank) -> tuple[Callable[..., Bank], tuple[Any, ...]]:
        return bank_again, (self.name, self.digest)


# Banks in use, for pickles that are opened in the process that has them; the newest of a name.
_in_use: weakref.WeakValueDictionary[BankName, Bank] = weakref.WeakValueDictionary()


def named_bank(name: BankName) -> Bank:
    """A new bank from its source. Its pickles hold its name and a digest instead of its arrays."""
    bank = name.build()
    object.__setattr__(bank, "origin", NamedOrigin(name, bank))
    _in_use[name] = bank
    return bank


def bank_again(name: BankName, expected: str) -> Bank:
    """What a pickle of a named bank gives: the one in use in this process, or a new one.

    Raises DataError where the source cannot be read, or no longer holds the same data (``expected``, the digest).
    """
    alive = _in_use.get(name)
    if alive is not None and _digest(alive) == expected:
        return alive
    bank = named_bank(name)
    if _digest(bank) != expected:
        raise DataError(
            f"The pickle names a bank of {name.source!r}, split {name.split!r}, but that source has other data now "
            f"(digest {_digest(bank)[:12]}, expected {expected[:12]}); bring the data back that it had, or build the "
            "environment anew."
        )
    return bank


def _digest(bank: Bank) -> str:
    assert isinstance(bank.origin, NamedOrigin)  # named_bank made it
    return bank.origin.digest


def _published_starts(dataset: Dataset, level: int, window: int, size: int) -> Bank:
    """Every image of a data set as an episode that begins where the published rule puts it."""
    if level != 1 or size != PUBLISHED_SIZE:
        raise ValueError(
            "start 'published' is a function of the whole canvas, so that it needs a list of episodes: use "
            "episodes='published', a bank from episode_bank with starts, or level 1 at the published size"
        )
    starts = [published_start(canvas_of(image[None]), window) for image in dataset.images]
    return episode_bank(dataset, np.arange(len(dataset.labels))[:, None], starts=np.asarray(starts))
