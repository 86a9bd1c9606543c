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
from mnistpro_jax.analysis.report import report
from mnistpro_jax.analysis.trajectories import canvas_url, replies
from mnistpro_jax.cli import main
from mnistpro_jax.runs.load import load_run
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
