"""Which cells of a matrix have been run, which are missing, and which runs differ in something else as well."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from mnistpro_jax.analysis.by_run import MISSING
from mnistpro_jax.analysis.estimates import mean, proportion
from mnistpro_jax.analysis.sheet import Column, Row, Sheet
from mnistpro_jax.runs.missing import Missing
from mnistpro_jax.runs.stored import StoredRun
from mnistpro_jax.study.cells import ALL, Cell, Figure, Matrix, MatrixTable
from mnistpro_jax.worlds.published import PUBLISHED_EPISODES

_NOT_ASKED = ("agent", "scripted", "replay")
"""Kinds of models that are behind no API: one kind's "random" is not another's."""
_NEVER_A_DIFFERENCE = ("server",)
REQUEST_NAMES = {"last_turn_warning": "warning"}
"""Settings of a matrix whose field of ``RunRequest`` has another name."""
_WORLD = ("source", "split", "outline")
_CALLS = (
    "attempts retry last_turn_warning prompts enlarge detail "
    "temperature reasoning_effort max_tokens model_seed extra_body"
).split()
"""Settings of ``mnistpro run`` that a cell has at their defaults where it does not say otherwise."""


class State(enum.StrEnum):
    """What there is for a cell, best first."""

    PRESENT = "present"
    """A run with these settings, all episodes counted."""
    PARTIAL = "partial"
    """A run with these settings; some episodes are missing or did not count."""
    CONFOUNDED = "confounded"
    """Runs of the cell's model, level, memory, horizon and window that differ in other settings."""
    MISSING = "missing"


@dataclasses.dataclass(frozen=True)
class CellStatus:
    """run: the best one there is, None for a missing cell. differences: "name: it has A, the cell B", of a confounded
    one. planned: episodes that the cell has."""

    cell: Cell
    state: State
    run: StoredRun | None
    differences: tuple[str, ...]
    planned: int

    @property
    def missing(self) -> Missing | None:
        """What the run's accuracy lacks; None for a complete run, and without any."""
        if self.run is None:
            return None
        return self.run.missing_of(_planned(self.run, self.planned))


def status(matrix: Matrix, table: MatrixTable, runs: Sequence[StoredRun]) -> list[CellStatus]:
    """The state of each cell of a table, in the table's order."""
    return [_cell_status(cell, matrix, runs) for cell in table.cells]


def _cell_status(cell: Cell, matrix: Matrix, runs: Sequence[StoredRun]) -> CellStatus:
    planned = PUBLISHED_EPISODES
    found = []
    for run in runs:
        if _same_axes(cell, run, matrix):
            differences = _differences(cell, run)
            complete = len(run.records) >= max(1, _planned(run, planned))
            state = State.CONFOUNDED if differences else State.PRESENT if complete else State.PARTIAL
            found.append(CellStatus(cell, state, run, differences, planned))
    order = list(State)
    # Of several, the one that says most: by its state, then by fewest differences and most episodes.
    best = min(
        found,
        key=lambda one: (
            order.index(one.state),
            len(one.differences),
            -len(one.run.records) if one.run else 0,
        ),
        default=None,
    )
    return best or CellStatus(cell, State.MISSING, None, (), planned)


def _planned(run: StoredRun, published: int) -> int:
    """Episodes that a run has to count: those of the published list, or as many as it says."""
    return published if run.setting.episode_list == "published" else run.planned or 0


def is_model(name: str, stored: str, matrix: Matrix) -> bool:
    """Whether a stored run's model is a model of the matrix: by its name, or another name of it.

    Providers of APIs serve one model under one name; agents, scripts and replays are other things, whatever their name.
    """
    names = {name, *(matrix.models[name].also if name in matrix.models else ())}
    if name in matrix.models:
        names.add(matrix.models[name].run)
    run = matrix.models[name].run if name in matrix.models else name
    kinds = {_kind_and_bare(one)[0] for one in (stored, run)} - {None}
    return stored in names or (
        len(kinds) <= 1 and _kind_and_bare(stored)[1] in {_kind_and_bare(one)[1] for one in names}
    )


