"""What a run would take, before any call: ``mnistpro run --dry-run``."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from mnistpro_jax.host.episode_log import read_log
from mnistpro_jax.runs.log import END
from mnistpro_jax.runs.run_folder import RUN, changes, has_replies, log_path, read_run


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What episodes of a given length take: exact counts, and estimates from them.

    calls, pictures: exact for episodes of ``steps`` actions whose every reply is understood at once; each further
    attempt is a call more. characters: of the texts sent, exact where the memory carries no words of the agent.
    input_tokens, output_tokens, cost: estimates.
    """

    episodes: int
    steps: int
    calls: int
    pictures: int
    characters: int
    input_tokens: int
    output_tokens: int
    cost: float | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a run would take. episodes: those that are not over yet. at_most: every episode uses its whole budget.

    assumed: episodes of an assumed length, None without one.
    """

    config: dict[str, Any]
    episodes: int
    at_most: Forecast
    assumed: Forecast | None


def unfinished(
    folder: Path,
    config: Mapping[str, Any],
    episodes: int,
    again: Collection[str] = (),
    may_change: Collection[str] = (),
) -> int:
    """How many of the first ``episodes`` are to be played in a folder, which may not be there yet.

    again: statuses of those that are over and played again. may_change: fields that may then be others.
    Raises LogError where the folder holds a run of another configuration.
    """
    if not (folder / RUN).is_file() or not has_replies(folder):
        return episodes
    changes(read_run(folder)["config"], config, folder / RUN, may_change)
    # Read alone: another process may be at work in the folder.
    logs = [read_log(log_path(folder, number)) for number in range(episodes)]
    return sum(not events or events[-1]["event"] != END or events[-1]["status"] in again for events in logs)
