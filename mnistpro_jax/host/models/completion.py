"""The body of a chat completion: what it says, why it ended, what it took, and the error that may stand in it."""

from __future__ import annotations

from typing import Any

from mnistpro_jax.host.contract import Failure, Status, Usage, sendable
from mnistpro_jax.host.models.chat import Reply
from mnistpro_jax.host.models.failures import Fault
from mnistpro_jax.host.models.finish_reasons import meaning
from mnistpro_jax.host.problems import ONLY_REASONING, TOOL_CALL


def read_completion(completion: Any) -> Reply:
    """A completion without an error in it as a reply. Raises what reading a thing of another shape raises."""
    choice = completion["choices"][0]
    message = choice["message"]
    text = sendable(_text_of(message.get("content")))
    facts = facts_of(completion)
    if message.get("refusal"):
        return Reply(text, status=Status.REFUSED, problem=str(message["refusal"]), **facts)
    called = bool(message.get("tool_calls") or message.get("function_call"))
    status, problem = meaning(choice.get("finish_reason"), text or ("called" if called else ""))
    if status == Status.API_ERROR:
        return Reply(text, status=status, problem=problem, failure=Failure(passing=True), **facts)
    if status == Status.OK and not text.strip():
        thought = _thought_of(message)
        problem = TOOL_CALL if called else ONLY_REASONING if thought and thought.strip() else None
    return Reply(text, status=status, problem=problem, **facts)


def error_within(completion: Any) -> Fault | None:
    """The error that a body holds in the place of a reply, or beside one."""
    choices = completion.get("choices")
    choice = choices[0] if choices else {}
    error = choice.get("error") or completion.get("error")
    if not error:
        return None
    if not isinstance(error, dict):
        return Fault(None, f"the provider failed within its reply: {_line(error)}")
    code = error.get("code")
    number = int(str(code)) if str(code).isdecimal() and 400 <= int(str(code)) < 600 else None
    said = error.get("message") or error
    return Fault(
        number,
        f"the provider failed within its reply: {_line(said)}",
        str(code or ""),
        str(error.get("type") or ""),
    )


def facts_of(completion: Any) -> dict[str, Any]:
    """The fields ``usage`` and ``details`` of a reply, as far as a body tells them."""
    choices = completion.get("choices")
    choice = choices[0] if choices else {}
    details = {
        "id": completion.get("id"),
        "model": completion.get("model"),
        "finish": choice.get("finish_reason"),
        "reasoning": _thought_of(choice.get("message") or {}),
    }
    kept = {name: value for name, value in details.items() if isinstance(value, str) and value}
    return {"usage": _usage_of(completion.get("usage")), "details": kept}


def _thought_of(message: Any) -> Any:
    # Not in the standard; several servers send what the model thought in one of these.
    return message.get("reasoning_content") or message.get("reasoning")


def _line(said: Any) -> str:
    return " ".join(str(said).split())[:200]


def _usage_of(used: Any) -> Usage:
    """Tokens as a server counts them. Not told: it says nothing, or nothing of the request or of the reply."""
    if not isinstance(used, dict):
        return Usage(told=False)
    asked = _count(used.get("prompt_tokens"))
    # Some servers count what the model thought in the total alone; without the request's part nothing follows from it.
    rest = _count(used.get("total_tokens")) - asked if asked else 0
    said = max(_count(used.get("completion_tokens")), rest)
    return Usage(
        asked,
        said,
        _count((used.get("prompt_tokens_details") or {}).get("cached_tokens")),
        _count((used.get("completion_tokens_details") or {}).get("reasoning_tokens")),
        told=asked > 0 and (said > 0 or used.get("completion_tokens") is not None),
    )


def _text_of(content: Any) -> str:
    """The text of a message: itself, or its parts of text joined. TypeError for anything else."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {content!r:.80}")
    return content or ""


def _count(value: Any) -> int:
    """A number of tokens as a server says it; 0 where it says none."""
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return 0
