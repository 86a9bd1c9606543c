"""What a server sends that misbehaves: a good reply, and what each fault makes of it."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

from mnistpro_jax.demo_server import wire
from mnistpro_jax.demo_server.faults import Fault, Faults

Completion = dict[str, Any]
_TOMORROW_S = 86_400


@dataclasses.dataclass(frozen=True)
class Sent:
    """A response. body: None where the connection closes without one. drip_s: seconds until it is all there."""

    status: int
    body: bytes | None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    drip_s: float = 0.0


def before_reply(fault: Fault, faults: Faults) -> Sent | None:
    """What is sent by a server that does not come to a reply; None for the other faults."""
    status, message, code = _ERRORS.get(fault, (0, "", None))
    if fault is Fault.DROPPED:
        return Sent(0, None)
    if fault is Fault.PAGE:
        page = b"<html><body>We are busy. Come back soon.</body></html>"
        return Sent(200, page, {"content-type": "text/html"})
    if not status:
        return None
    seconds = {Fault.RATE_LIMIT: faults.retry_after, Fault.LONG_WAIT: _TOMORROW_S}.get(fault)
    headers = {} if seconds is None else {"retry-after": f"{seconds:g}"}
    return Sent(status, json.dumps(wire.error_body(message, status, code)).encode(), headers)


_ERRORS: Mapping[Fault, tuple[int, str, str | None]] = {
    Fault.RATE_LIMIT: (429, "too many requests, on purpose", "rate_limit_exceeded"),
    Fault.LONG_WAIT: (429, "no more for today, on purpose", "rate_limit_exceeded"),
    Fault.TIMED_OUT: (408, "it took too long, on purpose", None),
    Fault.CONFLICT: (409, "something else changed it, on purpose", None),
    Fault.SERVER_ERROR: (500, "the server failed, on purpose", None),
    Fault.UNAVAILABLE: (503, "overloaded, on purpose", None),
    Fault.BAD_REQUEST: (400, "a field that this server does not take, on purpose", "unsupported_parameter"),
    Fault.BAD_PICTURES: (400, "an image cannot be decoded, on purpose", None),
    Fault.TOO_LONG: (400, "more tokens than the model takes, on purpose", "context_length_exceeded"),
    Fault.WRONG_KEY: (401, "the key is wrong, on purpose", "invalid_api_key"),
    Fault.NO_MODEL: (404, "there is no such model, on purpose", "model_not_found"),
    Fault.NO_MONEY: (402, "the account is empty, on purpose", None),
    Fault.MODERATED: (403, "moderation: the input was flagged, on purpose", None),
}


def spoilt(fault: Fault, good: Completion, faults: Faults, limit: int = 1024) -> tuple[Completion, Sent]:
    """(the body that was meant, what is sent of it), for a good completion. limit: of a reply's tokens."""
    body = copy.deepcopy(good)
    change = _CHANGES.get(fault)
    if change is not None:
        change(body, body["choices"][0], limit)
    data = json.dumps(body).encode()
    if fault is Fault.TORN_BODY:
        data = data[: len(data) // 2]
    return body, Sent(200, data, drip_s=faults.drip if fault is Fault.DRIP else 0.0)


def _said(text: str | None, finish: str | None = "stop") -> Callable[[Completion, Any, int], None]:
    """The reply is another text, for another reason."""

    def change(body: Completion, choice: Any, limit: int) -> None:
        choice["message"]["content"] = text
        choice["finish_reason"] = finish
        _spend(body, wire.tokens_of(len(text or "")))

    return change


def _spend(body: Completion, tokens: int) -> None:
    usage = body["usage"]
    usage["completion_tokens"] = tokens
    usage["total_tokens"] = usage["prompt_tokens"] + tokens


def _cut(finish: str) -> Callable[[Completion, Any, int], None]:
    """A model that thought until its limit: what it would have said is not there."""

    def change(body: Completion, choice: Any, limit: int) -> None:
        _said("Let me think about the strokes. " * 4, finish)(body, choice, limit)
        _spend(body, limit)

    return change


def _error_body(body: Completion, choice: Any, limit: int) -> None:
    body.clear()
    body["error"] = {"code": 502, "message": "the provider behind this one failed, on purpose"}


def _error_within(body: Completion, choice: Any, limit: int) -> None:
    _said("", "error")(body, choice, limit)
    choice["error"] = {"code": 502, "message": "the provider behind this one failed, on purpose"}


def _no_choices(body: Completion, choice: Any, limit: int) -> None:
    body["choices"] = []


def _refused(body: Completion, choice: Any, limit: int) -> None:
    refusal = "I cannot help with this picture."
    choice["message"] = {"role": "assistant", "content": None, "refusal": refusal}
    _spend(body, wire.tokens_of(len(refusal)))


def _torn(body: Completion, choice: Any, limit: int) -> None:
    text = choice["message"]["content"]
    _said(text[: max(1, len(text) // 2)])(body, choice, limit)


def _tool_call(body: Completion, choice: Any, limit: int) -> None:
    function = {"name": "move", "arguments": '{"direction": "up"}'}
    choice["message"] = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }
    choice["finish_reason"] = "tool_calls"


def _only_reasoning(body: Completion, choice: Any, limit: int) -> None:
    message = choice["message"]
    message["content"], message["reasoning_content"] = "", message["content"]


def _no_usage(body: Completion, choice: Any, limit: int) -> None:
    del body["usage"]


def _usage_in_total(body: Completion, choice: Any, limit: int) -> None:
    body["usage"]["total_tokens"] += 2000


def _parts(body: Completion, choice: Any, limit: int) -> None:
    text = choice["message"]["content"]
    halves = text[: len(text) // 2], text[len(text) // 2 :]
    choice["message"]["content"] = [{"type": "text", "text": half} for half in halves]


def _thinking(body: Completion, choice: Any, limit: int) -> None:
    text = choice["message"]["content"]
    choice["message"]["content"] = f'<think>{{"action": "answer", "value": "0"}}, or not</think>{text}'


_CHANGES: Mapping[Fault, Callable[[Completion, Any, int], None]] = {
    Fault.NO_CHOICES: _no_choices,
    Fault.ERROR_BODY: _error_body,
    Fault.ERROR_WITHIN: _error_within,
    Fault.UNKNOWN_REASON: _said("", "cosmic_ray"),
    Fault.SAFETY: _said("", "SAFETY"),
    Fault.REFUSED: _refused,
    Fault.OVERLONG: _cut("length"),
    Fault.MAX_TOKENS: _cut("MAX_TOKENS"),
    Fault.EMPTY: _said(""),
    Fault.TORN: _torn,
    Fault.NUMBER: _said("7"),
    Fault.TOOL_CALL: _tool_call,
    Fault.ONLY_REASONING: _only_reasoning,
    Fault.NO_USAGE: _no_usage,
    Fault.USAGE_IN_TOTAL: _usage_in_total,
    Fault.PARTS: _parts,
    Fault.THINKING: _thinking,
}
