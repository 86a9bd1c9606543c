"""The chat-completions format: replies, usage and errors as OpenAI-compatible servers send them.

Source: OpenAI's API reference, "Chat completions" (object, choices, usage, error).
"""

from __future__ import annotations

import time
from typing import Any

TOKENS_A_PICTURE = 255
CHARACTERS_A_TOKEN = 4
"""Usage is estimated by fixed rates, so that a client's own estimate can be compared with it exactly."""


class WireError(Exception):
    """A request that is refused: HTTP status, message, and the ``code`` and ``param`` of the error object."""

    def __init__(self, status: int, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param


def error_body(
    message: str, status: int, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """The JSON body of an error."""
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def tokens_of(characters: int) -> int:
    """Tokens of a text by the fixed rate, rounded up."""
    return -(-characters // CHARACTERS_A_TOKEN)


def completion(
    number: int,
    model: str,
    content: str,
    *,
    prompt_characters: int,
    pictures: int,
) -> dict[str, Any]:
    """The JSON body of a reply with one choice.

    number: makes the id. content: the message. prompt_characters, pictures: of the request.
    """
    prompt = tokens_of(prompt_characters) + TOKENS_A_PICTURE * pictures
    spent = tokens_of(len(content))
    return {
        "id": f"chatcmpl-demo-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": prompt, "completion_tokens": spent, "total_tokens": prompt + spent},
    }
