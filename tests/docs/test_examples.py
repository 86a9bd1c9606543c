"""The Python examples of README.md, BUILD.md, CONTRIBUTING.md and the pages of docs/ run as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax import registration
from mnistpro_jax.cli import main
from mnistpro_jax.env.bank import Bank

ROOT = Path(__file__).parents[2]
# The notebook's page runs as the notebook (test_notebook.py).
PAGES = [
    page
    for page in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    if page.name != "train_an_agent.md"
]
NEEDS = {"gymnasium": "gymnasium", "dm_env": "dm_env", "mctx": "mctx", "minari": "minari"}


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_adapter_has_a_page_with_an_example() -> None:
    modules = {path.stem for path in (ROOT / "mnistpro_jax" / "adapters").glob("*.py")}
    pages = {page.stem for page in PAGES if page.parent.name == "adapters" and examples(page)}
    assert pages == {"gymnasium", "gymnax", "brax", "dm_env", "jumanji", "mctx", "minari"}
    assert pages <= modules


def test_every_command_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    rows = re.findall(
        r"^\| (`mnistpro .*?) \|", (ROOT / "docs" / "command_line.md").read_text("utf-8"), re.MULTILINE
    )
    named = {command for row in rows for command in re.findall(r"`mnistpro (\w+)`", row)}
    assert named == set(re.findall(r"^  +(\w+)  +\w", listed, re.MULTILINE)) - {"help"}
    assert len(named) >= 11


@pytest.fixture(scope="module", autouse=True)
def _share_banks() -> Iterator[None]:
    """All examples show the same images: building their bank once is enough."""
    banks: dict[str, Bank] = {}
    build = registration._bank

    def shared(level: int, window: int, start: str, given: dict[str, Any]) -> Bank:
        name = repr((level, window, start, sorted(given.items())))
        if name not in banks:
            banks[name] = build(level, window, start, given)
        return banks[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registration, "_bank", shared)
        yield


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page)], ids=lambda page: str(page.relative_to(ROOT))
)
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.parent.name == "adapters" and page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    if page.stem == "analysis":  # it speaks of a run that is there
        assert main(["evaluate", "--agent", "planner", "--episodes", "20", "--out", "runs/planner-1"]) == 0
        capsys.readouterr()
    for number, source in enumerate(examples(page)):
        exec(compile(source, f"{page.name}, example {number + 1}", "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out
