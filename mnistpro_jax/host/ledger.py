"""What a run has used up, and whether another call may begin: interrupts, the limit of cost, a fault for all."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import time
from collections.abc import Callable

from mnistpro_jax.host.contract import UNFINISHED, Decision, Status, StopRun, Turn, Usage
from mnistpro_jax.host.prices import Price, estimated, request_tokens
from mnistpro_jax.host.problems import commonest
from mnistpro_jax.host.retries import Retries

_FAILURES_IN_A_ROW = 8
_EPISODES_IN_A_ROW = 3
_SILENT = 15  # the first five episodes, where a turn takes three attempts
_LISTENS_EVERY_S = 0.1


@dataclasses.dataclass(eq=False)
class Ledger:
    """Counts of a run; one object for all its episodes, used from one thread at a time.

    price: of the model, None where it is not known. max_cost: in the currency of the price; no call begins that might
    lead beyond it. max_tokens: limit of a reply, None where there is none. retries: of a call. patience: calls in a
    row, over all episodes, that fail after all retries until the run stops. keep_going: whether it goes on where no
    reply says anything. on_call: called after each reply. on_interrupt: called at the first interrupt.
    """

    price: Price | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    retries: Retries = dataclasses.field(default_factory=Retries)
    patience: int = _FAILURES_IN_A_ROW
    keep_going: bool = True
    on_call: Callable[[], None] | None = None
    on_interrupt: Callable[[], None] | None = None

    calls: int = 0
    """Replies, those of earlier sessions included."""
    estimated_calls: int = 0
    """Those of them whose tokens nobody told."""
    usage: Usage = dataclasses.field(default_factory=Usage)
    """Of all replies, and of calls that failed within theirs."""
    spent_at_most: float = 0.0
    """What that costs; a reply whose tokens nobody told counts as the longest that it may have been."""
    fault: StopRun | None = None
    """Why the run stopped by itself."""
    interrupted: bool = False
    spent: bool = False
    """Whether a call did not begin because of the limit of cost."""
    session_calls: int = 0
    failures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """Failed calls of this session by what went wrong."""
    problems: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """Replies that said nothing, by what was wrong with them."""
    finish_reasons: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """Why replies ended, in the provider's words."""
    _reserved: float = 0.0
    _dearest: float = 0.0
    _in_a_row: int = 0
    _heard: int = 0
    _understood: int = 0
    _furthest: int = -1
    _beyond: set[int] = dataclasses.field(default_factory=set)

    def stop(self, fault: StopRun) -> None:
        """No further call begins; the first fault is the one that counts."""
        self.fault = self.fault or fault

    def interrupt(self) -> None:
        """No further call begins; those under way may end."""
        first, self.interrupted = not self.interrupted, True
        if first and self.on_interrupt is not None:
            self.on_interrupt()

    @property
    def stopped(self) -> bool:
        """Whether no further call begins."""
        return self.interrupted or self.fault is not None

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until no further call begins."""
        # Asked, not told: interrupts are heard in another thread than some drivers' calls run in.
        end = time.monotonic() + seconds
        while not self.stopped and (left := end - time.monotonic()) > 0:
            await asyncio.sleep(min(left, _LISTENS_EVERY_S))

    def cost_of(self, usage: Usage) -> float | None:
        """Cost of a reply; None without a price."""
        return None if self.price is None else self.price.cost(usage)

    def begin(self, turn: Turn) -> tuple[Status | None, float]:
        """Before a call: why it must not begin (None: it may), and what was set aside for it."""
        if not self.keep_going and self._heard >= _SILENT and not self._understood:
            self.stop(StopRun(self._nothing_is_understood()))
        if self.max_cost is not None and self.estimated_calls and self.max_tokens is None:
            self.stop(
                StopRun(
                    f"the server does not tell how many tokens a reply took ({self.estimated_calls} of {self.calls} "
                    f"replies), so that the limit of cost, {self.max_cost:g}, cannot be kept: give --max-tokens as "
                    "well, by which a call then counts, or leave --max-cost out"
                )
            )
        if self.stopped:
            return Status.CANCELLED, 0.0
        if self.max_cost is None or self.price is None:
            return None, 0.0
        guess = self.price.cost(
            Usage(request_tokens(turn.messages, self.price.picture_tokens), self.max_tokens or 0)
        )
        reserve = max(guess, self._dearest)
        if self.spent_at_most + self._reserved + reserve > self.max_cost:
            self.spent = True
            return Status.BUDGET_SPENT, 0.0
        self._reserved += reserve
        return None, reserve

    def _nothing_is_understood(self) -> str:
        kinds = "; ".join(commonest(self.problems, 2))
        return (
            f"none of the first {self._heard} replies says what to do ({kinds}); look at them, or give --keep-going to "
            "play on all the same"
        )

    def end(self, reserved: float, decision: Decision | None) -> None:
        """After a call and its retries, ``None`` where it was broken off."""
        self._reserved -= reserved
        if decision is None:
            return
        if decision.status == Status.API_ERROR:
            self._in_a_row += 1
            if self._in_a_row >= self.patience:
                self.stop(
                    StopRun(f"{self._in_a_row} calls in a row failed, the last one with: {decision.problem}")
                )
        if decision.status in UNFINISHED:
            return
        self._in_a_row = 0
        self.session_calls += 1
        self.count(decision)
        if self.on_call is not None:
            self.on_call()

    def failed(self, decision: Decision) -> None:
        """A call failed; a retry may follow."""
        self.failures[decision.problem or "unknown"] += 1
        self.count_failure(decision)

    def listen_anew(self) -> None:
        """What was heard so far says nothing of the replies to come: they are asked for in another way."""
        self._heard = self._understood = 0

    def reached(self, step: int) -> None:
        """A request at this step of an episode was answered, in this session or an earlier one."""
        self._furthest = max(self._furthest, step)

    def given_up(self, turn: Turn, decision: Decision) -> None:
        """A call failed for good. Stops the run where, as far as anybody knows, every such call would.

        Requests grow from step to step: where none was answered at this step or a later one, the fault of a few
        episodes is the fault of all.
        """
        if decision.failure is None or not decision.failure.general or turn.step <= self._furthest:
            return
        self._beyond.add(turn.episode)
        if self._furthest < 0 or len(self._beyond) >= _EPISODES_IN_A_ROW:
            self.stop(StopRun(decision.problem))

    def told(self, turn: Turn, decision: Decision) -> Decision:
        """The decision with an estimate in the place of tokens that nobody told."""
        if decision.usage.told or decision.status in UNFINISHED:
            return decision
        return dataclasses.replace(decision, usage=estimated(turn.messages, decision, self.price))

    def count(self, decision: Decision) -> None:
        """Add a reply, of this session or an earlier one."""
        self.calls += 1
        self._heard += 1
        self.estimated_calls += not decision.usage.told
        self._understood += decision.status == Status.OK
        if decision.status != Status.OK:
            self.problems[decision.problem or decision.status.value] += 1
        self._add(decision)

    def count_failure(self, decision: Decision) -> None:
        """Add what a call took that failed within its reply, of this session or an earlier one."""
        # Of most failures nobody says what they took, and most took nothing: what is not told does not count.
        self._add(dataclasses.replace(decision, usage=dataclasses.replace(decision.usage, told=True)))

    def _add(self, decision: Decision) -> None:
        usage = decision.usage
        reason = decision.details.get("finish")
        if isinstance(reason, str):
            self.finish_reasons[reason] += 1
        self.usage += usage
        at_most = usage.output_tokens if usage.told else max(usage.output_tokens, self.max_tokens or 0)
        cost = self.cost_of(dataclasses.replace(usage, output_tokens=at_most)) or 0.0
        self.spent_at_most += cost
        self._dearest = max(self._dearest, cost)
