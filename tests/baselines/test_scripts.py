"""The training scripts from the shell: a tiny run, its resume, and what is said of nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from absl import app

from baselines.command import run

ROOT = Path(__file__).parents[2]


def _run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"baselines.{module}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=300,
    )


def test_a_tiny_run_and_another_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    small = ("--set", "batch=16", "--set", "glimpses=2", "--set", "held_out=100")
    command = ("--config", "ram_mnist", *small, "--out", str(folder), "--updates")
    done = _run("train", *command, "3")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == {"checkpoint", "config.json", "curve.csv", "curve.png"}
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["updates"] == 3
    refused = _run("train", *command, "4")
    assert refused.returncode == 1
    assert "updates = 3, but 4" in refused.stderr.splitlines()[-1]
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**about, "updates": 4}), encoding="utf-8")
    unfinished = _run("score_ram", "--runs", str(folder))
    assert unfinished.returncode == 1
    assert "is at update 3 of 4" in unfinished.stderr.splitlines()[-1]


def test_nonsense_that_absl_finds_is_no_traceback() -> None:
    done = _run("train", "--config", "nope")
    assert done.returncode != 0
    assert "reader_tiny" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("module", "arguments", "expected"),
    [
        ("train", ("--config", "reader", "extra"), "unexpected argument 'extra'"),
        ("export", ("--run", "/nowhere"), "/nowhere/config.json: No such file"),
        ("tune", ("--confidences", "0.9x"), "'0.9x' is not a list of numbers"),
    ],
)
def test_nonsense_is_one_line(module: str, arguments: tuple[str, ...], expected: str) -> None:
    done = _run(module, *arguments)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert expected in line


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (ValueError("two\nlines"), 1, "error: two lines"),
        (OSError("no file of that kind"), 1, "error: no file of that kind"),
        (OSError(2, "No such file", "x"), 1, "error: x: No such file"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_every_error_is_one_line(
    raised: BaseException,
    code: int,
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def main() -> None:
        raise raised

    codes: list[int] = []
    monkeypatch.setattr(app, "run", lambda guarded: codes.append(guarded(["program"])))
    run(main)
    assert codes == [code]
    assert capsys.readouterr().err == line + "\n"
