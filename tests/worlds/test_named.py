"""Banks by name: what copies share, what pickles hold, and what they give back."""

from __future__ import annotations

import copy
import pickle

import gymnasium
import numpy as np
import pytest

import mnistpro_jax
from mnistpro_jax import data
from mnistpro_jax.adapters.gymnasium import MnistProEnv
from mnistpro_jax.data import DataError, Dataset
from mnistpro_jax.worlds import named
from tests import episodes


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    episodes.few_digits(monkeypatch, 300)


def test_copies_share_the_bank() -> None:
    env = MnistProEnv(split="test")
    env.reset(seed=3)
    copied = copy.deepcopy(env)
    assert copied.world.params.bank is env.world.params.bank is copy.copy(env.world.params.bank)
    assert env.step(0)[1:] == copied.step(0)[1:]


def test_pickles_name_the_bank() -> None:
    env = MnistProEnv(split="test")
    env.reset(seed=3)
    stored = pickle.dumps(env)
    assert len(stored) < 20_000  # the bank has two million bytes
    opened = pickle.loads(stored)
    assert opened.world.params.bank is env.world.params.bank
    assert env.step(0)[1:] == opened.step(0)[1:]


def test_a_pickle_makes_the_bank_again_where_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    bank = mnistpro_jax.make("MnistPro-L2-v0", split="test")[1].bank
    stored = pickle.dumps(bank)
    monkeypatch.setattr(named, "_in_use", type(named._in_use)())
    again = pickle.loads(stored)
    assert again is not bank and again == bank and hash(again) == hash(bank)


def test_a_pickle_of_other_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = pickle.dumps(mnistpro_jax.make("MnistPro-L1-v0", split="test")[1].bank)
    full = data.load("mnist", "test")
    other = Dataset(255 - full.images, full.labels, 10, "mnist", "test")
    monkeypatch.setattr(data, "load", lambda source, split: other)
    monkeypatch.setattr(named, "_in_use", type(named._in_use)())
    with pytest.raises(DataError, match="has other data now"):
        pickle.loads(stored)


def test_a_bank_without_a_name_is_pickled_whole() -> None:
    params = mnistpro_jax.make("MnistPro-L1-v0", dataset=episodes.edge_digits())[1]
    opened = pickle.loads(pickle.dumps(params))
    assert opened == params and opened is not params
    assert copy.deepcopy(params) is params
    assert params != params.replace(budget=np.int32(3)) and params != 3


def test_sub_processes_name_it_too() -> None:
    env = gymnasium.make("mnistpro_jax/MnistPro-L1-v0", split="test")
    assert len(pickle.dumps(env)) < 20_000
