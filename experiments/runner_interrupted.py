"""What do interruptions of `mnistpro run` cost, and does the result stay the same?

    python -m experiments.runner_interrupted           # some minutes on two shared cores

64 episodes of 12 turns, all at once, replies of log-normal times (median 50 ms, sigma 1). The run is stopped twice, by
kill -9 or by Ctrl-C, after about a third and two thirds of its calls, and gone on with by the same command.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from tests.host.fake_server import FakeServer, lognormal, walker

EPISODES, STEPS = 64, 12
NEEDED = EPISODES * STEPS


def start(server: FakeServer, out: Path) -> subprocess.Popen[bytes]:
    """The command, in a process of its own."""
    given = ["--model", "openai-compatible:fake", "--base-url", server.url, "--episodes", str(EPISODES)]
    given += ["--concurrency", str(EPISODES), "--out", str(out), "--json"]
    return subprocess.Popen(
        [sys.executable, "-m", "mnistpro_jax", "run", *given], stdout=subprocess.DEVNULL, env=os.environ
    )


def stop_at(process: subprocess.Popen[bytes], server: FakeServer, calls: int, number: int) -> None:
    """Send a signal once the server has been asked so often."""

    def watch() -> None:
        while process.poll() is None:
            if server.count >= calls:
                process.send_signal(number)
                return
            time.sleep(0.002)

    threading.Thread(target=watch, daemon=True).start()


def run(stops: list[int], number: int) -> dict[str, Any]:
    """calls: that the server was asked in all. exits: codes of the sessions."""
    with (
        tempfile.TemporaryDirectory() as folder,
        FakeServer(walker(STEPS), lognormal(0.05, 1.0, 0), keep=False) as server,
    ):
        exits = []
        for calls in [*stops, 0]:
            process = start(server, Path(folder) / "run")
            if calls:
                stop_at(process, server, calls, number)
            exits.append(process.wait())
        summary = json.loads((Path(folder) / "run" / "summary.json").read_text())
        return {"calls": server.count, "again": server.count - NEEDED, "exits": exits, "summary": summary}


def main() -> None:
    """Measure, and print."""
    stops = [NEEDED // 3, 2 * NEEDED // 3]
    undisturbed = run([], signal.SIGTERM)
    print(f"{NEEDED} calls needed; undisturbed: {undisturbed['calls']}")
    for name, number in (("kill -9", signal.SIGKILL), ("Ctrl-C", signal.SIGINT)):
        found = run(stops, number)
        same = found["summary"] == undisturbed["summary"]
        print(
            f"two times {name}: {found['calls']} calls, {found['again']} made again, exits {found['exits']}, "
            f"summary {'identical' if same else 'DIFFERENT'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
