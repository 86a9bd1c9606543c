"""Chat messages in OpenAI's format, whatever they are about: their digest, their texts, their pictures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from mnistpro_jax.host.contract import Message


def messages_digest(messages: Sequence[Message]) -> str:
    """SHA-256 of a request's messages, 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(messages, sort_keys=True).encode()).hexdigest()[:16]


def count_pictures(messages: Sequence[Message]) -> int:
    """Pictures in a request."""
    return sum(
        part["type"] == "image_url"
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
    )


def texts_of(messages: Sequence[Message]) -> list[str]:
    """The texts of a request, in order, without its pictures."""
    texts: list[str] = []
    for message in messages:
        content = message["content"]
        parts: list[Mapping[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        texts += [part["text"] for part in parts if part["type"] == "text"]
    return texts
