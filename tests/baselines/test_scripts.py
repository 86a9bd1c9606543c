"""The training scripts from the shell: a tiny run, its resume, and what is said of nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
    command = ("--config", "ram_mnist", "--out", str(folder), "--updates")
    done = _run("train", *command, "3")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder.iterdir()} == {"checkpoint", "config.json", "curve.csv", "curve.png"}
    assert json.loads((folder / "config.json").read_text(encoding="utf-8"))["updates"] == 3
    refused = _run("train", *command, "4")
    assert refused.returncode == 1
    assert "updates = 3, but 4" in refused.stderr.splitlines()[-1]
    other = _run("score_ram", "--runs", str(tmp_path))
    assert other.returncode == 1
    assert "config.json" in other.stderr.splitlines()[-1]
    about = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**about, "updates": 4}), encoding="utf-8")
    unfinished = _run("score_ram", "--runs", str(folder))
    assert unfinished.returncode == 1
    assert "is at update 3 of 4" in unfinished.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("module", "arguments", "expected"),
    [
        ("train", ("--config", "nope"), "reader_tiny"),
        ("train", ("--config", "reader", "extra"), "unexpected argument 'extra'"),
        ("export", ("--run", "/nowhere"), "/nowhere/config.json: No such file"),
        ("tune", ("--confidences", "0.9x"), "'0.9x' is not a list of numbers"),
    ],
)
def test_nonsense_is_one_line(module: str, arguments: tuple[str, ...], expected: str) -> None:
    done = _run(module, *arguments)
    assert done.returncode != 0
    assert expected in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