def _kind_and_bare(name: str) -> tuple[str | None, str]:
    """("api", one of ``_NOT_ASKED``, or None where it is not said; the name without provider and vendor, in small
    letters): "openrouter:z-ai/GLM-4.6v" is ("api", "glm-4.6v")."""
    from mnistpro_jax.host.models.chat_settings import PROVIDERS

    provider, colon, rest = name.partition(":")
    kind = provider if provider in _NOT_ASKED else "api" if provider in PROVIDERS else None
    if not colon or kind is None:
        return None, name.rsplit("/", 1)[-1].lower()
    return kind, (rest.rsplit("/", 1)[-1] if kind == "api" else rest).lower()


def _same_axes(cell: Cell, run: StoredRun, matrix: Matrix) -> bool:
    setting = run.setting
    return (
        (setting.level, setting.memory, setting.window) == (cell.level, cell.memory, cell.window)
        and _same_horizon(cell, setting.horizon)
        and is_model(cell.model, setting.model, matrix)
    )


def _same_horizon(cell: Cell, horizon: int | None) -> bool:
    """Whether a run's horizon is the cell's; a cell that names none has its memory's own."""
    from mnistpro_jax.host.memory import MEMORIES, horizon_of

    if cell.horizon is not None or cell.memory not in MEMORIES:
        return horizon == cell.horizon
    memory = MEMORIES[cell.memory]
    # Writers store different numbers for what a memory fixes.
    return memory.fixed_horizon or horizon == horizon_of(memory, None)


def _differences(cell: Cell, run: StoredRun) -> tuple[str, ...]:
    """In what else a run differs from its cell, whose settings are the defaults where it does not say.

    What a run does not say is taken to agree; `mnistpro run` and our task say all, so that there it is the default.
    """
    setting = run.setting
    wanted = _wanted(cell)
    others = dict(setting.others)
    # Agents of ours have settings of their own, which no cell fixes unless it says so.
    hosted = setting.harness != "agent"
    found = []
    for name, value in wanted.items():
        if hasattr(setting, name):
            has: Any = getattr(setting, name)
            differs = has != value
        elif name in others:
            has = others[name]
            differs = has != value and _value(has) != value
        elif hosted and run.writer != "reference" and name in _unset_by_default():
            has, differs = "none", value is not None
        else:
            continue
        if differs:
            found.append(f"{name.replace('_', ' ')} {has} instead of {_text(value)}")
    if hosted:
        known = {*wanted, *_NEVER_A_DIFFERENCE}
        found += [f"{name.replace('_', ' ')} {value}" for name, value in setting.others if name not in known]
    return tuple(found)


def _wanted(cell: Cell) -> dict[str, Any]:
    """What a run of a cell has beside the axes, by the names of ``Setting`` and of ``run.json``."""
    from mnistpro_jax.host import protocol
    from mnistpro_jax.host.prompts import load_pack

    defaults = _defaults()
    wanted: dict[str, Any] = {
        "stride": cell.stride,
        "budget": cell.budget,
        "episode_list": "published",
        **{name: defaults[REQUEST_NAMES.get(name, name)] for name in (*_WORLD, *_CALLS)},
        "protocol_version": protocol.VERSION,
        **dict(cell.settings),
    }
    # A pack may be a file, whose name is inside; of the digest, stored runs have the first signs.
    pack = load_pack(wanted["prompts"])
    return wanted | {"prompts": pack.name, "prompts_sha256": pack.digest[:8]}


def _defaults() -> dict[str, Any]:
    from mnistpro_jax.host.run_glimpse import RunRequest

    return {field.name: field.default for field in dataclasses.fields(RunRequest)}


def _unset_by_default() -> set[str]:
    """Settings that stored runs leave out where they are not set."""
    defaults = _defaults()
    return {name for name in _CALLS if defaults[REQUEST_NAMES.get(name, name)] is None}


