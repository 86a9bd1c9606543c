"""The command itself: help, and one line for nonsense, faults and full disks."""

from __future__ import annotations

import subprocess
import sys

import pytest

import mnistpro_jax
from mnistpro_jax.agents import agent_names
from mnistpro_jax.cli import main
from tests.cli.runs import RANDOM, one_line, process


@pytest.mark.parametrize("command", ["evaluate", "agents", "envs", "render"])
def test_help_ends_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert f"example: mnistpro {command}" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mnistpro {mnistpro_jax.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "no command; expected one of evaluate, "),
        (["play"], "evaluate"),
        (["evaluate", "--agent", "oracle"], ", ".join(agent_names())),
        (["evaluate", "--level", "0"], "1 to 99"),
        (["evaluate", "--level", "two"], "1 to 99"),
        (["evaluate", "--level", "3"], "levels 1 and 2"),
        (["evaluate", "--episodes", "-3"], "'published' or a whole number, 1 or more"),
        (["evaluate", "--episodes", "abc"], "'published' or a whole number, 1 or more"),
        (["evaluate", "--episodes", "0"], "'published' or a whole number, 1 or more"),
        (["evaluate", "--split", "validation"], "'train', 'test'"),
        (["evaluate", "--data", "cifar", "--episodes", "5"], '"idx:FOLDER"'),
        (["evaluate", "--data", "idx:/nowhere", "--episodes", "5"], "/nowhere"),
        (["evaluate", "--data", "idx:/nowhere"], "published episodes"),
        (["evaluate", "--agent", "random", "--split", "train"], "published episodes"),
        (["evaluate", "--seed", "-1"], "0 to 4294967295"),
        (["evaluate", "--confidence", "nan"], "probability"),
        (["evaluate", "--confidence", "sure"], "probability"),
        (["evaluate", "--confidence", "-0.1"], "probability"),
        (["evaluate", "--confidence", "0.9", "0.90"], "twice"),
        (["evaluate", "--agent", "random", "--confidence", "0.9"], "does not read"),
        (["evaluate", "--agent", "random", "--window", "300"], "224"),
        (["evaluate", "--agent", "random", "--episodes", "3", "--window", "225"], "224"),
        (["evaluate", "--agent", "random", "--episodes", "3", "--window", "3"], "needs 4"),
        (["evaluate", "--agent", "random", "--stride", "0"], "1 or more"),
        (["evaluate", "--budget", "0"], "1 or more"),
        (["evaluate", "--batch", "0"], "1 or more"),
        (["evaluate", "--pictures", "2"], "--out DIR"),
        (["evaluate", "--overwrite"], "--out DIR"),
        (["evaluate", "--wat"], "--wat"),
        (["evaluate", "--agent", "canvas", "--window", "96"], "trained for window 64"),
        (["evaluate", "--agent", "glimpse", "--window", "96"], "trained for window 64"),
        (["evaluate", "--agent", "glimpse", "--weights", "/nowhere"], "no weights 'glimpse' lie in /nowhere"),
        (["evaluate", "--weights", "/nowhere"], "no trained weights"),
        (["frontier", "--agents", "random"], "no confidence"),
        (["frontier", "--agents", "oracle"], ", ".join(agent_names())),
        (["frontier", "--out", "/nowhere/at/all.png"], "there is no folder"),
        (["frontier", "--out", "/"], "--out: / is a folder"),
        (["frontier", "--out", "/proc/x.png"], "cannot write to the folder /proc"),
        (["frontier", "--agents", "observer", "coverage", "--weights", "/nowhere"], "has trained weights"),
        (["frontier", "--level", "3", "--episodes", "published"], "levels 1 and 2"),
        (["render", "somewhere"], "--episode"),
        (["render", "somewhere", "--episode", "-1"], "0 or more"),
        (["render", "somewhere", "--episode", "1", "--gif", "--sheet"], "--gif"),
    ],
)
def test_nonsense_gets_one_line(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    text = one_line(capsys)
    assert expected in text or (expected.startswith("'train'") and "train, test" in text)


def test_unexpected_errors_offer_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a fault\nin two lines")

    monkeypatch.setattr("mnistpro_jax.evaluation.evaluate.rollout", broken)
    assert main(RANDOM) == 1
    assert "MNISTPRO_DEBUG=1" in one_line(capsys)
    monkeypatch.setenv("MNISTPRO_DEBUG", "1")
    assert main(RANDOM) == 1
    assert "Traceback" in capsys.readouterr().err


def test_process_fails_with_one_line() -> None:
    done = process("evaluate", "--level", "0")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("mnistpro: error: ") and done.stderr.count("\n") == 1


def test_help_does_not_load_jax() -> None:
    code = "import sys; from mnistpro_jax.cli import main; main(['--help']); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
