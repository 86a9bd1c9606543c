"""The parts of docs/ that are made from other files: the table of rooms and the page of the notebook.

    python .ci/pages.py            writes them
    python .ci/pages.py --check    says whether they are as they should be, and ends with code 1 where they are not

Needs the standard library alone.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "mnistpro_jax"
ARCHITECTURE = Path("docs/architecture.md")
NOTEBOOK = Path("docs/train_an_agent.ipynb")
NOTEBOOK_PAGE = Path("docs/train_an_agent.md")
BEGIN, END = "<!-- rooms: made by .ci/pages.py -->\n", "<!-- end of rooms -->\n"


def layers(root: Path = ROOT) -> list[list[str]]:
    """The rooms of the contract in pyproject.toml, from the top down; rooms of one layer in one list."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [c for c in settings["tool"]["importlinter"]["contracts"] if c["type"] == "layers"]
    return [
        [room.strip(" ()") for room in layer.replace("|", ":").split(":")] for layer in contract["layers"]
    ]


def rooms_on_disk(root: Path = ROOT) -> set[str]:
    """Every module and package of the library, at the top."""
    found = {path.stem for path in (root / PACKAGE).glob("*.py")} - {"__init__"}
    return found | {path.parent.name for path in (root / PACKAGE).glob("*/__init__.py")}


def _files(room: str, root: Path) -> list[Path]:
    folder = root / PACKAGE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def description(room: str, root: Path = ROOT) -> str:
    """The first line of a room's docstring. Raises ValueError where it has none."""
    folder = root / PACKAGE / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    line = docstring.splitlines()[0].strip() if docstring else ""
    if not line.endswith("."):
        raise ValueError(
            f"{file.relative_to(root)}: the table of rooms takes the first line of the docstring; expected one "
            f"sentence that says what the room is, got {line!r}"
        )
    return line.removesuffix(".").replace("``", "`").replace("|", "\\|")


@functools.cache
def _imported(file: Path) -> frozenset[str]:
    """What a file imports of the library, by the first name below the package."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            package, *rest = name.split(".")
            if package == PACKAGE and rest:
                found.add(rest[0])
    return frozenset(found)


def imports(room: str, root: Path = ROOT) -> set[str]:
    """The other rooms that a room imports, also inside functions and for types alone."""
    known = {name for layer in layers(root) for name in layer}
    return {name for file in _files(room, root) for name in _imported(file)} & known - {room}


def rooms_table(root: Path = ROOT) -> str:
    """The table of rooms as Markdown, from the contract, the docstrings and the imports."""
    order = [room for layer in layers(root) for room in layer]
    rows = ["| room | what it is | imports |", "|---|---|---|"]
    for room in order:
        name = f"{room}/" if (root / PACKAGE / room).is_dir() else f"{room}.py"
        below = imports(room, root)
        listed = ", ".join(f"`{other}`" for other in order if other in below) or "nothing of ours"
        rows.append(f"| `{name}` | {description(room, root)} | {listed} |")
    return "\n".join(rows) + "\n"


def architecture_page(root: Path = ROOT) -> str:
    """docs/architecture.md with the table of rooms that belongs there."""
    before, _, rest = (root / ARCHITECTURE).read_text(encoding="utf-8").partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(
            f"{ARCHITECTURE} lacks the lines {BEGIN.strip()!r} and {END.strip()!r} around its table"
        )
    return f"{before}{BEGIN}\n{rooms_table(root)}\n{END}{after}"


def notebook_page(root: Path = ROOT) -> str:
    """The notebook as a page: its texts, its code, and what it printed."""
    parts = ["<!-- made by .ci/pages.py from train_an_agent.ipynb -->"]
    for cell in json.loads((root / NOTEBOOK).read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        printed = "".join(line for output in cell["outputs"] for line in output.get("text", []))
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    parts.append(
        "This page is a notebook, [train_an_agent.ipynb](train_an_agent.ipynb){ download }, and its results are as it "
        "printed them."
    )
    return "\n\n".join(parts) + "\n"


PAGES = {ARCHITECTURE: architecture_page, NOTEBOOK_PAGE: notebook_page}


def main() -> int:
    """Write the pages, or check them; the exit code."""
    parser = argparse.ArgumentParser(description="The parts of docs/ that are made from other files.")
    parser.add_argument(
        "--check", action="store_true", help="change nothing; code 1 where a page is not as made"
    )
    arguments = parser.parse_args()
    different = []
    for page, make in PAGES.items():
        wanted = make()
        path = ROOT / page
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        different.append(str(page))
        if not arguments.check:
            path.write_text(wanted, encoding="utf-8")
    if different:
        said = "not as .ci/pages.py makes it; run it" if arguments.check else "written"
        print(f"{', '.join(different)}: {said}", file=sys.stderr if arguments.check else sys.stdout)
    return int(arguments.check and bool(different))


if __name__ == "__main__":
    raise SystemExit(main())
