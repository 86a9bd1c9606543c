"""Runs the Python examples of README.md and of the guides in docs/ as they stand, in one process.

    python .ci/examples.py

Those of the adapters, of recurrent policies and of the notebook are run by the tests. Each example has names of its own
and must print something; pages run in a temporary folder. All show the same images, whose bank is built once.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TESTED = {
    "recurrent.md",
    "train_an_agent.md",
}  # and docs/adapters/, by tests/adapters/test_docs.py and tests/docs/


def pages() -> list[Path]:
    """The pages whose examples are run here."""
    found = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in found if page.name not in TESTED]


def examples(page: Path) -> list[str]:
    """The Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def share_banks() -> None:
    """Build a bank once for all examples that show the same images."""
    from mnistpro_jax import registration

    banks: dict[str, Any] = {}
    build = registration._bank

    def shared(level: int, window: int, start: str, given: dict[str, Any]) -> Any:
        name = repr((level, window, start, sorted(given.items())))
        if name not in banks:
            banks[name] = build(level, window, start, given)
        return banks[name]

    registration._bank = shared


def prepare(page: Path) -> None:
    """What a page speaks of as being there."""
    if page.name == "analysis.md":
        from mnistpro_jax.cli import main

        with contextlib.redirect_stdout(io.StringIO()):
            if main(["evaluate", "--agent", "planner", "--episodes", "20", "--out", "runs/planner-1"]) != 0:
                raise RuntimeError("the run that docs/analysis.md reads could not be made")


def main() -> int:
    """Run them all; the exit code."""
    failed = 0
    share_banks()
    for page in pages():
        sources = examples(page)
        if not sources:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            prepare(page)
            for number, source in enumerate(sources, start=1):
                name = f"{page.relative_to(ROOT)}, example {number}"
                printed, began = io.StringIO(), time.perf_counter()
                try:
                    with contextlib.redirect_stdout(printed):
                        exec(compile(source, name, "exec"), {"__name__": "__main__"})
                    if not printed.getvalue():
                        raise RuntimeError("the example prints nothing, so that nobody sees whether it works")
                except Exception:
                    failed += 1
                    traceback.print_exc()
                print(
                    f"{name} ({time.perf_counter() - began:.1f} s): {printed.getvalue().rstrip()}", flush=True
                )
    return int(failed > 0)


if __name__ == "__main__":
    # Half of the time is compiling: two pages that compile the same program do it once.
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", cache)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
        raise SystemExit(main())
