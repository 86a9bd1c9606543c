"""Running the cells that are missing: each becomes a folder of ``mnistpro run``, which resumes where it stopped."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.host.dry_run import Forecast
from mnistpro_jax.host.run import Note, Report, RunOutcome
from mnistpro_jax.host.run_glimpse import RunRequest, dry_run, run
from mnistpro_jax.host.spent import spent_in
from mnistpro_jax.study.cells import Cell, Matrix
from mnistpro_jax.study.status import REQUEST_NAMES, CellStatus, State

_FIXED = ("episode_list", "harness")  # what `mnistpro run` always does in a cell


@dataclasses.dataclass(frozen=True)
class Work:
    """A cell that is to be run, and how."""

    cell: Cell
    request: RunRequest


def work_for(
    statuses: Sequence[CellStatus],
    matrix: Matrix,
    home: Path,
    *,
    other_names: dict[str, str] | None = None,
    session: dict[str, Any] | None = None,
) -> list[Work]:
    """What has to be run so that every cell is present: missing and confounded cells anew, partial ones on.

    home: folder of the runs. other_names: what ``--model`` takes, by the model's name in the matrix. session: further
    fields of ``RunRequest``, such as concurrency. Raises ValueError for a cell that ``mnistpro run`` cannot run.
    """
    made = []
    for one in statuses:
        if one.state is State.PRESENT:
            continue
        cell = one.cell
        settings = dict(cell.settings)
        if (
            settings.get("episode_list", "published") != "published"
            or settings.get("harness", "turns") != "turns"
        ):
            raise ValueError(f"cell {cell.label} is no setting of `mnistpro run`")
        fields = {
            REQUEST_NAMES.get(name, name): value for name, value in settings.items() if name not in _FIXED
        }
        known = {field.name for field in dataclasses.fields(RunRequest)}
        unknown = sorted(set(fields) - known)
        if unknown:
            raise ValueError(f"cell {cell.label}: `mnistpro run` has no setting {', '.join(unknown)}")
        name = (other_names or {}).get(cell.model)
        model = name or (matrix.models[cell.model].run if cell.model in matrix.models else cell.model)
        resumed = one.run is not None and one.state is State.PARTIAL and one.run.writer == "mnistpro"
        out = one.run.path if resumed and one.run is not None else _free(home / cell.slug, one)
        request = RunRequest(
            model=model,
            out=out,
            level=cell.level,
            memory=cell.memory,
            horizon=cell.horizon,
            window=cell.window,
            stride=cell.stride,
            **{**fields, **(session or {})},
        )
        made.append(Work(cell, request))
    return made


def _free(folder: Path, one: CellStatus) -> Path:
    """The cell's folder, where it resumes; another name where a confounded run has it."""
    if one.state is State.MISSING:
        return folder
    names = itertools.chain(
        [folder], (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(2))
    )
    return next(path for path in names if one.run is None or path.resolve() != one.run.path.resolve())


def forecast(work: Sequence[Work], assume_steps: int | None = None) -> list[tuple[Work, Forecast]]:
    """What each cell would take: for episodes of ``assume_steps``, or at most. Asks nobody."""
    found = []
    for one in work:
        made = dry_run(one.request, assume_steps)
        found.append((one, made.assumed or made.at_most))
    return found


def fill(
    work: Sequence[Work],
    say: Callable[[str], None],
    report: Report | None = None,
    note: Note | None = None,
    statuses: Sequence[CellStatus] = (),
) -> tuple[list[RunOutcome], str | None]:
    """Run the cells one after another; (what came of them, why it stopped early, None where it did not).

    A limit of cost in the requests holds for all of them together, and for what the runs of ``statuses`` cost already:
    those that are a cell's, whole or in part. Raises ValueError where a limit is given and the price file lacks the
    price of one of these runs.
    """
    outcomes: list[RunOutcome] = []
    paid = _paid(work, statuses)
    for number, one in enumerate(work, start=1):
        request = one.request
        if request.max_cost is not None and request.out is not None:
            spent, here = sum(paid.values()), paid.get(request.out.resolve(), 0.0)
            if spent >= request.max_cost:
                return (
                    outcomes,
                    f"the limit of cost, {request.max_cost:g}, is reached ({spent:.4f} spent in all cells)",
                )
            # A run counts what its folder has cost before against its limit.
            request = dataclasses.replace(request, max_cost=request.max_cost - (spent - here))
        say(f"cell {number} of {len(work)}: {one.cell.label}")
        outcome = run(request, report, note)
        outcomes.append(outcome)
        if request.out is not None:
            prices = request.price_file if request.max_cost is not None else None
            paid[request.out.resolve()] = 0.0 if prices is None else spent_in(request.out, prices)
        if outcome.interrupted or outcome.stopped:
            return outcomes, outcome.problem or "stopped"
    return outcomes, None


def _paid(work: Sequence[Work], statuses: Sequence[CellStatus]) -> dict[Path, float]:
    """What has been spent in each folder so far; {} where there is no limit of cost."""
    prices = [one.request.price_file for one in work if one.request.max_cost is not None]
    if not prices or prices[0] is None:
        return {}
    folders = [one.run.path for one in statuses if one.run and one.state in (State.PRESENT, State.PARTIAL)]
    folders += [one.request.out for one in work if one.request.out is not None]
    return {folder: spent_in(folder, prices[0]) for folder in {path.resolve() for path in folders}}
