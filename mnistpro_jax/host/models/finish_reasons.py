"""Why a model stopped, in the words of any provider: a reply, a cut, a refusal, or a failure that may pass.

Servers that speak like OpenAI pass on what is behind them: in other letters, with a prefix (``FINISH_REASON_SAFETY``)
or a suffix (``content_filter: PROHIBITED_CONTENT``). A word is known wherever it stands in a reason. They are the
words that we know providers to send; their references have not been gone through one by one.
"""

from __future__ import annotations

import re

from mnistpro_jax.host.contract import Status

_WORDS: tuple[tuple[Status, str, tuple[str, ...]], ...] = (
    (
        Status.REFUSED,
        "the provider or the model withheld the reply",
        (
            "refusal", "refused", "content_filter", "content_filtered", "content_policy", "safety", "recitation",
            "blocklist", "prohibited_content", "spii", "sensitive", "guardrail", "guardrail_intervened", "moderation",
            "error_toxic", "blocked", "language",
        ),
    ),
    (
        Status.TRUNCATED,
        "the reply was cut off at a limit of tokens",
        (
            "length", "max_tokens", "max_output_tokens", "model_length", "error_limit", "token_limit",
            "model_context_window_exceeded", "context_length_exceeded",
        ),
    ),
    (
        Status.API_ERROR,
        "the provider failed within its reply",
        (
            "error", "failed", "failure", "abort", "aborted", "cancel", "cancelled", "canceled", "user_cancel",
            "timeout", "other", "unspecified", "malformed_function_call", "malformed_response",
            "missing_thought_signature", "insufficient_system_resource", "network_error", "load", "unload",
            "incomplete", "pause_turn",
        ),
    ),
    (
        Status.OK,
        "",
        (
            "stop", "stop_sequence", "end_turn", "eos", "eos_token", "complete", "completed", "finished", "end", "done",
            "tool_calls", "tool_call", "tool_use", "function_call", "unexpected_tool_call", "too_many_tool_calls",
        ),
    ),
)  # fmt: skip
"""In this order: of ``content_filter_stop`` the filter counts."""


def known_reasons() -> dict[str, Status]:
    """What each known reason means."""
    return {word: status for status, _, words in _WORDS for word in words}


def meaning(reason: object, text: str) -> tuple[Status, str | None]:
    """(status, problem) of a reply that ended for ``reason`` with ``text``.

    A reason that nobody knows, or none, is a failure where no text came with it: an agent that said nothing is not
    scored as wrong on a word that may mean a fault. With text, the text counts.
    """
    spoken = "" if reason is None else str(reason)
    # Names in one word, such as endTurn, come apart; all else that is no letter parts as well.
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spoken)
    normal = "_" + "_".join(re.findall(r"[a-z0-9]+", parted.lower())) + "_"
    for status, problem, words in _WORDS:
        if any(f"_{word}_" in normal for word in words):
            return status, f"{problem} (finish reason {spoken!r})" if problem else None
    if text.strip():
        return Status.OK, None
    return Status.API_ERROR, (
        f"no text, and a finish reason that is not known: {spoken!r}"
        if spoken
        else "no text, and no finish reason"
    )
