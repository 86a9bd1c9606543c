"""The table of rooms is that of the contract, and the pages made from other files are up to date. No JAX."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """The script .ci/pages.py."""
    spec = importlib.util.spec_from_file_location("pages", ROOT / ".ci" / "pages.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_contract_names_every_room(pages: ModuleType) -> None:
    named = [room for layer in pages.layers() for room in layer]
    assert len(named) == len(set(named))
    assert set(named) == pages.rooms_on_disk()


def test_no_room_imports_upward(pages: ModuleType) -> None:
    """As lint-imports checks, and sure that the table's column of imports says the same."""
    seen: set[str] = set()
    for layer in reversed(pages.layers()):
        for room in layer:
            assert pages.imports(room) <= seen, room
        seen |= set(layer)


def test_pages_are_as_made(pages: ModuleType) -> None:
    for page, make in pages.PAGES.items():
        assert (ROOT / page).read_text("utf-8") == make(), f"{page}: run `python .ci/pages.py`"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A library of two rooms, with its page."""
    for room, text in {
        "upper": '"""Above. More."""\nfrom mnistpro_jax.lower import x\n',
        "lower": '"""Below."""\n',
    }.items():
        (tmp_path / "mnistpro_jax" / room).mkdir(parents=True)
        (tmp_path / "mnistpro_jax" / room / "__init__.py").write_text(text, "utf-8")
    (tmp_path / "pyproject.toml").write_text(
        '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["upper", "lower"]\n', "utf-8"
    )
    return tmp_path


def test_rows_come_from_contract_docstring_and_imports(pages: ModuleType, small: Path) -> None:
    table = pages.rooms_table(small).splitlines()[2:]
    assert table == ["| `upper/` | Above. More | `lower` |", "| `lower/` | Below | nothing of ours |"]
    (small / "pyproject.toml").write_text(
        '[[tool.importlinter.contracts]]\ntype = "layers"\nlayers = ["lower : upper"]\n', "utf-8"
    )
    assert pages.rooms_table(small).splitlines()[2:] == table[::-1]


@pytest.mark.parametrize("text", ["", "x = 1\n", '"""No sentence, because\nit goes on."""\n'])
def test_a_room_without_a_sentence_is_refused(pages: ModuleType, small: Path, text: str) -> None:
    (small / "mnistpro_jax" / "lower" / "__init__.py").write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r"lower/__init__\.py: .*expected one sentence"):
        pages.rooms_table(small)


def test_a_page_without_marks_is_refused(pages: ModuleType, small: Path) -> None:
    (small / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "agents.md", small / "docs" / "architecture.md")
    with pytest.raises(ValueError, match="lacks the lines"):
        pages.architecture_page(small)
