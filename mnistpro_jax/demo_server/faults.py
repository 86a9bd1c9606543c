"""The ways in which a paid model fails, on purpose: what a request meets follows from a seed and the request alone."""

from __future__ import annotations

import collections
import dataclasses
import enum
import hashlib
import math
import random
import threading
from collections.abc import Mapping
from types import MappingProxyType


class Fault(enum.StrEnum):
    """What happens to a request instead of a good reply."""

    NONE = "ok"
    RATE_LIMIT = "429"
    LONG_WAIT = "long-wait"
    TIMED_OUT = "408"
    CONFLICT = "409"
    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    DROPPED = "drop"
    DRIP = "drip"
    TORN_BODY = "torn-body"
    PAGE = "html"
    NO_CHOICES = "no-choices"
    ERROR_BODY = "error-body"
    ERROR_WITHIN = "error-within"
    UNKNOWN_REASON = "unknown-reason"
    BAD_REQUEST = "400"
    BAD_PICTURES = "bad-pictures"
    TOO_LONG = "too-long"
    WRONG_KEY = "401"
    NO_MODEL = "404"
    NO_MONEY = "402"
    MODERATED = "moderated"
    SAFETY = "safety"
    REFUSED = "refuse"
    OVERLONG = "overlong"
    MAX_TOKENS = "max-tokens"
    EMPTY = "empty"
    TORN = "torn"
    NUMBER = "number"
    TOOL_CALL = "tool-call"
    ONLY_REASONING = "only-reasoning"
    NO_USAGE = "no-usage"
    USAGE_IN_TOTAL = "usage-in-total"
    PARTS = "parts"
    THINKING = "thinking"


FAULTS: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.RATE_LIMIT: "HTTP 429 with retry-after (--retry-after)",
        Fault.LONG_WAIT: "HTTP 429 that asks to come back tomorrow",
        Fault.TIMED_OUT: "HTTP 408",
        Fault.CONFLICT: "HTTP 409",
        Fault.SERVER_ERROR: "HTTP 500",
        Fault.UNAVAILABLE: "HTTP 503, overloaded",
        Fault.DROPPED: "a connection that closes without a reply",
        Fault.DRIP: "a space now and then, and the reply after --drip seconds",
        Fault.TORN_BODY: "HTTP 200, a body that breaks off",
        Fault.PAGE: "HTTP 200, a web page",
        Fault.NO_CHOICES: "HTTP 200, an empty list of choices",
        Fault.ERROR_BODY: "HTTP 200, an error in the place of choices",
        Fault.ERROR_WITHIN: 'HTTP 200, finish_reason "error", no text',
        Fault.UNKNOWN_REASON: "HTTP 200, a finish reason that nobody knows, no text",
        Fault.BAD_REQUEST: "HTTP 400, a field that it does not take",
        Fault.BAD_PICTURES: "HTTP 400, a word on pictures",
        Fault.TOO_LONG: "HTTP 400, context_length_exceeded",
        Fault.WRONG_KEY: "HTTP 401",
        Fault.NO_MODEL: "HTTP 404",
        Fault.NO_MONEY: "HTTP 402",
        Fault.MODERATED: "HTTP 403, the input was flagged",
        Fault.SAFETY: 'finish_reason "SAFETY", no text',
        Fault.REFUSED: "a refusal, in the field made for it",
        Fault.OVERLONG: 'a reply cut off at its limit of tokens (finish_reason "length")',
        Fault.MAX_TOKENS: 'the same, in another word (finish_reason "MAX_TOKENS")',
        Fault.EMPTY: "a reply without text",
        Fault.TORN: "a reply whose JSON breaks off",
        Fault.NUMBER: "a number without the JSON object",
        Fault.TOOL_CALL: "a call of a tool, though none was offered",
        Fault.ONLY_REASONING: "text in reasoning_content alone",
        Fault.NO_USAGE: "a good reply without a word on tokens",
        Fault.USAGE_IN_TOTAL: "a good reply; what was thought is in the total of tokens alone",
        Fault.PARTS: "a good reply, its text in parts",
        Fault.THINKING: "a good reply after a <think> part",
    }
)
"""What the client meets, by fault."""


@dataclasses.dataclass(frozen=True)
class Faults:
    """How often what goes wrong and how long replies take.

    shares: of requests, 0..1, by fault, together at most 1. retry_after: seconds that a 429 asks for. drip: seconds
    that a dripping reply takes. latency_median: seconds, log-normal with ``latency_sigma`` (of the logarithm); 0 for
    none. It delays every kind of reply but 429. seed: of all of it.

    Raises ValueError for shares out of range.
    """

    shares: Mapping[Fault, float] = dataclasses.field(default_factory=dict)
    retry_after: float = 1.0
    drip: float = 60.0
    latency_median: float = 0.0
    latency_sigma: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for fault, share in self.shares.items():
            if fault not in FAULTS:
                raise ValueError(f"there is no fault {fault!r}; expected one of {', '.join(FAULTS)}")
            if not 0 <= share <= 1:
                raise ValueError(f"the share of {str(fault)!r} is {share}; expected 0 to 1")
        total = sum(self.shares.values())
        if total > 1 + 1e-9:
            raise ValueError(f"the shares of faults add up to {total:g}; expected at most 1")
        for name in ("retry_after", "drip", "latency_median", "latency_sigma"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value}; expected 0 or more")


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
        for fault, share in self._faults.shares.items():
            if below < share:
                chosen = Fault(fault)
                break
            below -= share
        median, sigma = self._faults.latency_median, self._faults.latency_sigma
        return chosen, median * math.exp(sigma * rng.gauss(0, 1)) if median else 0.0
