"""The page of the command names every command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnistpro_jax.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def test_every_command_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = set(re.findall(r"^  +(\w+)  +\w", capsys.readouterr().out, re.MULTILINE)) - {"help"}
    rows = re.findall(r"^\| (`mnistpro .*?) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {command for row in rows for command in re.findall(r"`mnistpro (\w+)`", row)} == listed
    assert "evaluate" in listed
