"""A run of any kind: a player works through all units of a plan into a folder, and goes on where it stopped.

What the units are, who plays them and what a result says is the plan's; the folder, the limits, what is left to do and
how far it is are the same for all. ``run_glimpse`` makes the plan of ``mnistpro run``.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import mnistpro_jax
from mnistpro_jax.host.attempts import Played, finished_before
from mnistpro_jax.host.contract import COUNTED, UNFINISHED, Status
from mnistpro_jax.host.episode_log import EpisodeFolder
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.prices import Price
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.runner import Done, Logs
from mnistpro_jax.runs import folder as names
from mnistpro_jax.runs.json_files import write_json, write_jsonl
from mnistpro_jax.runs.missing import Missing, missing_of

_REFRESH_S = 10.0
_LISTED = 20
Record = dict[str, Any]


class Drive(Protocol):
    """Plays the units with these numbers, and returns when they are over or the ledger stops the run."""

    def __call__(
        self, numbers: Sequence[int], *, ledger: Ledger, logs: Logs, concurrency: int, done: Done
    ) -> object: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """What a kind of run brings to the engine.

    units: how many there are. drive: plays them, with the player in it. config: what makes the run this run: what its
    folder keeps to, JSON-ready. summary: own fields of the summary, from the records that count, of which there may be
    none. price: of the model, None where it is not known. max_tokens: limit of a reply, None where there is none.

    may_change: fields of the configuration that may be others where units are played again, on purpose. order: in
    which units are played, None for that of their numbers.
    """

    units: int
    drive: Drive
    config: Mapping[str, Any]
    summary: Callable[[Sequence[Record]], dict[str, Any]]
    price: Price | None = None
    max_tokens: int | None = None
    may_change: frozenset[str] = frozenset()
    order: Sequence[int] | None = None


@dataclasses.dataclass(frozen=True)
class Session:
    """One call of the command; another session of the same run may have others.

    folder: of the run. concurrency: units at a time. max_cost: no call begins that might lead beyond it. limit: of
    units in this session: the first ones. retries: of a call. keep_going: whether it goes on where no reply says
    anything. again: statuses of units that are over and are played again. driver, base_url, headers (their names),
    query: for the folder's list of sessions alone.
    """

    folder: Path
    concurrency: int = 16
    max_cost: float | None = None
    limit: int | None = None
    retries: Retries = dataclasses.field(default_factory=Retries)
    keep_going: bool = False
    again: frozenset[Status] = frozenset()
    driver: str = "free"
    base_url: str | None = None
    headers: Collection[str] = ()
    query: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """As the folder keeps them."""
        return {
            "version": mnistpro_jax.__version__,
            "driver": self.driver,
            "concurrency": self.concurrency,
            "base_url": self.base_url,
            "max_cost": self.max_cost,
            "limit": self.limit,
            **({"again": sorted(self.again)} if self.again else {}),
            **({"headers": sorted(self.headers)} if self.headers else {}),
            **({"query": dict(self.query)} if self.query else {}),
        }


@dataclasses.dataclass(frozen=True)
class Standing:
    """How far a run is. accuracy: of the counted episodes so far, None without any that is graded. missing: what that
    accuracy lacks, None for a complete run. cost: None without a price. estimated: whether tokens and cost are so, in
    part."""

    finished: int
    total: int
    counted: int
    accuracy: float | None
    missing: Missing | None
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None
    estimated: bool = False


Report = Callable[[Standing], None]
Note = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class RunOutcome:
    """What a session came to. complete: whether every episode of the list is over. problem: why not, for people.

    interrupted: whether the user stopped it. stopped: whether an episode that it was to play is not over.
    """

    summary: dict[str, Any]
    complete: bool
    interrupted: bool
    stopped: bool
    problem: str | None


def run(plan: Plan, session: Session, report: Report | None = None, note: Note | None = None) -> RunOutcome:
    """Play the units that are not over yet, and write the results of all.

    report: called as replies come. note: called with lines for the user (an interrupt was heard).
    Raises LogError for a folder that is not this run's, OSError where it cannot be written.
    """
    may_change = plan.may_change if session.again else ()
    with EpisodeFolder(session.folder, plan.config, session.facts(), may_change) as folder:
        progress = _Progress(plan, session, folder, report or _ignored, note or _ignored)
        progress.read()
        if progress.waiting:
            plan.drive(
                progress.waiting,
                ledger=progress.ledger,
                logs=folder.episode,
                concurrency=session.concurrency,
                done=progress.done,
            )
        return progress.close()


def _ignored(_: object) -> None:
    pass


class _Progress:
    """What is known of the run's units. over: those that nothing is left to play of. waiting: to be played now."""

    def __init__(
        self, plan: Plan, session: Session, folder: EpisodeFolder, report: Report, note: Note
    ) -> None:
        self.ledger = Ledger(
            price=plan.price,
            max_cost=session.max_cost,
            max_tokens=plan.max_tokens,
            retries=session.retries,
            keep_going=session.keep_going,
            patience=max(8, session.concurrency),
            on_call=lambda: report(self.standing()),
            on_interrupt=lambda: note(
                "interrupted: waiting for the calls under way, which are paid for (once more to give them up)"
            ),
        )
        self.limit = plan.units if session.limit is None else min(session.limit, plan.units)
        self.over: set[int] = set()
        self.waiting: list[int] = []
        self._records: dict[int, Record] = {}
        self._begun: set[int] = set()
        self._changed: dict[int, Mapping[str, Any]] = {}
        self._plan = plan
        self._session = session
        self._folder = folder
        self._report = report
        self._refreshed = time.monotonic()

    def read(self) -> None:
        """What earlier sessions left, and what of it is played again."""
        finished = {}
        begun_again: set[int] = set()
        for number in range(self._plan.units):
            log = self._folder.episode(number)
            for reply in log.all_replies():
                self.ledger.count(reply)
                self._begun.add(number)
            self.ledger.reached(log.furthest)
            for failure in log.failures():
                self.ledger.count_failure(failure)
            self._changed[number] = log.changed
            played = finished_before(log, self.ledger)
            if played is not None:
                finished[number] = log, played
            elif log.begun_again:
                begun_again.add(number)
        going_on = bool(begun_again)
        order = range(self._plan.units) if self._plan.order is None else self._plan.order
        within = set(order[: self.limit])
        if self._session.again:
            self.ledger.listen_anew()
        for number, (log, played) in finished.items():
            # Where some of them are not over since they were begun again, this command goes on with those.
            if played.status in self._session.again and number in within and not going_on:
                log.again()
                log.close()
                self._changed[number] = log.changed
                begun_again.add(number)
                continue
            self.over.add(number)
            self._records[number] = played.record
        # Those that the run has not come to yet are played with its own settings, by the command without --again.
        self.waiting = [
            number
            for number in order[: self.limit]
            if number not in self.over and (number in begun_again or not self._session.again)
        ]
        self._report(self.standing())

    def done(self, played: Played) -> None:
        """A unit is over, or stops for this session."""
        if played.status not in UNFINISHED:
            self.over.add(played.episode)
        if played.record["calls"]:
            self._records[played.episode] = played.record
        if time.monotonic() - self._refreshed > _REFRESH_S:
            write_jsonl(self._folder.path / names.EPISODES, self._listed())
            self._refreshed = time.monotonic()
        self._report(self.standing())

    def _listed(self) -> list[Record]:
        listed = []
        for number in sorted(self._records):
            changed = self._changed.get(number)
            listed.append({**self._records[number], **({"played_with": dict(changed)} if changed else {})})
        return listed

    def standing(self) -> Standing:
        """How far the run is."""
        ledger = self.ledger
        counted = [record for record in self._records.values() if record["status"] in COUNTED]
        # Some kinds are graded when all is over.
        graded = [record for record in counted if record.get("correct") is not None]
        uncounted = collections.Counter(record["status"] for record in self._records.values())
        return Standing(
            finished=len(self.over),
            total=self._plan.units,
            counted=len(counted),
            accuracy=sum(record["correct"] for record in graded) / len(graded) if graded else None,
            missing=missing_of(self._plan.units, counted, uncounted),
            calls=ledger.calls,
            input_tokens=ledger.usage.input_tokens,
            output_tokens=ledger.usage.output_tokens,
            cost=ledger.cost_of(ledger.usage),
            estimated=not ledger.usage.told,
        )

    def close(self) -> RunOutcome:
        """Write the results; what the session came to."""
        ledger, records = self.ledger, self._listed()
        summary = self._summary(records)
        # Where the run stopped because nothing can be written, that is the message, not this.
        with contextlib.suppress(OSError) if ledger.fault is not None else contextlib.nullcontext():
            write_jsonl(self._folder.path / names.EPISODES, records)
            write_json(self._folder.path / names.SUMMARY, summary)
        complete = len(self.over) == self._plan.units
        stopped = any(number not in self.over for number in self.waiting)
        problem = None if complete else _problem(ledger, summary, self._session, stopped)
        return RunOutcome(summary, complete, ledger.interrupted, stopped, problem)

    def _summary(self, records: Sequence[Record]) -> dict[str, Any]:
        """The plan's own fields of the episodes that count, and what the run took.

        Holds nothing that a resumed run would have otherwise (no clock). statuses: episodes by status; "not_started"
        ones are those without a call. missing: what the accuracy lacks (``runs.missing``), null for a complete run.
        calls, failed_attempts, tokens and cost: of all replies, those of episodes that do not count included.
        """
        ledger, planned = self.ledger, self._plan.units
        statuses = collections.Counter(record["status"] for record in records)
        # Begun in an interrupted session and left alone in this one: they are still cancelled.
        left_out = len(self._begun - self._records.keys())
        statuses[Status.CANCELLED.value] += left_out
        counted = [dict(record) for record in records if record["status"] in COUNTED]
        missing = missing_of(planned, counted, statuses)
        return {
            **self._plan.summary(counted),
            "planned_episodes": planned,
            "missing": None if missing is None else missing.as_dict(),
            "statuses": {
                **{status.value: statuses[status.value] for status in Status},
                "not_started": planned - len(records) - left_out,
            },
            "calls": ledger.calls,
            "failed_attempts": ledger.problems.total(),
            "input_tokens": ledger.usage.input_tokens,
            "output_tokens": ledger.usage.output_tokens,
            "cached_tokens": ledger.usage.cached_tokens,
            "reasoning_tokens": ledger.usage.reasoning_tokens,
            # Of the totals: a sum of floats would depend on the order in which replies came.
            "cost": ledger.cost_of(ledger.usage),
            "estimated_calls": ledger.estimated_calls,
            "finish_reasons": _by_count(ledger.finish_reasons),
            "problems": _by_count(ledger.problems),
            **self._settings(),
        }

    def _settings(self) -> dict[str, Any]:
        """With which fields changed how many of the episodes were played that were begun; {} where none were."""
        if not any(self._changed.values()):
            return {}
        played = [self._changed.get(number, {}) for number in sorted(self._records)]
        texts = [json.dumps(fields, sort_keys=True) for fields in played]
        return {
            "settings": [
                {"changed": json.loads(text), "episodes": texts.count(text)} for text in sorted(set(texts))
            ]
        }


