"""What an error of a server means for a call and for a run: refused, failed for now, failed for good, or for all."""

from __future__ import annotations

import dataclasses
import datetime
import email.utils
from collections.abc import Mapping

from mnistpro_jax.host.contract import Failure, Status, StopRun
from mnistpro_jax.host.models.chat import Reply

PASSING = (408, 409, 425, 429)
"""HTTP statuses below 500 of failures that may pass."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """Whom was asked for what. url: of the server. pictures: in the request."""

    url: str
    model: str
    pictures: int


@dataclasses.dataclass(frozen=True)
class Fault:
    """An error as a server words it. status: of HTTP, or a number of that kind within a reply; None without one.

    code, kind: further words of the error. said: its message, without secrets. after_s: seconds to wait, if it says.
    """

    status: int | None
    said: str
    code: str = ""
    kind: str = ""
    after_s: float | None = None
    retried: bool | None = None

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed a little later."""
        if self.retried is not None:
            return self.retried
        return self.status is None or self.status in PASSING or self.status >= 500


def judged(fault: Fault, asked: Asked) -> Reply:
    """The reply in whose place an error stands. Raises StopRun where all further calls would fail as well."""
    status, words = fault.status, f"{fault.code} {fault.kind}".lower()
    where, said = f"({status}): {fault.said}", fault.said.lower()
    if "content_filter" in words or "content_policy" in words or "moderation" in f"{words} {said}":
        return Reply("", status=Status.REFUSED, problem=fault.said)
    if status in (401, 403):
        raise StopRun(f"{asked.url} refused the key or the access to model {asked.model!r} {where}")
    if status == 404:
        raise StopRun(f"{asked.url} knows no model {asked.model!r}, or no such address {where}")
    if status == 402 or "insufficient_quota" in words:
        raise StopRun(f"the quota at {asked.url} is used up {where}")
    if fault.passing:
        return failed(fault.said if status is None else f"{status}: {fault.said}", after_s=fault.after_s)
    if "context_length_exceeded" in words or "context length" in said:
        problem = f"a request is longer than {asked.model!r} takes {where}. Use a memory or horizon with fewer pictures"
    elif any(word in said for word in ("image", "vision", "multimodal", "picture", "modalit")):
        problem = (
            f"{asked.url} does not take the {asked.pictures} picture(s) of a request to {asked.model!r} {where}. Use a "
            "model that sees, or a memory or horizon with fewer pictures"
        )
    elif "role" in said and "system" in said:
        problem = f"{asked.url} refused the request {where}. Try --system user"
    else:
        problem = f"{asked.url} refused the request {where}"
    return Reply("", status=Status.API_ERROR, problem=problem, failure=Failure(general=True))


def failed(problem: str, *, after_s: float | None = None, general: bool = False) -> Reply:
    """A call that failed and may be made again."""
    return Reply(
        "",
        status=Status.API_ERROR,
        problem=problem,
        failure=Failure(passing=True, after_s=after_s, general=general),
    )


def seconds_asked(headers: Mapping[str, str]) -> float | None:
    """How long a server asks to wait, from the headers of its reply: seconds, milliseconds, or a date."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            found = float(value) * unit
        except ValueError:
            found = _until(value)
        if 0 <= found < float("inf"):
            return found
    return None


def _until(date: str) -> float:
    """Seconds until a date of HTTP; negative for what is none."""
    try:
        then = email.utils.parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return -1.0
    if then.tzinfo is None:
        then = then.replace(tzinfo=datetime.UTC)
    return (then - datetime.datetime.now(datetime.UTC)).total_seconds()
