"""One episode as its agent lives it, and one turn with its attempts: what all three drivers share.

A driver steps the environment; everything else (what is shown, what was said, the log, the limits) is here, so that
the drivers differ in their timing alone and play equal trajectories.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax.env.types import EpisodeStatistics, Kind
from mnistpro_jax.host import pictures
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
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.log import EpisodeLog, LogError
from mnistpro_jax.host.protocol import Past, Protocol
from mnistpro_jax.host.world import CODES, HostWorld, digest_of


@dataclasses.dataclass(frozen=True, eq=False)
class Played:
    """What became of an episode. record: as ``mnistpro evaluate`` writes it, with the fields of the calls."""

    episode: int
    status: Status
    record: dict[str, Any]


class Conversation:
    """What has been shown and said in one episode, and its log."""

    def __init__(
        self, world: HostWorld, protocol: Protocol, episode: int, log: EpisodeLog, enlarge: int = 1
    ) -> None:
        self.world = world
        self.protocol = protocol
        self.episode = episode
        self.log = log
        self.status = Status.OK
        self.problem: str | None = None
        self.windows: list[tuple[int, int]] = []
        self.kinds: list[int] = []
        self._enlarge = enlarge
        self._canvas: npt.NDArray[Any] = world.canvas(episode)
        self._past: list[Past] = []
        self._failed: list[str] = []
        self._observation: Any = None
        self._digest = ""
        self._new: tuple[bytes, ...] = ()
        self._url = ""
        self._canvas_url: str | None = None
        self._calls = 0
        self._failed_attempts = 0
        self._usage = Usage()
        self._latency = 0.0

    def show(self, words: Any, xy: Any, step: Any, observation: Any = None) -> None:
        """The environment shows the next turn: the window's bitmap, its corner, and the actions taken so far."""
        corner = (int(xy[0]), int(xy[1]))
        self.windows.append(corner)
        self._digest = digest_of(words, xy, step)
        self._observation = observation
        self._failed = []
        if int(step) != len(self._past):
            raise RuntimeError(f"episode {self.episode} shows step {int(step)} after {len(self._past)} turns")
        self._draw(corner)

    def _draw(self, corner: tuple[int, int]) -> None:
        memory, world = self.protocol.memory, self.protocol.world
        if memory.full_image:
            self._new = (pictures.full_png(self._canvas, self._enlarge),)
        else:
            glimpse = pictures.glimpse_png(self._canvas, corner, world.window, world.outline, self._enlarge)
            self._new = (glimpse,)
            if memory.canvas:
                fused = pictures.fused_png(self._canvas, self.windows, world.window, self._enlarge)
                self._new = (fused, glimpse)
                self._canvas_url = pictures.data_url(fused)
        self._url = pictures.data_url(self._new[-1])

    def turn(self, attempt: int) -> Turn:
        """The current turn as its agent sees it."""
        return Turn(
            episode=self.episode,
            step=len(self._past),
            budget=self.protocol.world.budget,
            attempt=attempt,
            digits=self.protocol.world.digits,
            messages=self.protocol.messages(self._past, self._url, self._canvas_url, self._failed),
            pictures=self._new,
            digest=self._digest,
            observation=self._observation,
        )

    async def decide(self, policy: HostPolicy, ledger: Ledger) -> Decision:
        """One turn: attempts until a reply says what to do, from the log where they were made before.

        Returns the turn's decision: OK with an action; UNPARSEABLE, where every attempt was; REFUSED or TRUNCATED,
        where an attempt was and none succeeded; or a status of ``UNFINISHED``. Raises nothing: a fault that concerns
        the whole run (``StopRun``, a log that cannot be written or does not fit) stops the ledger, and the turn is
        cancelled, so that other episodes come to their end in order.
        """
        failures: list[Decision] = []
        try:
            for attempt in range(1, self.protocol.attempts + 1):
                decision = await self._attempt(self.turn(attempt), policy, ledger)
                if decision.status in UNFINISHED:
                    self.status, self.problem = decision.status, decision.problem
                    return decision
                self._count(decision)
                if decision.action is not None:
                    self._past.append(Past(self._url, decision))
                    self.kinds.append(CODES[decision.action])
                    return dataclasses.replace(decision, attempts=attempt)
                failures.append(decision)
                self._failed.append(decision.text)
        except (StopRun, OSError, LogError) as error:
            ledger.stop(error if isinstance(error, StopRun) else StopRun(_said(error)))
            self.status = Status.CANCELLED
            return Decision(Status.CANCELLED)
        verdict = _verdict(failures)
        self.status, self.problem = verdict.status, verdict.problem
        if verdict.status == Status.UNPARSEABLE:
            self.kinds.append(int(Kind.INVALID))
        return verdict

    async def _attempt(self, turn: Turn, policy: HostPolicy, ledger: Ledger) -> Decision:
        decision = self.log.logged(turn)
        if decision is not None:
            policy.remember(turn, decision)
            return decision
        refusal, reserved = ledger.begin(turn)
        if refusal is not None:
            return Decision(refusal)
        try:
            # Before the call, so that a full disk costs nothing.
            if not self.log.events:
                self.log.append(
                    {"event": "start", "episode": self.episode, "start_xy": list(self.windows[0])}
                )
            shown = self.log.keep_pictures(turn)
            decision = await policy.act(turn)
            self._refuse_other_answers(decision)
        except (StopRun, OSError):
            raise
        except Exception as error:
            raise StopRun(
                f"the agent failed on episode {turn.episode}: {type(error).__name__}: {error}"
            ) from error
        finally:
            ledger.end(reserved, decision)
        if decision.status == Status.API_ERROR:
            self.log.append(
                {
                    "event": "error",
                    "step": turn.step,
                    "attempt": turn.attempt,
                    "status": decision.status.value,
                    "problem": decision.problem,
                    "latency_s": round(decision.latency_s, 6),
                }
            )
        elif decision.status not in UNFINISHED:
            self.log.turn(turn, decision, self.windows[-1], shown)
        return decision

    def _refuse_other_answers(self, decision: Decision) -> None:
        digits, classes = self.protocol.world.digits, self.protocol.world.num_classes
        answer = decision.answer
        if answer is not None and (
            len(answer) != digits or not all(0 <= digit < classes for digit in answer)
        ):
            raise StopRun(
                f"the agent answered {answer} in episode {self.episode}; expected {digits} digit(s), 0 to {classes - 1}"
            )

    def _count(self, decision: Decision) -> None:
        self._calls += 1
        self._failed_attempts += decision.status != Status.OK
        self._usage += decision.usage
        self._latency += decision.latency_s

    def finish(self, statistics: EpisodeStatistics, xy: Any, ledger: Ledger) -> Played:
        """The end of the episode, or of this session's part of it. statistics, xy: of the last state.

        Writes the log's last event unless the episode is unfinished.
        """
        # Where the last move used up the budget, its window was reached and not shown.
        x, y = np.asarray(xy).tolist()
        windows = [*self.windows, (x, y)][: int(statistics.moves) + 1]
        record = self.world.record(self.episode, windows, self.kinds, statistics)
        if self.status not in COUNTED:
            record |= {"correct": None, "digits_correct": None}
        record |= {
            "status": self.status.value,
            "calls": self._calls,
            "failed_attempts": self._failed_attempts,
            "input_tokens": self._usage.input_tokens,
            "output_tokens": self._usage.output_tokens,
            "latency_s": round(self._latency, 6),
            "problem": self.problem,
        }
        if self.status not in UNFINISHED:
            try:
                self.log.append({"event": "end", "status": self.status.value, "record": record})
            except OSError as error:
                ledger.stop(StopRun(_said(error)))
                self.status = Status.CANCELLED
                record |= {"status": self.status.value, "correct": None, "digits_correct": None}
        self.log.close()
        # Not in the log: prices may change, tokens do not.
        return Played(self.episode, self.status, {**record, "cost": ledger.cost_of(self._usage)})


def finished_before(log: EpisodeLog, ledger: Ledger) -> Played | None:
    """The episode as its log has it, where it had been played to its end."""
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


def _verdict(failures: Sequence[Decision]) -> Decision:
    """What a turn comes to whose attempts all failed: the agent's fault only where each of them was."""
    for failure in failures:
        if failure.status != Status.UNPARSEABLE:
            return dataclasses.replace(failure, attempts=len(failures))
    return dataclasses.replace(failures[-1], attempts=len(failures))
