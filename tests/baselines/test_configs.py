"""Configurations by name with changes, and the images that nothing is trained on."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from baselines.configs import CONFIGS, config
from baselines.export import exportable
from baselines.held_out import split
from baselines.run_folder import read_run
from baselines.score_ram import score
from mnistpro_jax.data import Dataset


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_configurations_come_back_from_json(name: str) -> None:
    stored = json.loads(json.dumps(dataclasses.asdict(CONFIGS[name])))
    assert config(name, stored) == CONFIGS[name]
    assert config(name, {"updates": 7}).updates == 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"update": 3}, "unknown field 'update'; expected one of .*updates"),
        ({"updates": "3"}, "updates is '3'; expected a value like 12000"),
        ({"updates": 3.5}, "updates is 3.5"),
        ({"channels": 3}, "channels is 3; expected a value like"),
        ({"augmentation": {"twist": 1.0}}, "unknown field 'twist'"),
    ],
)
def test_other_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config("reader", changes)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("reader", {"updates": None}, "updates is None; expected a value like 12000"),
        ("reader", {"updates": 0}, "updates is 0; expected 1 to"),
        ("reader", {"updates": 2**31}, "updates is 2147483648; expected 1 to"),
        ("reader", {"batch": 0}, "batch is 0; expected 1 to"),
        ("reader", {"batch": True}, "batch is True; expected a value like 256"),
        ("reader", {"batch": 6}, "batch is 6; expected a multiple of 4"),
        ("reader", {"learning_rate": False}, "learning_rate is False"),
        ("reader", {"learning_rate": 0}, "learning_rate is 0.0; expected more than 0"),
        ("reader", {"learning_rate": float("nan")}, "learning_rate is nan"),
        ("reader", {"learning_rate": 10**400}, "learning_rate is 1000"),
        ("reader", {"channels": ["a"]}, r"channels is \['a'\]; expected a value like \[32, 64, 128\]"),
        ("reader", {"channels": [True, 8, 8]}, "channels is"),
        ("reader", {"channels": []}, r"channels is \(\); expected one or more numbers"),
        ("reader", {"channels": [8]}, "channels is .* strides"),
        ("reader", {"smoothing": 1}, "smoothing is 1.0; expected at least 0 and less than 1"),
        ("reader", {"whole": 1.5}, "whole is 1.5; expected 0 to 1"),
        ("reader", {"augmentation": None}, "augmentation is None; expected a value like .*rotation"),
        ("reader", {"augmentation": {"ink": True}}, "ink is True"),
        ("reader", {"augmentation": {"scale": 1}}, "scale is 1.0; expected at least 0 and less than 1"),
        ("canvas", {"minibatches": 0}, "minibatches is 0; expected 1 to 9,216"),
        ("canvas", {"minibatches": 9217}, "minibatches is 9217"),
        ("canvas", {"worlds": [[1, 8]]}, r"worlds is \[\[1, 8\]\]; expected a value like \[\[1, 256, 12\]"),
        ("canvas", {"worlds": [[1, 8, 0]]}, "worlds is .*steps 1 or more"),
        ("canvas", {"worlds": []}, r"worlds is \(\); expected one or more of"),
        ("canvas", {"needed": [0.9]}, r"needed is \[0.9\]"),
        ("canvas", {"needed": [0.9, 1]}, "needed is .*less than 1"),
        ("canvas", {"needed": [0.9, 0.8]}, "needed is .*least confidence before the largest"),
        ("glimpse", {"worlds": [[1, 8, 1]]}, "worlds is .*glimpses 2 or more"),
        ("glimpse", {"remembers": 1}, "remembers is 1; expected a value like true"),
        ("glimpse", {"core_size": 0}, "core_size is 0"),
        ("ram_mnist", {"glimpses": 0}, "glimpses is 0; expected 2 to"),
        ("ram_mnist", {"canvas": 20}, "canvas is 20; expected 28 to"),
        ("ram_mnist", {"noise": -1}, "noise is -1.0; expected 0 or more"),
        ("ram_mnist", {"scales": 0}, "scales is 0; expected 1 to 8"),
        ("ram_mnist", {"clutter": 2}, "clutter is 2, but a canvas of 28"),
        ("ram_mnist", {"credit": 1}, "credit is 1; expected a value like"),
    ],
)
def test_what_would_fail_later_or_train_wrongly_is_refused(
    name: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        config(name, changes)


def test_null_is_taken_where_a_field_may_be_none() -> None:
    plain = config("glimpse", {"augmentation": None})
    assert plain.augmentation is None
    assert config("glimpse", json.loads(json.dumps(dataclasses.asdict(plain)))) == plain


def _write_run(folder: Path, name: str, **more: Any) -> None:
    about = {"name": name, "seed": 3, **dataclasses.asdict(CONFIGS[name]), **more}
    (folder / "config.json").write_text(json.dumps(about), encoding="utf-8")


def test_a_run_folder_is_read(tmp_path: Path) -> None:
    _write_run(tmp_path, "canvas", data="mnist", reader="1f", commit="2e")
    stored = read_run(tmp_path)
    assert (stored.name, stored.seed, stored.config) == ("canvas", 3, CONFIGS["canvas"])
    assert stored.about == {"data": "mnist", "reader": "1f", "commit": "2e"}
    assert config("canvas", stored.changes) == CONFIGS["canvas"]
    with pytest.raises(FileNotFoundError):
        read_run(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "has no field 'name'"),
        ("[]", r"holds \[\]; expected an object"),
        ("null", "holds null"),
        ('{"name": "canvas", "se', "is damaged"),
        ("", "is damaged"),
        ("[" * 100_000, "is damaged"),
        ("\ud800", "is damaged"),
        ('{"name": "canvas"}', "has no field 'seed'"),
        ('{"name": ["canvas"], "seed": 0}', r"name is \[\"canvas\"\]"),
        ('{"name": "canvas", "seed": true}', "seed is true"),
        ('{"name": "else", "seed": 0}', "unknown config 'else'"),
        ('{"name": "canvas", "seed": 0, "trace": 2}', "trace is 2.0; expected 0 to 1"),
        ('{"name": "canvas", "seed": 0, "date": 2}', "unknown field 'date'"),
    ],
)
def test_damaged_run_folders_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    for reads in (read_run, exportable, score):
        with pytest.raises(ValueError, match=message) as caught:
            reads(tmp_path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("ram_mnist", {}, "expected one of reader, canvas, glimpse, memoryless"),
        ("reader_tiny", {}, "expected one of reader, canvas, glimpse, memoryless"),
        ("reader", {"data": "tfds:emnist"}, "trained on 'tfds:emnist'"),
        ("glimpse", {"remembers": False}, "with remembers False"),
        ("memoryless", {"remembers": True}, "with remembers True"),
    ],
)
def test_only_runs_of_the_agents_are_exported(
    tmp_path: Path, name: str, more: dict[str, Any], message: str
) -> None:
    _write_run(tmp_path, name, **more)
    with pytest.raises(ValueError, match=message):
        exportable(tmp_path)


@pytest.mark.parametrize("name", ["reader", "canvas", "glimpse", "memoryless"])
def test_runs_of_the_agents_are_exported(tmp_path: Path, name: str) -> None:
    _write_run(tmp_path, name, data="mnist")
    assert exportable(tmp_path).config == CONFIGS[name]


def test_whole_numbers_do_for_floats() -> None:
    assert config("reader", {"learning_rate": 1}).learning_rate == 1.0
    assert config("reader", {"channels": [8, 8], "strides": [2, 2]}).channels == (8, 8)


def test_held_out_images_are_the_last() -> None:
    labels = np.arange(10, dtype=np.int32)
    dataset = Dataset(np.zeros((10, 28, 28), np.uint8), labels, 10, "x", "train")
    kept, last = split(dataset, 3)
    assert (kept.labels.tolist(), last.labels.tolist()) == (list(range(7)), [7, 8, 9])
    for wrong in (0, 10):
        with pytest.raises(ValueError, match=f"held_out is {wrong}"):
            split(dataset, wrong)
