"""Runs whose bytes on disk are kept: ``golden_logs.json`` holds digests of their files, without the clock.

Where the format is meant to change, ``python -m tests.host.golden_logs`` writes the file anew; the commit says why.
Pictures are stored as plain numbers here, because the bytes of a PNG file depend on the version of the library.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from mnistpro_jax.cli import main
from mnistpro_jax.host import pictures
from mnistpro_jax.host.contract import MOVES, Status, Turn, Usage
from mnistpro_jax.host.memory import MEMORIES
from mnistpro_jax.host.models.chat import Reply
from mnistpro_jax.host.models.scripted import ScriptedPolicy

GOLDEN = Path(__file__).with_name("golden_logs.json")
EPISODES = 4
_CLOCK = re.compile(rb'"(time|latency_s|version)": ("[^"]*"|[0-9.e-]+)')


class _Moody:
    """Moves, answers, babbles, refuses, breaks off; a call that fails does so once. By episode, step and attempt."""

    def __init__(self) -> None:
        self.failed: set[tuple[int, int, int]] = set()

    def __call__(self, turn: Turn) -> Reply:
        key = (turn.episode, turn.step, turn.attempt)
        chance = random.Random(f"golden {key}")
        kind = chance.random()
        usage = Usage(*(chance.randrange(most) for most in (2000, 90, 50, 5)))
        if kind < 0.1 and key not in self.failed:
            self.failed.add(key)
            return Reply("", status=Status.API_ERROR, problem="503: gone")
        if kind < 0.2:
            return Reply('Hm \u2026 { "action" \u0000', usage)
        if kind < 0.25:
            return Reply("no", usage, Status.REFUSED, "the model refused: no", {"finish": "stop"})
        if kind < 0.3:
            return Reply("so long", usage, Status.TRUNCATED, "cut off", {"finish": "length"})
        said: dict[str, Any] = {"thought": f"step \u00e9 {turn.step}"}
        if turn.step + 1 >= turn.budget or kind > 0.93:
            value = "".join(str(chance.randrange(10)) for _ in range(turn.digits))
            said |= {"action": "answer", "value": value}
        else:
            said |= {"action": "move", "direction": chance.choice(MOVES)}
            said["spatial_map"] = {"coords": [turn.step, -1], "features": 'a "bow"'}
        return Reply(f"Well: {json.dumps(said)}", usage, details={"id": f"x{turn.step}"})


@contextlib.contextmanager
def _moody() -> Iterator[None]:
    moody = _Moody()

    async def reply(self: ScriptedPolicy, turn: Turn) -> Reply:
        return moody(turn)

    def numbers(picture: Any, enlarge: int = 1) -> bytes:
        return f"{picture.shape} {enlarge} ".encode() + picture.tobytes()

    with mock.patch.object(ScriptedPolicy, "reply", reply), mock.patch.object(pictures, "png", numbers):
        yield


def leave(folder: Path, memory: str, driver: str) -> None:
    """Play into a folder by the command, again and again until all is over."""
    given = [
        "run",
        "--model",
        "scripted:random",
        "--memory",
        memory,
        "--driver",
        driver,
        "--out",
        str(folder),
    ]
    given += ["--episodes", str(EPISODES), "--seed", "3", "--concurrency", str(EPISODES), "--json"]
    with _moody(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        while main(given) != 0:
            pass


def contents(folder: Path) -> dict[str, bytes]:
    """What a run left, by name, without the clock. Of run.json the configuration alone; of pictures their names."""
    found = {path.name: _CLOCK.sub(rb'"\1": 0', path.read_bytes()) for path in (folder / "log").iterdir()}
    for name in ("episodes.jsonl", "summary.json"):
        found[name] = _CLOCK.sub(rb'"\1": 0', (folder / name).read_bytes())
    found["run.json"] = json.dumps(json.loads((folder / "run.json").read_bytes())["config"]).encode()
    found["pictures"] = "\n".join(sorted(path.name for path in (folder / "pictures").iterdir())).encode()
    return dict(sorted(found.items()))


def digests(found: dict[str, bytes]) -> dict[str, str]:
    """Of each file, 16 hexadecimal digits."""
    return {name: hashlib.sha256(content).hexdigest()[:16] for name, content in found.items()}


def _write() -> None:
    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as out:
        for memory in MEMORIES:
            leave(Path(out) / memory, memory, "free")
            made[memory] = digests(contents(Path(out) / memory))
        lines = contents(Path(out) / "grid-map")["0000.jsonl"].decode().splitlines()
        made["grid-map, 0000.jsonl"] = [json.loads(line) for line in lines]
    GOLDEN.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    _write()
