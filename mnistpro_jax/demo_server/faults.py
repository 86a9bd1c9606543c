"""The ways in which a paid model fails, on purpose: what a request meets follows from a seed and the request alone."""

from __future__ import annotations

import collections
import dataclasses
import enum
import hashlib
import math
import random
import threading


class Fault(enum.StrEnum):
    """What happens to a request instead of a good reply."""

    NONE = "ok"
    RATE_LIMIT = "429"
    SERVER_ERROR = "500"
    DROPPED = "drop"
    TORN = "torn"
    EMPTY = "empty"
    OVERLONG = "overlong"
    REFUSED = "refuse"


@dataclasses.dataclass(frozen=True)
class Faults:
    """How often what goes wrong (shares of requests, 0..1, together at most 1) and how long replies take.

    rate_limit: HTTP 429 with a retry-after of ``retry_after`` seconds. server_error: HTTP 500. drop: the connection
    closes without a reply. torn: the reply's JSON breaks off in the middle. empty: a reply of no text. overlong: a
    reply that reached its token limit before its JSON (finish_reason "length"). refuse: a refusal.
    latency_median: seconds, log-normal with ``latency_sigma`` (of the logarithm); 0 for none. It delays every kind of
    reply but 429. seed: of all of it.

    Raises ValueError for shares out of range.
    """

    rate_limit: float = 0.0
    server_error: float = 0.0
    drop: float = 0.0
    torn: float = 0.0
    empty: float = 0.0
    overlong: float = 0.0
    refuse: float = 0.0
    retry_after: float = 1.0
    latency_median: float = 0.0
    latency_sigma: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for share, fault in self.shares():
            if not 0 <= share <= 1:
                raise ValueError(f"the share of {fault.value!r} is {share}; expected 0 to 1")
        total = sum(share for share, _ in self.shares())
        if total > 1 + 1e-9:
            raise ValueError(f"the shares of faults add up to {total:g}; expected at most 1")
        for name in ("retry_after", "latency_median", "latency_sigma"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; expected 0 or more")

    def shares(self) -> tuple[tuple[float, Fault], ...]:
        """How often each fault comes."""
        return (
            (self.rate_limit, Fault.RATE_LIMIT),
            (self.server_error, Fault.SERVER_ERROR),
            (self.drop, Fault.DROPPED),
            (self.torn, Fault.TORN),
            (self.empty, Fault.EMPTY),
            (self.overlong, Fault.OVERLONG),
            (self.refuse, Fault.REFUSED),
        )


class FaultDraws:
    """Draws faults and latencies. The same requests meet the same ones in whatever order they arrive.

    A request that comes again, as after a retry, draws anew.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._seen: collections.Counter[bytes] = collections.Counter()
        self._lock = threading.Lock()

    def draw(self, body: bytes) -> tuple[Fault, float]:
        """(what happens, seconds of latency) to a request with this body."""
        digest = hashlib.sha256(body).digest()
        with self._lock:
            turn = self._seen[digest]
            self._seen[digest] += 1
        rng = random.Random(f"{self._faults.seed} {turn} {digest.hex()}")
        chosen, below = Fault.NONE, rng.random()
        for share, fault in self._faults.shares():
            if below < share:
                chosen = fault
                break
            below -= share
        median, sigma = self._faults.latency_median, self._faults.latency_sigma
        return chosen, median * math.exp(sigma * rng.gauss(0, 1)) if median else 0.0
