"""What an error of a server means, by its words alone."""

from __future__ import annotations

import datetime
import email.utils

import pytest

from mnistpro_jax.host.contract import Failure, Status, StopRun
from mnistpro_jax.host.models.completion import error_within
from mnistpro_jax.host.models.failures import Asked, Fault, judged, seconds_asked

ASKED = Asked("https://api.test/v1", "m", 4)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529, None])
def test_what_may_pass(status: int | None) -> None:
    reply = judged(Fault(status, "busy", after_s=3.0), ASKED)
    assert reply.status == Status.API_ERROR and reply.failure == Failure(passing=True, after_s=3.0)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(400, "bad temperature"), "refused the request"),
        (Fault(422, "bad temperature"), "refused the request"),
        (Fault(400, "128001 tokens", "context_length_exceeded"), "longer than 'm' takes"),
        (Fault(400, "no image input"), "does not take the 4 picture(s)"),
        (Fault(400, "Only user and assistant roles; got role system"), "--system user"),
        (Fault(503, "not now", retried=False), "refused the request"),
    ],
)
def test_what_every_call_seems_to_meet(fault: Fault, said: str) -> None:
    reply = judged(fault, ASKED)
    assert reply.status == Status.API_ERROR and reply.failure == Failure(general=True)
    assert said in (reply.problem or "")


@pytest.mark.parametrize("status", [400, 403, 422])
def test_moderation_is_a_refusal(status: int) -> None:
    said = "Your chosen model requires moderation and your input was flagged"
    assert judged(Fault(status, said), ASKED).status == Status.REFUSED
    assert judged(Fault(status, "no", "content_filter"), ASKED).status == Status.REFUSED


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(401, "wrong"), "refused the key"),
        (Fault(403, "not yours"), "refused the key"),
        (Fault(404, "what"), "knows no model"),
        (Fault(402, "pay"), "quota"),
        (Fault(429, "pay", "insufficient_quota"), "quota"),
        (Fault(429, "pay", "", "insufficient_quota"), "quota"),
    ],
)
def test_what_ends_a_run(fault: Fault, said: str) -> None:
    with pytest.raises(StopRun, match=said):
        judged(fault, ASKED)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"code": 402, "message": "pay"}}, 402),
        ({"error": {"code": "502", "message": "upstream"}, "choices": None}, 502),
        ({"choices": [{"error": {"code": "server_error"}, "message": {"content": "x"}}]}, None),
        ({"choices": [], "error": "overloaded"}, None),
    ],
)
def test_errors_within_a_reply(body: dict[str, object], status: int | None) -> None:
    fault = error_within(body)
    assert fault is not None and fault.status == status
    assert error_within({"choices": [{"message": {"content": "x"}, "error": None}], "error": None}) is None


def test_how_long_a_server_asks_to_wait() -> None:
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=90)
    assert seconds_asked({"retry-after": "2.5"}) == 2.5
    assert seconds_asked({"retry-after-ms": "1500", "retry-after": "9"}) == 1.5
    found = seconds_asked({"retry-after": email.utils.format_datetime(later, usegmt=True)})
    assert found is not None and 80 < found <= 90
    for odd in ("soon", "-3", "inf", "nan", "Tue, 99 Foo", ""):
        assert seconds_asked({"retry-after": odd}) is None
    assert seconds_asked({}) is None
