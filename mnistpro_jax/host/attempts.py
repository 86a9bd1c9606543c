"""The attempts of a turn, the log and the limits: what every sitting and every driver share.

Nothing here knows what is asked or what follows from a reply, so that kinds of sittings differ in their world alone,
and drivers in their timing alone. A reply is in the log before anything is done with it and before the player is asked
again: a player that pulls its turns finds each of its acts done and durable when it hears the next one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mnistpro_jax.host.calls import made
from mnistpro_jax.host.contract import (
    COUNTED,
    UNFINISHED,
    Decision,
    HostPolicy,
    Status,
    StopRun,
    Turn,
    Usage,
)
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.journal import EpisodeJournal
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.sitting import Asking, Sitting
from mnistpro_jax.runs.log import LogError


@dataclasses.dataclass(frozen=True, eq=False)
class Played:
    """What became of a sitting. record: its own fields, and those of the calls."""

    episode: int
    status: Status
    record: dict[str, Any]


async def sit_through(sitting: Sitting, policy: HostPolicy, ledger: Ledger, log: EpisodeLog) -> Played:
    """One sitting, from its beginning or from where its log stops, to its end or this session's."""
    attempts = Attempts(sitting, policy, ledger, log)
    while True:
        decision = await attempts.decide()
        over = decision.status not in COUNTED or sitting.take(decision)
        if over or decision.status != Status.OK:
            await attempts.debrief(sitting.record)
            return attempts.finish(sitting.record)