def _value(text: str) -> Any:
    """A setting as a stored run has it, which is JSON unless it is a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return json.dumps(value) if isinstance(value, dict | list) else str(value)


def uncrossed(statuses: Sequence[CellStatus]) -> list[str]:
    """Comparisons that a table means to make and that its present cells do not allow, as sentences.

    An axis can be compared where two cells differ in it alone. Where the present cells have several values of an axis
    and no two of them differ in nothing else, its effect is confounded with another's; so it was in the published
    study, whose horizon and memory changed together.
    """
    sentences = []
    for model, level in sorted({(one.cell.model, one.cell.level) for one in statuses}):
        here = [one for one in statuses if (one.cell.model, one.cell.level) == (model, level)]
        declared = {_place(one.cell) for one in here}
        present = {_place(one.cell) for one in here if one.state in (State.PRESENT, State.PARTIAL)}
        for axis, name in enumerate(_COMPARED):
            if (
                len({place[axis] for place in present}) > 1
                and not _alone(present, axis)
                and _alone(declared, axis)
            ):
                cells = "; ".join(
                    ", ".join(f"{one} {_word(value)}" for one, value in zip(_COMPARED, place, strict=True))
                    for place in sorted(present, key=str)
                )
                sentences.append(
                    f"{model}, level {level}: {name} cannot be compared by itself, because no two present cells differ "
                    f"in it alone ({cells})"
                )
    return sentences


_COMPARED = ("memory", "horizon", "window")


def _place(cell: Cell) -> tuple[Any, ...]:
    return tuple(getattr(cell, name) for name in _COMPARED)


def _alone(places: set[tuple[Any, ...]], axis: int) -> bool:
    """Whether two of them differ in this axis and in no other."""
    return any(
        [k for k in range(len(_COMPARED)) if one[k] != other[k]] == [axis]
        for one, other in itertools.combinations(places, 2)
    )


def figure_for(cell: Cell, matrix: Matrix) -> tuple[str, Figure] | None:
    """(model, figure) printed for a cell: of its own model, for a model that is not of the study the best one of the
    same setting; None without any."""
    same = [
        (other.model, figure)
        for table in matrix.tables
        for other, figure in table.figures.items()
        if dataclasses.replace(other, model=cell.model) == cell
    ]
    names = matrix.models.get(cell.model)
    if names is not None and names.run != cell.model:
        return next((one for one in same if one[0] == cell.model), None)
    with_accuracy = [one for one in same if one[1].accuracy is not None]
    return max(with_accuracy, key=lambda one: one[1].accuracy or 0.0, default=None)


def status_sheet(matrix: Matrix, table: MatrixTable, statuses: Sequence[CellStatus]) -> Sheet:
    """The table: what there is for each cell, beside what was published."""
    rows: list[Row] = []
    for one in statuses:
        cell = one.cell
        row: Row = {
            "model": cell.model,
            "level": cell.level,
            "memory": cell.memory,
            "horizon": "" if cell.horizon is None else _word(cell.horizon),
            "window": cell.window,
            "state": one.state.value,
        }
        if one.run is not None:
            row["episodes"] = len(one.run.records)
            row["differences"] = "; ".join(one.differences)
            row["folder"] = one.run.path.name
            if one.run.records:
                row["accuracy"] = proportion(one.run.outcomes.correct)
                row["steps"] = mean(one.run.outcomes.steps)
            if one.missing is not None:
                low, high = one.missing.bounds
                row |= {"missing": one.missing.missing, "if_wrong": low, "if_right": high}
        printed = figure_for(cell, matrix)
        if printed is not None:
            model, figure = printed
            row["published"] = None if figure.accuracy is None else figure.accuracy / 100
            row["published_steps"] = figure.steps
            row["published_model"] = "" if model == cell.model else model
        rows.append(row)
    return Sheet(
        f"matrix-{table.name}",
        table.title,
        table.note,
        (
            Column("model", "model"),
            Column("level", "level"),
            Column("memory", "memory"),
            Column("horizon", "H"),
            Column("window", "window"),
            Column("state", "state"),
            Column("episodes", "episodes", "count"),
            Column("accuracy", "accuracy", "share"),
            *(MISSING if any(one.missing for one in statuses) else ()),
            Column("steps", "steps", "number"),
            Column(
                "published", "published", "share", f"as printed in {matrix.source}" if matrix.source else ""
            ),
            Column("published_steps", "its steps", "number"),
            Column("published_model", "of"),
            Column("differences", "confounded by"),
            Column("folder", "folder"),
        ),
        tuple(rows),
    )


def counts(statuses: Sequence[CellStatus]) -> Mapping[str, int]:
    """How many cells are in each state."""
    return {state.value: sum(one.state is state for one in statuses) for state in State}


def _word(value: Any) -> str:
    return "all" if value == ALL else str(value)
