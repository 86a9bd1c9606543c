"""What a run has used up, and whether another call may begin: interrupts, the limit of cost, a fault for all."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable

from mnistpro_jax.host.contract import Decision, Status, StopRun, Turn, Usage
from mnistpro_jax.host.prices import Price, request_tokens

_FAILURES_IN_A_ROW = 8


@dataclasses.dataclass(eq=False)
class Ledger:
    """Counts of a run; one object for all its episodes, used from one thread at a time.

    price: of the model, None where it is not known. max_cost: in the currency of the price; no call begins that might
    lead beyond it. max_tokens: limit of a reply, None where there is none. patience: failed calls in a row, over all
    episodes, after which the run stops. on_call: called after each reply. on_interrupt: called at the first interrupt.
    """

    price: Price | None = None
    max_cost: float | None = None
    max_tokens: int | None = None
    patience: int = _FAILURES_IN_A_ROW
    on_call: Callable[[], None] | None = None
    on_interrupt: Callable[[], None] | None = None

    calls: int = 0
    """Replies, those of earlier sessions included."""
    usage: Usage = dataclasses.field(default_factory=Usage)
    cost: float = 0.0
    fault: StopRun | None = None
    """Why the run stopped by itself."""
    interrupted: bool = False
    spent: bool = False
    """Whether a call did not begin because of the limit of cost."""
    session_calls: int = 0
    failures: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    """Failed calls of this session by what went wrong."""
    _reserved: float = 0.0
    _dearest: float = 0.0
    _in_a_row: int = 0

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

    def cost_of(self, usage: Usage) -> float | None:
        """Cost of a reply; None without a price."""
        return None if self.price is None else self.price.cost(usage)

    def begin(self, turn: Turn) -> tuple[Status | None, float]:
        """Before a call: why it must not begin (None: it may), and what was set aside for it."""
        if self.stopped:
            return Status.CANCELLED, 0.0
        if self.max_cost is None or self.price is None:
            return None, 0.0
        guess = self.price.cost(
            Usage(request_tokens(turn.messages, self.price.picture_tokens), self.max_tokens or 0)
        )
        reserve = max(guess, self._dearest)
        if self.cost + self._reserved + reserve > self.max_cost:
            self.spent = True
            return Status.BUDGET_SPENT, 0.0
        self._reserved += reserve
        return None, reserve

    def end(self, reserved: float, decision: Decision | None) -> None:
        """After a call, ``None`` where it was broken off."""
        self._reserved -= reserved
        if decision is None:
            return
        if decision.status == Status.API_ERROR:
            self._in_a_row += 1
            self.failures[decision.problem or "unknown"] += 1
            if self._in_a_row >= self.patience:
                self.stop(
                    StopRun(f"{self._in_a_row} calls in a row failed, the last one with: {decision.problem}")
                )
            return
        self._in_a_row = 0
        self.session_calls += 1
        self.count(decision)
        if self.on_call is not None:
            self.on_call()

    def count(self, decision: Decision) -> None:
        """Add a reply, of this session or an earlier one."""
        self.calls += 1
        self.usage += decision.usage
        cost = self.cost_of(decision.usage) or 0.0
        self.cost += cost
        self._dearest = max(self._dearest, cost)