class Attempts:
    """What has been said in one sitting, asked or read from its log, and what it took.

    status: of the sitting so far. problem: what was wrong, for people.
    """

    def __init__(self, asking: Asking, policy: HostPolicy, ledger: Ledger, log: EpisodeLog) -> None:
        self.status = Status.OK
        self.problem: str | None = None
        self._asking = asking
        self._policy = policy
        self._ledger = ledger
        self._log = log
        self._calls = 0
        self._failed_attempts = 0
        self._usage = Usage()
        self._latency = 0.0
        self._last: Turn | None = None
        self._journal = EpisodeJournal(log, ledger)
        policy.begin(asking.number, self._journal)

    async def decide(self) -> Decision:
        """One turn: attempts until a reply says what to do, from the log where they were made before.

        Returns the turn's decision: OK with an action; UNPARSEABLE, where every attempt was; REFUSED or TRUNCATED,
        where an attempt was and none succeeded; or a status of ``UNFINISHED``. Raises nothing: a fault that concerns
        the whole run (``StopRun``, a log that cannot be written or does not fit) stops the ledger, and the turn is
        cancelled, so that other sittings come to their end in order.
        """
        failed: list[Decision] = []
        try:
            while len(failed) < self._asking.attempts:
                decision = await self._attempt(self._turn(failed))
                if decision.status in UNFINISHED:
                    return self._came_to(decision)
                self._count(decision)
                if decision.status == Status.OK:
                    return dataclasses.replace(decision, attempts=len(failed) + 1) if failed else decision
                failed.append(decision)
                if decision.final:
                    break
        except (StopRun, OSError, LogError) as error:
            self._ledger.stop(error if isinstance(error, StopRun) else StopRun(_said(error)))
            return self._came_to(Decision(Status.CANCELLED))
        return self._came_to(_verdict(failed))

    async def debrief(self, record: Callable[[Status], dict[str, Any]]) -> None:
        """What the player still does when the sitting is over. record: as of ``finish``."""
        if self.status in UNFINISHED or self._last is None:
            return
        try:
            unfinished = await self._policy.debrief(self._last, record(self.status).get("correct"))
        except (StopRun, OSError, LogError) as error:
            self._ledger.stop(error if isinstance(error, StopRun) else StopRun(_said(error)))
            unfinished = Decision(Status.CANCELLED)
        if unfinished is not None:
            self._came_to(unfinished)

    def _came_to(self, decision: Decision) -> Decision:
        self.status, self.problem = decision.status, decision.problem
        return decision

    def _turn(self, failed: Sequence[Decision]) -> Turn:
        turn = self._last = self._asking.turn(failed)
        # Whoever lives on the messages is shown nothing else, whatever the sitting has to offer.
        if self._policy.observation is None and turn.observation is not None:
            return dataclasses.replace(turn, observation=None)
        return turn

    async def _attempt(self, turn: Turn) -> Decision:
        logged = self._log.logged(turn)
        if logged is not None and not self._policy.journals:
            self._policy.remember(turn, logged)
            return logged
        shown: list[str] = []

        async def act() -> Decision:
            # Before the call, so that a full disk costs nothing.
            if not self._log.begun:
                self._log.start(self._asking.opening())
            shown[:] = self._log.keep_pictures(turn)
            return await self._policy.act(turn)

        if self._policy.journals:
            decision = await self._acted(turn, act)
        else:
            decision = await made(turn, act, self._ledger, self._log)
        if logged is not None:
            # It has done the same once more, by its journal.
            if (decision.status, decision.action, decision.answer) != (
                logged.status,
                logged.action,
                logged.answer,
            ):
                raise LogError(
                    f"{self._log.path}: at step {turn.step} the log has {logged.action or logged.status}, but the "
                    f"journal leads to {decision.action or decision.status}; use another folder"
                )
            return logged
        if decision.status not in UNFINISHED:
            self._refuse_what_cannot_be(decision)
            self._log.turn(turn, decision, self._asking.line(decision), shown)
        return decision

    async def _acted(self, turn: Turn, act: Callable[[], Awaitable[Decision]]) -> Decision:
        """What a player did who asks by its journal."""
        if self._ledger.stopped and not self._log.begun:
            return Decision(Status.CANCELLED)
        try:
            return await act()
        except (StopRun, OSError, LogError):
            raise
        except Exception as error:
            raise StopRun(
                f"the agent failed on episode {turn.episode}: {type(error).__name__}: {error}"
            ) from error

    def _refuse_what_cannot_be(self, decision: Decision) -> None:
        problem = self._asking.allows(decision)
        if problem is not None:
            raise StopRun(f"in episode {self._asking.number} the agent {problem}")

    def _count(self, decision: Decision) -> None:
        if not decision.asked:
            return
        self._calls += 1
        self._failed_attempts += decision.status != Status.OK
        self._usage += decision.usage
        self._latency += decision.latency_s

    def finish(self, record: Callable[[Status], dict[str, Any]]) -> Played:
        """The end of the sitting, or of this session's part of it. record: own fields of the result by its status.

        Writes the log's last event unless the sitting is unfinished.
        """
        result = self._result(record)
        if self.status not in UNFINISHED:
            try:
                self._log.finish(self.status, result)
            except OSError as error:
                self._ledger.stop(StopRun(_said(error)))
                self.status = Status.CANCELLED
                result = self._result(record)
        self._log.close()
        # Not in the log: prices may change, tokens do not.
        usage = self._usage + self._journal.usage
        return Played(self._asking.number, self.status, {**result, "cost": self._ledger.cost_of(usage)})

    def _result(self, record: Callable[[Status], dict[str, Any]]) -> dict[str, Any]:
        usage = self._usage + self._journal.usage
        return {
            **record(self.status),
            "status": self.status.value,
            "calls": self._calls + self._journal.replies,
            "failed_attempts": self._failed_attempts + self._journal.failed,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "latency_s": round(self._latency + self._journal.latency_s, 6),
            "problem": self.problem,
            **self._policy.record(self._asking.number),
        }


def finished_before(log: EpisodeLog, ledger: Ledger) -> Played | None:
    """The sitting as its log has it, where it had been played to its end."""
    if log.end is None:
        return None
    record = dict(log.end["record"])
    usage = Usage()
    for decision in log.replies():
        usage += decision.usage
    record["cost"] = ledger.cost_of(usage)
    return Played(log.episode, Status(log.end["status"]), record)


def _said(error: OSError | LogError) -> str:
    if isinstance(error, OSError):
        return f"cannot write {error.filename or 'the log'}: {error.strerror or error}"
    return str(error)


def _verdict(failed: Sequence[Decision]) -> Decision:
    """What a turn comes to whose attempts all failed: the agent's fault only where each of them was."""
    for failure in failed:
        if failure.status != Status.UNPARSEABLE:
            return dataclasses.replace(failure, attempts=len(failed))
    return dataclasses.replace(failed[-1], attempts=len(failed))
