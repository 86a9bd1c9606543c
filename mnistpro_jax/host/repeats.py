"""Several runs of the same episodes, and the vote of their answers: ``mnistpro run --repeats``.

Each repeat is a whole run in a folder of its own (DIR/repeat-1, ...), which is resumed, analysed and compared like any;
DIR/votes.json says what the answers of all come to together.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.host.contract import COUNTED
from mnistpro_jax.host.run import Note, Record, Report, RunOutcome
from mnistpro_jax.host.run_glimpse import RunRequest, run
from mnistpro_jax.host.spent import spent_in
from mnistpro_jax.runs.intervals import wilson
from mnistpro_jax.runs.json_files import write_json
from mnistpro_jax.runs.records import read_episodes
from mnistpro_jax.runs.run_folder import RUN

VOTES = "votes.json"


def repeat_folder(folder: Path, number: int) -> Path:
    """Where a repeat is, from 1."""
    return folder / f"repeat-{number}"


def run_repeats(
    request: RunRequest,
    repeats: int,
    say: Callable[[str], None],
    report: Report | None = None,
    note: Note | None = None,
) -> tuple[list[RunOutcome], dict[str, Any]]:
    """Play the episodes ``repeats`` times; (what came of each run, the votes).

    A seed of the model's sampling grows by one from run to run. A limit of cost holds for all of them together. Stops
    after a run that did not come to its end. Raises as ``run_glimpse.run`` does, and ValueError for a folder that holds
    a single run.
    """
    home = request.out
    if home is None:
        raise ValueError("a run needs a folder to write to: give --out DIR")
    if repeats < 2:
        raise ValueError(f"repeats is {repeats}; expected 2 or more")
    if (home / RUN).exists():
        raise ValueError(f"{home} holds a single run; repeats need a folder of their own")
    folders = [repeat_folder(home, number) for number in range(1, repeats + 1)]
    outcomes: list[RunOutcome] = []
    for number, folder in enumerate(folders):
        one = dataclasses.replace(request, out=folder, repeat=number)
        if one.max_cost is not None and one.price_file is not None:
            others = sum(spent_in(other, one.price_file) for other in folders if other != folder)
            # A run counts what its own folder has cost against its limit.
            one = dataclasses.replace(one, max_cost=max(0.0, one.max_cost - others))
        say(f"repeat {number + 1} of {repeats}")
        outcomes.append(run(one, report, note))
        if outcomes[-1].interrupted or outcomes[-1].stopped:
            break
    played = [folder for folder in folders if (folder / RUN).exists()]
    votes = voted([read_episodes(folder) for folder in played])
    facts = {
        "repeats": repeats,
        "complete": len(outcomes) == repeats and all(outcome.complete for outcome in outcomes),
        **votes,
    }
    write_json(home / VOTES, facts)
    return outcomes, facts


def voted(runs: Sequence[Sequence[Record]]) -> dict[str, Any]:
    """What the answers of several runs come to together, JSON-ready.

    episodes: those that count in at least one run. accuracy, accuracy_ci95: of the most frequent answers, all digits
    right; among equals the one of the earliest run; an episode that nobody answered is wrong. single_accuracy: of each
    run by itself. agreement: mean share of an episode's runs that gave the winning answer. None where nothing counts.
    """
    ballots: dict[int, list[Record]] = collections.defaultdict(list)
    for records in runs:
        for record in records:
            if record["status"] in COUNTED:
                ballots[record["episode"]].append(record)
    winners = [_winner(records) for records in ballots.values()]
    right = sum(correct for correct, _ in winners)
    singles = [[record["correct"] for record in records if record["status"] in COUNTED] for records in runs]
    count = len(winners)
    return {
        "episodes": count,
        "accuracy": right / count if count else None,
        "accuracy_ci95": list(wilson(right, count)) if count else None,
        "agreement": sum(share for _, share in winners) / count if count else None,
        "single_accuracy": [sum(correct) / len(correct) if correct else None for correct in singles],
    }


def _winner(records: Sequence[Mapping[str, Any]]) -> tuple[bool, float]:
    """Whether the vote on an episode is right, and its share of the runs."""
    answers = [None if record["answer"] is None else tuple(record["answer"]) for record in records]
    counts = collections.Counter(answer for answer in answers if answer is not None)
    if not counts:
        return False, 0.0
    winner, votes = counts.most_common(1)[0]
    return tuple(records[0]["labels"]) == winner, votes / len(records)
