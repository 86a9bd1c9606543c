"""A matrix as data: tables of cells, each one setting that a study means to run, with what was published for it."""

from __future__ import annotations

import dataclasses
import importlib.resources
import itertools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from mnistpro_jax.env.environment import default_budget
from mnistpro_jax.worlds.published import PUBLISHED_SIZE

AXES = ("model", "level", "memory", "horizon", "window", "stride")
"""What tells the cells of a table apart."""
OWN_HORIZON = "own"
ALL = -1
_AXIS_DEFAULTS: Mapping[str, list[Any]] = {
    "window": [64],
    "stride": ["half"],
    "level": [1],
    "horizon": [OWN_HORIZON],
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One setting. model: its name in the matrix. horizon: pictures shown, -1 for all, None where the memory fixes it.

    window, stride: pixels. settings: what else is fixed, as sorted (name, value) pairs.
    """

    model: str
    level: int
    memory: str
    horizon: int | None
    window: int
    stride: int
    # A setting may be a table, which has no hash; cells that differ in settings alone are still different cells.
    settings: tuple[tuple[str, Any], ...] = dataclasses.field(default=(), hash=False)

    @property
    def budget(self) -> int:
        """The published number of steps of this geometry; the control has one."""
        if self.memory == "full-image":
            return 1
        return default_budget(PUBLISHED_SIZE, PUBLISHED_SIZE * self.level, self.window, self.stride)

    @property
    def label(self) -> str:
        """The setting in a few words."""
        words = [self.model, f"level {self.level}", self.memory]
        if self.horizon is not None:
            words.append(f"H={'all' if self.horizon == ALL else self.horizon}")
        if (self.window, self.stride) != (64, 32):
            words.append(f"window {self.window}")
        return ", ".join(words)

    @property
    def slug(self) -> str:
        """A name for the cell's folder."""
        words = [self.model, f"L{self.level}", self.memory]
        if self.horizon is not None:
            words.append(f"H{'all' if self.horizon == ALL else self.horizon}")
        if (self.window, self.stride) != (64, 32):
            words.append(f"w{self.window}s{self.stride}")
        return "".join(
            letter if letter.isalnum() or letter in ".-+" else "-" for letter in "_".join(words)
        ).lower()


@dataclasses.dataclass(frozen=True)
class Figure:
    """What is printed for a cell: accuracy, per cent, and mean steps, the answer included; None where it is not."""

    accuracy: float | None
    steps: float | None


@dataclasses.dataclass(frozen=True)
class ModelNames:
    """also: names of the same model in stored runs. run: what ``mnistpro run --model`` takes."""

    also: tuple[str, ...]
    run: str


@dataclasses.dataclass(frozen=True)
class MatrixTable:
    """One table. figures: by cell."""

    name: str
    title: str
    note: str
    cells: tuple[Cell, ...]
    figures: Mapping[Cell, Figure]


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A study. source: where its figures are printed."""

    name: str
    source: str
    models: Mapping[str, ModelNames]
    tables: tuple[MatrixTable, ...]

    def table(self, name: str) -> MatrixTable:
        """A table by its name; ValueError with the names for another."""
        for table in self.tables:
            if table.name == name:
                return table
        raise ValueError(
            f"there is no table {name!r}; expected one of {', '.join(one.name for one in self.tables)}"
        )


def load_matrix(path: Path | None = None, models: Sequence[str] = ()) -> Matrix:
    """A matrix from a TOML file, None for the published one. models: in the place of the declared ones.

    Raises ValueError, naming file and place, for a file that is no matrix; OSError where it cannot be read.
    """
    if path is None:
        where = "the published matrix"
        text = (importlib.resources.files("mnistpro_jax.study") / "published.toml").read_text(
            encoding="utf-8"
        )
    else:
        where, text = str(path), path.read_text(encoding="utf-8")
    try:
        loaded = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{where} is no TOML file: {error}") from None
    declared = _models(loaded.get("models"), where)
    tables = loaded.get("table")
    if not isinstance(tables, list) or not tables:
        raise ValueError(f"{where}: expected at least one [[table]]")
    settings = dict(loaded.get("settings") or {})
    made = tuple(_table(one, settings, declared, tuple(models), where) for one in tables)
    names = [table.name for table in made]
    if len(set(names)) < len(names):
        raise ValueError(f"{where}: two tables have one name ({', '.join(names)})")
    # A model that is given is its own name, and is run by it.
    known = declared | {model: ModelNames((), model) for model in models if model not in declared}
    return Matrix(
        str(loaded.get("name", where)), str(loaded.get("source", "")), MappingProxyType(known), made
    )


def _models(stored: Any, where: str) -> dict[str, ModelNames]:
    if not isinstance(stored, dict) or not stored:
        raise ValueError(f"{where}: expected [models], a line a model")
    made = {}
    for name, facts in stored.items():
        if not isinstance(facts, dict) or not isinstance(facts.get("run"), str):
            raise ValueError(f'{where}: models.{name} does not say how to run it (run = "PROVIDER:MODEL")')
        made[name] = ModelNames(tuple(map(str, facts.get("also", ()))), facts["run"])
    return made


def _table(
    stored: Any,
    settings: dict[str, Any],
    models: Mapping[str, ModelNames],
    given: tuple[str, ...],
    where: str,
) -> MatrixTable:
    name = stored.get("name") if isinstance(stored, dict) else None
    if not isinstance(name, str) or not isinstance(stored.get("cells"), dict):
        raise ValueError(f"{where}: a [[table]] without a name or without cells")
    here = f"{where}: table {name}"
    known = {"name", "title", "note", "models", "cells", "more", "figures", "settings"}
    unknown = sorted(set(stored) - known)
    if unknown:
        raise ValueError(f"{here} has unknown {', '.join(unknown)}; expected {', '.join(sorted(known))}")
    own = stored.get("models", list(models))
    if set(own) - set(models):
        raise ValueError(
            f"{here} names models that [models] does not: {', '.join(sorted(set(own) - set(models)))}"
        )
    fixed = tuple(sorted((settings | dict(stored.get("settings") or {})).items()))
    blocks = [stored["cells"], *stored.get("more", ())]
    cells = [cell for block in blocks for cell in _cells(block, given or tuple(own), fixed, here)]
    figures: dict[Cell, Figure] = {}
    for facts in stored.get("figures", ()):
        axes = {key: value for key, value in facts.items() if key in AXES}
        # The figures are of the declared models, whichever are asked for.
        of = [
            cell for block in blocks for cell in _cells(block, tuple(own), fixed, here) if _is_of(cell, axes)
        ]
        if len(of) != 1:
            raise ValueError(f"{here}: the figure of {axes} belongs to {len(of)} cells; expected one")
        figures[of[0]] = Figure(facts.get("accuracy"), facts.get("steps"))
    return MatrixTable(
        name,
        str(stored.get("title", name)),
        str(stored.get("note", "")),
        tuple(dict.fromkeys(cells)),
        MappingProxyType(figures),
    )


def _cells(block: Any, models: tuple[str, ...], fixed: tuple[tuple[str, Any], ...], where: str) -> list[Cell]:
    if not isinstance(block, dict) or set(block) - set(AXES) or "memory" not in block:
        raise ValueError(
            f"{where}: cells are lists by {', '.join(AXES)}, of which memory is needed; got {block!r}"
        )
    lists: dict[str, list[Any]] = {**_AXIS_DEFAULTS, "model": list(models), **block}
    wrong = [axis for axis, values in lists.items() if not isinstance(values, list)]
    if wrong:
        raise ValueError(f"{where}: {wrong[0]} is no list")
    made = []
    for values in itertools.product(*(lists[axis] for axis in AXES)):
        facts = dict(zip(AXES, values, strict=True))
        stride = facts["window"] // 2 if facts["stride"] == "half" else facts["stride"]
        made.append(
            Cell(
                model=str(facts["model"]),
                level=_whole(facts["level"], "level", where),
                memory=str(facts["memory"]),
                horizon=_horizon(facts["horizon"], where),
                window=_whole(facts["window"], "window", where),
                stride=_whole(stride, "stride", where),
                settings=fixed,
            )
        )
    return made


def _is_of(cell: Cell, axes: Mapping[str, Any]) -> bool:
    wanted = {
        axis: _horizon(value, "figures") if axis == "horizon" else value for axis, value in axes.items()
    }
    return all(getattr(cell, axis) == value for axis, value in wanted.items())


def _horizon(value: Any, where: str) -> int | None:
    if value == OWN_HORIZON:
        return None
    return ALL if value == "all" else _whole(value, "horizon", where)


def _whole(value: Any, name: str, where: str) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{where}: {name} is {value!r}; expected a whole number, 1 or more")
    return value
