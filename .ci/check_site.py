"""What the site's builder does not check by itself: links, pictures and anchors of the built pages, and the network.

    python .ci/check_site.py site

Ends with code 1 and one line for each fault: a link, picture or anchor inside the site that is not there; a script,
style, picture or font from elsewhere; a page of docs/ that the navigation does not reach. Needs the standard library
alone.
"""

from __future__ import annotations

import functools
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
# Tags whose address the browser loads by itself.
LOADED = {"audio", "embed", "iframe", "img", "link", "object", "script", "source", "video"}
# Of <link> these alone say where something is and load nothing.
POINTERS = {"canonical", "next", "prev", "alternate"}
STYLES = re.compile(r"url\(\s*[\"']?(?:https?:)?//[^)]*|@import[^;]*")


class _Page(HTMLParser):
    """The addresses of a page, each with its tag, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[tuple[str, str]] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "link" and given.get("rel", "") in POINTERS:
            return
        self.addresses += [(tag, given[name]) for name in ("href", "src", "data") if given.get(name)]


@functools.cache
def _page(file: Path) -> _Page:
    return _Page(file.read_text(encoding="utf-8"))


def _fault(site: Path, file: Path, tag: str, address: str) -> str | None:
    parts = urlsplit(address)
    if parts.scheme in ("data", "mailto", "javascript"):
        return None
    if parts.scheme or parts.netloc:
        return f"loads <{tag}> from elsewhere: {address}" if tag in LOADED else None
    if not parts.path and not parts.fragment:
        return None
    base = site if parts.path.startswith("/") else file.parent
    target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"<{tag}> leads nowhere: {address}"
    if parts.fragment and target.suffix == ".html":
        anchor = unquote(parts.fragment)
        if anchor not in _page(target).anchors and not anchor.startswith("__"):
            return f"no such anchor: {address}"
    return None


def faults(site: Path) -> list[str]:
    """One line for each fault of a built site."""
    site = site.resolve()
    found = []
    for file in sorted(site.rglob("*.html")):
        if file.name == "404.html":  # its addresses are relative to the address that was not found
            continue
        for tag, address in _page(file).addresses:
            if fault := _fault(site, file, tag, address):
                found.append(f"{file.relative_to(site)}: {fault}")
    for file in sorted([*site.rglob("*.css"), *site.rglob("*.html")]):
        if styles := STYLES.findall(file.read_text(encoding="utf-8")):
            found.append(f"{file.relative_to(site)}: a style or font from elsewhere: {styles[0]}")
    return found


def unreached(root: Path = ROOT) -> list[str]:
    """Pages of docs/ that mkdocs.yml does not name, and pages that it names and that are not there."""
    text = (root / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = set(re.findall(r"[\w/]+\.md", text))
    there = {str(path.relative_to(root / "docs")) for path in (root / "docs").rglob("*.md")}
    return [f"mkdocs.yml: its navigation lacks {page}" for page in sorted(there - named)] + [
        f"mkdocs.yml: names {page}, which is not in docs/" for page in sorted(named - there)
    ]


if __name__ == "__main__":
    problems = faults(Path(sys.argv[1])) + unreached()
    for problem in problems:
        print(problem, file=sys.stderr)
    raise SystemExit(int(bool(problems)))
