"""The published matrix as data, what it says of stored runs, and running what is missing."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.cli import main
from mnistpro_jax.host.memory import MEMORIES, horizon_of, memory_of
from mnistpro_jax.host.spent import spent_in
from mnistpro_jax.runs.load import load_run, load_runs
from mnistpro_jax.study import filling
from mnistpro_jax.study.cells import Cell, load_matrix
from mnistpro_jax.study.status import State, figure_for, is_model, status, uncrossed
from mnistpro_jax.worlds.published import PUBLISHED_BEST, PUBLISHED_FIGURES
from tests.runs import stored

MODEL = "gemini:gemini-3.7-flash"

SMALL = """
name = "small"
[settings]
attempts = 3
[models]
script = { run = "scripted:answer" }
[[table]]
name = "one"
cells = { memory = ["image-only"], horizon = [1], level = [1] }
"""


def hundred(**run: Any) -> Any:
    """A stored run whose records pretend to be all 100 episodes."""
    return dataclasses.replace(
        run["run"], records=tuple(run["run"].records[0] | {"episode": k} for k in range(100))
    )


def test_the_published_matrix_can_be_run_as_it_stands() -> None:
    matrix = load_matrix()
    assert {table.name for table in matrix.tables} == {"control", "memory", "natural", "canvas", "glimpse"}
    cells = [cell for table in matrix.tables for cell in table.cells]
    for cell in cells:
        memory = memory_of(cell.memory)  # raises for one that does not exist
        horizon_of(memory, cell.horizon)
        assert cell.model in matrix.models
        assert cell.stride * 2 == cell.window
    memory_table = matrix.table("memory")
    assert len(memory_table.cells) == 9 * 2 * (4 * 2 + 1)
    assert {cell.window for cell in matrix.table("glimpse").cells} == {32, 64, 128}
    assert {cell.memory for cell in memory_table.cells} <= set(MEMORIES)


def test_its_figures_are_those_that_the_package_knows() -> None:
    matrix = load_matrix()
    names = {"natural": "native multi-turn", "canvas": "online memory canvas"}
    for table, setting in names.items():
        for level, figures in PUBLISHED_FIGURES.items():
            known = {f.model: (f.accuracy_percent, f.mean_steps) for f in figures if f.setting == setting}
            here = {
                cell.model: (figure.accuracy, figure.steps)
                for cell, figure in matrix.table(table).figures.items()
                if cell.level == level and figure.steps is not None
            }
            assert here == known
    best = max(f.accuracy or 0 for table in matrix.tables for f in table.figures.values())
    assert best < PUBLISHED_BEST[1].accuracy_percent  # the tool harness is no cell


def test_budgets() -> None:
    def cell(**changes: Any) -> Cell:
        return dataclasses.replace(Cell("m", 1, "textual", 1, 64, 32), **changes)

    assert cell().budget == 36 and cell(level=2).budget == 78
    assert cell(window=32, stride=16).budget == 169 and cell(window=128, stride=64).budget == 4
    assert cell(memory="full-image", horizon=None).budget == 1


def test_models_by_their_other_names() -> None:
    matrix = load_matrix()
    for stored_name in ("gemini:gemini-3.7-flash", "gemini-3.7-flash", "openrouter:google/Gemini-3.7-Flash"):
        assert is_model("Gemini-3.7-Flash", stored_name, matrix)
    assert not is_model("Gemini-3.7-Flash", "gemini-3.6-flash", matrix)
    assert is_model("agent:planner", "agent:planner", load_matrix(models=["agent:planner"]))
    # One name may be an agent, a script and a served model: three different things.
    theirs = load_matrix(models=["agent:random", "openai:random", "openai-compatible:qwen3:8b", "openai:8b"])
    assert is_model("agent:random", "random", theirs)
    for other in ("scripted:random", "openai:random", "replay:random"):
        assert not is_model("agent:random", other, theirs)
        assert other == "openai:random" or not is_model("openai:random", other, theirs)
    assert is_model("openai-compatible:qwen3:8b", "qwen3:8b", theirs)
    assert not is_model("openai:8b", "openai-compatible:qwen3:8b", theirs)


def test_cells_are_present_partial_confounded_or_missing(tmp_path: Path) -> None:
    stored.host_folder(tmp_path / "a", model=MODEL, memory="textual", horizon=1, failed=0)
    stored.host_folder(tmp_path / "b", model=MODEL, memory="grid-map", horizon=1, budget=40, attempts=1)
    stored.host_folder(tmp_path / "c", model=MODEL, memory="event-log", horizon=-1, failed=0)
    stored.host_folder(tmp_path / "d", model=MODEL, memory="natural", horizon=-1)
    stored.reference_folder(tmp_path / "e", 2)
    runs = [hundred(run=run) if run.path.name == "c" else run for run in load_runs([tmp_path])]
    matrix = load_matrix()
    found = {one.cell: one for table in matrix.tables for one in status(matrix, table, runs)}

    def state(memory: str, horizon: int | None, level: int = 1) -> Any:
        (one,) = (
            one
            for cell, one in found.items()
            if (cell.model, cell.memory, cell.horizon, cell.level, cell.window)
            == ("Gemini-3.7-Flash", memory, horizon, level, 64)
        )
        return one

    assert state("textual", 1).state is State.PARTIAL
    assert state("event-log", -1).state is State.PRESENT
    assert state("natural", None).state is State.PARTIAL
    assert state("textual", -1).state is State.MISSING
    confounded = state("grid-map", 1)
    assert confounded.state is State.CONFOUNDED
    assert confounded.differences == ("budget 40 instead of 36", "attempts 1 instead of 3")
    # The reference gives two steps more at level 2 than 78; here its folder says 36.
    assert state("textual", 1, 2).differences == ("budget 36 instead of 78",)
    others = [one for cell, one in found.items() if cell.model != "Gemini-3.7-Flash"]
    assert {one.state for one in others} == {State.MISSING}


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"temperature": 2.0}, "temperature 2.0 instead of none"),
        ({"reasoning_effort": "high"}, "reasoning effort high instead of none"),
        ({"max_tokens": 5}, "max tokens 5 instead of none"),
        ({"model_seed": 1}, "model seed 1 instead of none"),
        ({"detail": "low"}, "detail low instead of none"),
        ({"extra_body": {"a": 1}}, 'extra body {"a": 1} instead of none'),
        ({"prompts": "mine"}, "prompts mine instead of plain"),
        ({"prompts_sha256": "f" * 64}, "prompts sha256 ffffffff instead of"),
        ({"protocol_version": 99}, "protocol version 99 instead of 1"),
        ({"retry": "repair"}, "retry repair instead of repeat"),
        ({"source": "fashion"}, "source fashion instead of mnist"),
        ({"split": "train"}, "split train instead of test"),
        ({"outline": False}, "outline False instead of True"),
        ({"episode_list": "random"}, "episode list random instead of published"),
        ({"of_a_later_version": 3}, "of a later version 3"),
        ({"server": "api.example.org"}, None),
    ],
)
def test_every_other_setting_confounds(
    tmp_path: Path, change: dict[str, Any], difference: str | None
) -> None:
    run = load_run(stored.host_folder(tmp_path / "a", model="scripted:answer", memory="image-only", **change))
    path = tmp_path / "m.toml"
    path.write_text(SMALL)  # which says nothing of them
    matrix = load_matrix(path)
    (one,) = status(matrix, matrix.tables[0], [hundred(run=run)])
    if difference is None:
        assert one.state is State.PRESENT and one.differences == ()
    else:
        assert one.state is State.CONFOUNDED
        assert len(one.differences) == 1 and one.differences[0].startswith(difference)


def test_a_cell_may_declare_other_settings(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(SMALL.replace("attempts = 3", "attempts = 3\ntemperature = 2\nextra_body = { a = 1 }"))
    matrix = load_matrix(path)

    def differences(name: str, **config: Any) -> tuple[str, ...]:
        folder = stored.host_folder(tmp_path / name, model="scripted:answer", memory="image-only", **config)
        (one,) = status(matrix, matrix.tables[0], [hundred(run=load_run(folder))])
        return one.differences

    assert differences("a", temperature=2.0, extra_body={"a": 1}) == ()
    assert differences("b", extra_body={"a": 1}) == ("temperature none instead of 2",)


def test_a_horizon_that_is_left_out_is_the_memorys_own(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text(SMALL.replace("horizon = [1], ", ""))
    matrix = load_matrix(path)
    states = []
    for horizon in (4, 1):
        folder = stored.host_folder(
            tmp_path / f"h{horizon}", model="scripted:answer", memory="image-only", horizon=horizon
        )
        (one,) = status(matrix, matrix.tables[0], [hundred(run=load_run(folder))])
        states.append(one.state)
    assert states == [State.PRESENT, State.MISSING]


def test_reference_runs_need_not_say_how_they_were_called(tmp_path: Path) -> None:
    run = load_run(stored.reference_folder(tmp_path, 1))
    matrix = load_matrix()
    states = {
        one.cell: one.state
        for one in status(matrix, matrix.table("memory"), [hundred(run=run)])
        if one.run is not None
    }
    assert list(states.values()) == [State.PRESENT]


def test_axes_that_change_together_are_named(tmp_path: Path) -> None:
    stored.host_folder(tmp_path / "a", model=MODEL, memory="textual", horizon=1)
    stored.host_folder(tmp_path / "b", model=MODEL, memory="event-log", horizon=-1)
    matrix = load_matrix()
    table = matrix.table("memory")
    sentences = uncrossed(status(matrix, table, load_runs([tmp_path])))
    assert len(sentences) == 2
    assert "memory cannot be compared by itself" in sentences[0]
    assert "horizon cannot be compared by itself" in sentences[1]
    stored.host_folder(tmp_path / "c", model=MODEL, memory="textual", horizon=-1)
    assert uncrossed(status(matrix, table, load_runs([tmp_path]))) == []


def test_published_figures_stand_beside_cells() -> None:
    matrix = load_matrix(models=["openai:new"])
    cell = next(c for c in matrix.table("natural").cells if c.level == 2)
    assert cell.model == "openai:new"
    printed = figure_for(cell, matrix)
    assert printed is not None and (printed[0], printed[1].accuracy) == ("Gemini-3.7-Flash", 47.0)
    known = dataclasses.replace(cell, model="GLM-4.6V")
    printed = figure_for(known, load_matrix())
    assert printed is not None and printed[1].accuracy == 0.0
    assert figure_for(dataclasses.replace(cell, model="Claude-5-Opus"), load_matrix()) is None


def test_work_is_what_is_not_present(tmp_path: Path) -> None:
    stored.host_folder(tmp_path / "a", model=MODEL, memory="textual", horizon=1)
    matrix = load_matrix()
    table = matrix.table("memory")
    statuses = [
        one for one in status(matrix, table, load_runs([tmp_path])) if one.cell.model == "Gemini-3.7-Flash"
    ]
    work = filling.work_for(
        statuses, matrix, tmp_path / "new", other_names={"Gemini-3.7-Flash": "openrouter:g"}
    )
    assert len(work) == 18
    by_cell = {one.cell: one.request for one in work}
    for cell, request in by_cell.items():
        assert (request.model, request.level, request.memory, request.horizon) == (
            "openrouter:g",
            cell.level,
            cell.memory,
            cell.horizon,
        )
        assert (request.attempts, request.retry, request.warning, request.enlarge) == (3, "repeat", True, 1)
    resumed = [request for request in by_cell.values() if request.out == tmp_path / "a"]
    assert len(resumed) == 1 and resumed[0].memory == "textual"
    assert len({request.out for request in by_cell.values()}) == 18


def test_the_command_fills_a_matrix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix = tmp_path / "small.toml"
    matrix.write_text(SMALL)
    runs = tmp_path / "runs"
    command = ["matrix", str(runs), "--matrix", str(matrix)]
    assert main(command) == 0
    assert "1 missing" in capsys.readouterr().out
    assert main([*command, "--dry-run", "--assume-steps", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (forecast,) = found["cells"]
    assert (forecast["calls"], forecast["pictures"]) == (300, 300)
    # Nobody knows what it costs without prices, one cell or all.
    assert found["all"] == {name: forecast[name] for name in found["all"]}
    assert found["all"]["cost"] is None and main([*command, "--dry-run"]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("all")] == [
        "-"
    ]
    assert not runs.exists()
    assert main([*command, "--run"]) == 0
    assert "1 present" in capsys.readouterr().out
    (folder,) = runs.iterdir()
    assert folder.name == "script-l1-image-only-h1"
    before = (folder / "episodes.jsonl").read_bytes()
    assert main([*command, "--run", "--json", "--csv", str(tmp_path / "csv")]) == 0
    assert (folder / "episodes.jsonl").read_bytes() == before
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert table["counts"] == {"present": 1, "partial": 0, "confounded": 0, "missing": 0}
    assert table["rows"][0]["episodes"] == 100
    assert (tmp_path / "csv" / "matrix-one.csv").is_file()
    assert len(load_run(folder).records) == 100


def test_a_limit_of_cost_holds_for_earlier_sessions_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix, prices, runs = tmp_path / "m.toml", tmp_path / "prices.toml", tmp_path / "runs"
    matrix.write_text(SMALL.replace("horizon = [1]", "horizon = [1, 4]"))
    prices.write_text("[answer]\ninput = 1000000.0\noutput = 1000000.0\n")

    def command(limit: float, *options: str) -> int:
        spending = ["--run", "--max-cost", repr(limit), "--price-file", str(prices)]
        return main(["matrix", str(runs), "--matrix", str(matrix), *spending, *options])

    def costs() -> list[float]:
        return [spent_in(folder, prices) for folder in sorted(runs.iterdir())]

    assert command(1e9, "--first", "1") == 0
    (first,) = costs()
    assert first == json.loads(next(runs.glob("*/summary.json")).read_text())["cost"] > 0
    capsys.readouterr()
    assert command(first) == 1
    assert "is reached" in capsys.readouterr().err and costs() == [first]
    # The second cell stops in its middle; then it goes on, with what it has cost itself counted once.
    assert command(1.5 * first) == 1
    assert first < sum(costs()) <= 1.5 * first
    half = costs()[1]
    assert half > 0
    assert command(1.9 * first) == 1
    assert half < costs()[1] and sum(costs()) <= 1.9 * first
    assert command(2.5 * first) == 0
    assert sum(costs()) == 2 * first
    prices.write_text("[another]\ninput = 1.0\noutput = 1.0\n")
    matrix.write_text(SMALL.replace("horizon = [1]", "horizon = [1, 2]"))
    capsys.readouterr()
    assert command(5 * first) == 2
    assert "has no price of 'answer'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[models]", "[nodels]"), "expected [models]"),
        (("run =", "ran ="), "models.script does not say how to run it"),
        (("level = [1]", "level = 1"), "level is no list"),
        (("level = [1]", 'level = ["x"]'), "level is 'x'; expected a whole number"),
        (("memory =", "memories ="), "cells are lists by"),
        (('name = "one"', 'name = "one"\nfoo = 1'), "has unknown foo"),
        (("[[table]]", "[tables]"), "expected at least one [[table]]"),
        (("[models]", "[models"), "is no TOML file"),
        (('name = "one"', 'name = "one"\nmodels = ["x"]'), "names models that [models] does not: x"),
        (
            ('name = "one"', 'name = "one"\nfigures = [{ model = "script", level = 2, accuracy = 1.0 }]'),
            "belongs to 0 cells",
        ),
    ],
)
def test_bad_matrices_are_named(
    tmp_path: Path, change: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.toml"
    path.write_text(SMALL.replace(*change))
    assert main(["matrix", str(tmp_path), "--matrix", str(path)]) == 2
    printed = capsys.readouterr().err
    assert message in printed and printed.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--table", "dreams"], "there is no table 'dreams'; expected one of control, memory"),
        (["--as", "Nobody=x"], "expected NAME=MODEL"),
        (["--matrix", "no.toml"], "no.toml"),
        (["--first", "0"], "not a whole number, 1 or more"),
        (["--max-cost", "nan"], "--max-cost is nan"),
    ],
)
def test_nonsense_is_one_line(
    tmp_path: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matrix", str(tmp_path), *options]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and printed.out == ""


def test_our_own_matrices_load() -> None:
    for path in sorted((Path(__file__).parents[2] / "experiments").glob("*.toml")):
        matrix = load_matrix(path)
        for table in matrix.tables:
            for cell in table.cells:
                horizon_of(memory_of(cell.memory), cell.horizon)
