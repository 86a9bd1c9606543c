"""What the site rests on: links outside it, a reference page for each room, and the check of built pages."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE = [*sorted(ROOT.glob("*.md")), ROOT / "baselines" / "README.md", ROOT / "experiments" / "README.md"]


def script(name: str) -> ModuleType:
    """A script of .ci/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_outside_the_site_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (page.parent / link).exists()]


def test_pages_shown_in_the_site_have_no_relative_links() -> None:
    """They are read at another place there."""
    for page in ("BUILD.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        assert not re.findall(r"\]\((?!https?://|#)", (ROOT / page).read_text(encoding="utf-8")), page


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "BUILD.md"])
def test_files_that_are_named_are_there(page: str) -> None:
    named = re.findall(r"`([\w/.]+/[\w.]*|\w+\.py)`", (ROOT / page).read_text(encoding="utf-8"))
    folders = (ROOT, ROOT / "mnistpro_jax", ROOT / "mnistpro_jax" / "adapters")
    assert named
    assert not [name for name in named if not any((folder / name).exists() for folder in folders)]


def test_every_room_has_a_reference_page() -> None:
    rooms = {room for layer in script("pages").layers() for room in layer} - {"__main__", "cli", "types"}
    reference = "".join(path.read_text("utf-8") for path in (ROOT / "docs" / "reference").glob("*.md"))
    assert set(re.findall(r"^::: mnistpro_jax\.(\w+)$", reference, re.MULTILINE)) == rooms


def test_no_page_is_left_out_of_the_navigation() -> None:
    assert script("check_site").unreached(ROOT) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '<a href="other/">x</a> <a href="other/#there">x</a> <img src="a.png"> <a href="https://x.org">x</a>',
            None,
        ),
        ('<a href="gone/">x</a>', "leads nowhere: gone/"),
        ('<a href="other/#gone">x</a>', "no such anchor: other/#gone"),
        ('<a href="#gone">x</a>', "no such anchor: #gone"),
        ('<img src="gone.png">', "leads nowhere: gone.png"),
        ('<script src="https://x.org/x.js"></script>', "from elsewhere: https://x.org/x.js"),
        ('<link rel="stylesheet" href="//x.org/x.css">', "from elsewhere: //x.org/x.css"),
        ("<style>@import url(https://x.org/x.css);</style>", "from elsewhere"),
    ],
)
def test_faults_of_built_pages_are_found(tmp_path: Path, text: str, fault: str | None) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h1 id="there">x</h1>', "utf-8")
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "index.html").write_text(text, "utf-8")
    found = script("check_site").faults(tmp_path)
    assert found == [] if fault is None else len(found) == 1 and fault in found[0]
