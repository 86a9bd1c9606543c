"""What `mnistpro run` makes of each fault of a provider, once and always: the table of docs/api_agents.md.

    python -m experiments.provider_faults

One episode against the demo server (three attempts a turn, one retry a call). Its first request is answered well. Then
either the next request meets the fault and all others are answered well ("once"), or every further request meets it
("always"). A run that stops says why; the same command goes on with it.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from mnistpro_jax.demo_server.faults import FAULTS, Fault, Faults
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.demo_server.server import DemoServer, ServerSettings
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.run import RunOutcome, Session, run
from mnistpro_jax.host.run_glimpse import RunRequest, plan_of

SEED = 2
"""Of an episode that takes the player some turns."""
HEAD = ("fault", "what comes", "once", "always", "requests")


class _After:
    """Draws of the demo server: a good reply, then the fault, so many times."""

    def __init__(self, fault: Fault, times: float) -> None:
        self._fault, self._times, self._count = fault, times, 0

    def draw(self, body: bytes) -> tuple[Fault, float]:
        """See ``faults.FaultDraws``."""
        self._count += 1
        return (self._fault if 1 < self._count <= 1 + self._times else Fault.NONE), 0.0


@dataclasses.dataclass(frozen=True)
class Row:
    """What a fault came to. once, always: a status, or "stops". requests: of the episode that always meets it."""

    fault: Fault
    once: str
    always: str
    requests: int

    def cells(self) -> tuple[str, ...]:
        """As in the table."""
        return f"`{self.fault}`", FAULTS[self.fault], self.once, self.always, str(self.requests)


def measured(player: Player, fault: Fault) -> Row:
    """Both runs of a fault."""
    once, _ = _played(player, fault, 1)
    always, requests = _played(player, fault, float("inf"))
    return Row(fault, _word(once), _word(always), requests)


def _played(player: Player, fault: Fault, times: float) -> tuple[RunOutcome, int]:
    faults = Faults({fault: 1.0}, retry_after=0.0, drip=3.0)
    with (
        DemoServer(ServerSettings(port=0, faults=faults), player) as server,
        tempfile.TemporaryDirectory() as out,
    ):
        server.draws = _After(fault, times)
        request = RunRequest(
            "openai-compatible:demo", episodes=1, seed=SEED, base_url=server.base_url, timeout=0.5
        )
        retries = Retries(most=1, first_s=0.01)
        outcome = run(plan_of(request), Session(Path(out), retries=retries, keep_going=True))
        return outcome, int(server.statistics.report()["requests"])


def _word(outcome: RunOutcome) -> str:
    statuses = outcome.summary["statuses"]
    status = next(name for name, count in statuses.items() if count)
    if status == "cancelled":
        return "the run stops"
    if status == "ok":
        return "ok, right" if outcome.summary["accuracy"] == 1.0 else "ok, wrong"
    return f"{status}, wrong" if status == "unparseable" else str(status)


def table(player: Player) -> str:
    """The table in Markdown."""
    rows = [measured(player, fault).cells() for fault in FAULTS]
    lines = [HEAD, tuple("---" for _ in HEAD), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    """Print the table."""
    player = Player()
    player.warm_up()
    print(table(player))


if __name__ == "__main__":
    main()
