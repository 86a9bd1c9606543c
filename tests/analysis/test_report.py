"""The report is one file that needs nothing else; the command from end to end."""

from __future__ import annotations

import base64
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mnistpro_jax.analysis import plots
from mnistpro_jax.analysis.coverage import in_bin, least_seen
from mnistpro_jax.analysis.report import report
from mnistpro_jax.analysis.trajectories import canvas_url, replies
from mnistpro_jax.cli import main
from mnistpro_jax.runs.load import load_run, load_runs
from mnistpro_jax.worlds.published import PUBLISHED_FIGURES
from tests.runs import stored

_VOID = {"meta", "link", "img", "input", "br"}


class Page(HTMLParser):
    """Checks that elements close in order, and collects what they refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.scripts: dict[str | None, str] = {}
        self.svgs = 0
        self._script: str | None = None
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.references += [
            value for name, value in attrs if name in ("src", "href", "data", "action") and value
        ]
        self.svgs += tag == "svg"
        if tag == "script":
            self._script = named.get("id") or "code"
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._script = None

    def handle_data(self, data: str) -> None:
        if self._script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    stored.host_folder(folder / "a", 1, model="openai:</script><b>&", failed=2)
    stored.evaluate_folder(folder / "b", 1)
    stored.reference_folder(folder / "c", 2)
    return folder


def test_the_command_writes_everything(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page_file, markdown, csv = tmp_path / "r.html", tmp_path / "r.md", tmp_path / "csv"
    arguments = [
        "analyse",
        str(home),
        "--html",
        str(page_file),
        "--markdown",
        str(markdown),
        "--csv",
        str(csv),
        "--json",
    ]
    assert main([*arguments, "--title", "A & B", "--trajectories", "4"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert [run["level"] for run in found["runs"]] == [1, 1, 2]
    assert set(found["tables"]) >= {"main", "paired", "exploration", "stopping", "swap", "failures"}
    assert {path.stem for path in csv.iterdir()} == set(found["tables"])
    assert markdown.read_text().startswith("# A & B")
    assert printed.err.count("written") == 3

    text = page_file.read_text()
    page = Page(text)
    assert "<title>A &amp; B</title>" in text
    assert page.svgs == 2 * 5  # four plots and the bars, a level
    assert all(reference.startswith(("#", "data:")) for reference in page.references), page.references
    assert not re.search(r"https?://|@import|url\(", text)
    data = json.loads(page.scripts["episodes"])
    assert [len(run["episodes"]) for run in data["runs"]] == [4, 4, 4]
    first = data["runs"][0]["episodes"][0]
    assert first["said"] == [f"reply {step} </script><b>" for step in range(4)]
    assert first["windows"] == stored.records(1)[0]["windows"]
    thumb = Image.open(io.BytesIO(base64.b64decode(first["thumb"].split(",")[1])))
    assert thumb.size == (112, 112)
    # Thumbnails stand in columns as wide as their level's pictures, whatever is written below them.
    assert re.findall(r'<div class="thumbs" style="--digits:(\d)">', text) == ["1", "1", "2"]
    assert re.search(r"\.thumbs \{ display: grid; [^}]*112px \* var\(--digits\)", text)
    # One canvas an image, whoever shows it.
    assert len(data["canvases"]) == 4 + 4


def test_runs_of_one_folder_name_are_two_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored.evaluate_folder(tmp_path / "r1" / "x")
    stored.evaluate_folder(tmp_path / "r2" / "x", scripts=stored.SCRIPTS[:4])
    page_file = tmp_path / "r.html"
    assert main(["analyse", str(tmp_path), "--json", "--html", str(page_file)]) == 0
    rows = json.loads(capsys.readouterr().out)["tables"]["swap"]["rows"]
    assert [(row["run"], row["episodes"]) for row in rows] == [("planner (r1/x)", 7), ("planner (r2/x)", 4)]
    assert re.findall(r'<details data-run="([^"]*)"', page_file.read_text()) == ["0", "1"]


def test_an_unfinished_run_is_drawn_as_one(tmp_path: Path) -> None:
    stored.host_folder(tmp_path / "cut", failed=2)
    stored.host_folder(tmp_path / "whole", failed=0, memory="grid-map")
    cut, whole = load_runs([tmp_path])
    marks = ('class="warning"', 'stroke-dasharray="2 4"', 'class="k6"', "missing", "unfinished")
    page, complete = (report(runs, [], {}, trajectories=0) for runs in ([whole, cut], [whole]))
    for text, lacks in ((page, True), (complete, False)):
        body = text.split("</style>")[1]
        assert [mark in body for mark in marks] == [lacks] * len(marks)
    assert Page(page).svgs == Page(complete).svgs == 5
    # The dashed line goes from 3 of 7 right to 5 of 7, whatever was drawn before it.
    (line,) = re.findall(r"<line [^>]*stroke-dasharray=\"2 4\"", page)
    (top,), (bottom,) = (re.findall(rf'{name}="([\d.]+)"', line) for name in ("y2", "y1"))
    height = 320 - 12 - 44  # of the plot, less what stands above and below
    assert (float(bottom) - float(top)) / height == pytest.approx(2 / 7, abs=1e-3)
    assert "accuracy of all 7 lies between 42.9 % (all missing wrong) and 71.4 % (all missing right)" in page


def test_everything_drawn_has_its_name_on_the_page(tmp_path: Path) -> None:
    run = load_run(stored.host_folder(tmp_path / "a", failed=0))
    page = report([run], [], {}, trajectories=0)
    said = re.sub(r"<title>.*?</title>", "", page)  # what shows on hovering alone is no name
    for number, figure in enumerate(PUBLISHED_FIGURES[1], start=1):
        assert f"<li><b>{number}</b>{figure.model}, {figure.setting}:" in said
        assert f">{number}</text>" in said
    # None of the four groups has five episodes: each that has any is named with their number.
    counts = [int(in_bin(least_seen(run.outcomes), k).sum()) for k in range(4)]
    few = ", ".join(f"{25 * k} to {25 * k + 25} ({count})" for k, count in enumerate(counts) if 0 < count < 5)
    assert few and f"Not drawn, with fewer than 5 episodes: {run.name}: {few}." in said


def test_what_a_model_replied_cannot_break_the_page(tmp_path: Path) -> None:
    folder = stored.host_folder(tmp_path / "a")
    evil = "<!-- <script> \u2028 </ScRiPt>"
    log = folder / "log" / "0000.jsonl"
    log.write_text(log.read_text().replace("reply 0 </script><b>", evil.replace("\u2028", "\\u2028")))
    text = report([load_run(folder)], [], {}, trajectories=1)
    stored_json = text.split('id="episodes">')[1].split("</script>")[0]
    assert "<" not in stored_json
    assert json.loads(stored_json)["runs"][0]["episodes"][0]["said"][0] == evil


def test_the_terminal_has_tables(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", str(home / "b"), "--readers"]) == 0
    printed = capsys.readouterr().out
    assert "#1  planner" in printed and "Accuracy and steps" in printed and "42.9 %" in printed
    assert "Predictor swap" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no folder nowhere"),
        (["HOME", "--html", "no/where/r.html"], "there is no folder"),
        (["HOME", "--html", "HOME"], "is a folder; expected a file to write to"),
        (["HOME", "--markdown", "HOME"], "is a folder; expected a file to write to"),
        (["HOME", "--csv", __file__], "is a file; expected a folder"),
        (["HOME", "--trajectories", "-1"], "not a whole number, 0 or more"),
        (["HOME", "--readers", "me"], "unknown reader 'me'"),
        (["HOME", "--readers", "openai:x"], "give --answers FILE"),
    ],
)
def test_nonsense_is_one_line(
    home: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["analyse", *(str(home) if word == "HOME" else word for word in arguments)]) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and printed.out == ""


def test_canvases_survive_their_png() -> None:
    canvas = stored.episodes(2)[0].canvas
    image = Image.open(io.BytesIO(base64.b64decode(canvas_url(canvas).split(",")[1])))
    np.testing.assert_array_equal(np.asarray(image.convert("L")), canvas)


def test_replies_of_a_torn_log(tmp_path: Path) -> None:
    folder = stored.host_folder(tmp_path / "a")
    log = folder / "log" / "0000.jsonl"
    log.write_text("\n".join(log.read_text().splitlines()[:-1])[:-10])
    record = stored.records(1)[0]
    assert replies(folder, record) == [*(f"reply {step} </script><b>" for step in range(3)), ""]
    assert replies(tmp_path / "nowhere", record) == []


def test_axes_place_values_where_they_belong() -> None:
    axis = plots.percent_axis("x", low=0.2)
    assert (axis.share(0.2), axis.share(1.0), axis.share(0.6)) == pytest.approx((0, 1, 0.5))
    steps = plots.steps_axis(36, "steps")
    assert steps.share(2) - steps.share(1) == pytest.approx(steps.share(20) - steps.share(10))
    assert [text for _, text in steps.ticks] == ["1", "2", "5", "10", "20"]
    svg = plots.stacked_bars([("a<b", (1, 0, 3))], ("x", "y", "z"))
    assert "a&lt;b" in svg and svg.count("<rect") == 2 and "x: 1 of 4 (25.0%)" in svg
    # Long names differ at their ends, which stay.
    ends = [plots.stacked_bars([("m" * 60 + end, (1,))], ("x",)) for end in ("one", "two")]
    assert ends[0].split("<title>")[0] != ends[1].split("<title>")[0]