def _by_count(counts: collections.Counter[str]) -> dict[str, int]:
    """The commonest first; of equals, by name."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_LISTED])


def _problem(ledger: Ledger, summary: Mapping[str, Any], session: Session, stopped: bool) -> str:
    """Why a run is not complete, and what to do. stopped: whether an episode of this session is not over."""
    again = "run the same command to go on"
    left = summary["planned_episodes"] - sum(
        count for status, count in summary["statuses"].items() if status not in (*UNFINISHED, "not_started")
    )
    many = f"{left} of {summary['planned_episodes']} episodes are not over"
    if ledger.fault is not None:
        return f"{ledger.fault}; {many}; once that is mended, {again}"
    if ledger.interrupted:
        return f"interrupted; {many}; {again}"
    if not stopped:
        without = "--again, the command of the run" if session.again else "--limit, the same command"
        return f"{many}; without {without} plays them"
    if ledger.spent:
        spent = (
            f"the limit of cost, {session.max_cost:g}, is reached (at most {ledger.spent_at_most:.4f} spent)"
        )
        return f"{spent}; {many}; raise --max-cost to go on"
    if ledger.failures:
        common, count = ledger.failures.most_common(1)[0]
        return f"calls failed ({count} times: {common}); {many}; {again}"
    return f"{many}; {again}"
