"""The examples in the documentation run as they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax import registration
from mnistpro_jax.env.bank import Bank
from tests.episodes import few_digits

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [*sorted((DOCS / "adapters").glob("*.md")), DOCS / "recurrent.md"]
NEEDS = {"gymnasium": "gymnasium", "dm_env": "dm_env", "mctx": "mctx", "minari": "minari"}


def examples(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_every_adapter_has_a_page_with_an_example() -> None:
    modules = {path.stem for path in (DOCS.parent / "mnistpro_jax" / "adapters").glob("*.py")}
    pages = {page.stem for page in PAGES if examples(page)}
    assert pages == {"gymnasium", "gymnax", "brax", "dm_env", "jumanji", "mctx", "minari", "recurrent"}
    assert pages - {"minari", "recurrent"} <= modules


@pytest.fixture(scope="module", autouse=True)
def _share_banks() -> Iterator[None]:
    """All examples show the same images: building their bank once is enough, and a small one."""
    banks: dict[str, Bank] = {}
    build = registration._bank

    def shared(level: int, window: int, start: str, given: dict[str, Any]) -> Bank:
        name = repr((level, window, start, sorted(given.items())))
        if name not in banks:
            banks[name] = build(level, window, start, given)
        return banks[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registration, "_bank", shared)
        few_digits(patch)
        yield


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=lambda page: page.stem)
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    for number, source in enumerate(examples(page)):
        exec(compile(source, f"{page.name}, example {number + 1}", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out
