"""What a chat-completions request tells a player: pictures, text, how late it is and what the reply must hold."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from mnistpro_jax.demo_server.wire import WireError

_STEP_OF = re.compile(r"\b(?:step|turn)\D{0,12}(\d+)\s*(?:of|/)\s*(\d+)", re.IGNORECASE)
_LEFT = re.compile(
    r"\b(\d+)\s+(?:more\s+)?(?:steps?|turns?|actions?)\s+(?:are\s+|is\s+)?(?:left|remain)", re.IGNORECASE
)
_MOVE = re.compile(r"\bmove\b", re.IGNORECASE)
_LAST = re.compile(
    r"\blast (?:allowed )?(?:step|turn|action)\b|\bmust (?:give your |now )?(?:final )?answer now\b|\banswer now\b",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class Conversation:
    """One request as a player sees it.

    pictures: PNG data URLs, oldest first. newest: how many of them came with the last message that has any.
    text: everything written, by anyone. last_text: what the last message says. step: actions taken so far, budget:
    actions allowed, each None where the text does not say. last_turn: whether it must answer now. moves: whether
    moving is spoken of at all. keys: the extra keys that the reply must hold, of "thought" and "spatial_map".
    """

    pictures: tuple[str, ...]
    newest: int
    text: str
    last_text: str
    step: int | None
    budget: int | None
    last_turn: bool
    moves: bool
    keys: frozenset[str]


def read_request(body: Any) -> Conversation:
    """The conversation of a request's JSON body. Raises WireError, which names what is wrong with it."""
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages:
        raise WireError(400, "messages is missing; expected a list of chat messages", None, "messages")
    if body.get("stream") or body.get("n", 1) not in (None, 1):
        raise WireError(400, "this server does not stream, and gives one choice a request", None, "stream")
    pictures: list[str] = []
    texts: list[str] = []
    newest = 0
    for number, message in enumerate(messages):
        urls, text = _parts(message, f"messages[{number}]")
        pictures += urls
        newest = len(urls) or newest
        texts.append(text)
    if not pictures:
        raise WireError(
            400, "the conversation holds no picture; expected at least one image_url", None, "messages"
        )
    text = "\n".join(texts)
    step, budget = _clock(texts)
    return Conversation(
        pictures=tuple(pictures),
        newest=newest,
        text=text,
        last_text=texts[-1],
        step=step,
        budget=budget,
        last_turn=_is_last(texts[-1], step, budget),
        moves=bool(_MOVE.search(text)),
        keys=frozenset(key for key in ("thought", "spatial_map") if f'"{key}"' in text),
    )


def _parts(message: Any, where: str) -> tuple[list[str], str]:
    """(picture URLs, text) of a message."""
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise WireError(400, f"{where} has no role; expected a chat message", None, where)
    content = message.get("content")
    if content is None or isinstance(content, str):
        return [], content or ""
    if not isinstance(content, list):
        raise WireError(400, f"{where}.content is neither text nor a list of parts", None, where)
    urls, texts = [], []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind == "image_url" and isinstance(part.get("image_url"), dict):
            urls.append(str(part["image_url"].get("url")))
        else:
            raise WireError(
                400, f"{where}.content has a part of type {kind!r}; expected text or image_url", None, where
            )
    return urls, "\n".join(texts)


def _clock(texts: list[str]) -> tuple[int | None, int | None]:
    """(actions taken, actions allowed) as the newest text that says so has them."""
    for text in reversed(texts):
        found = _STEP_OF.findall(text)
        if found:
            turn, budget = map(int, found[-1])
            return max(0, turn - 1), budget
    return None, None


def _is_last(text: str, step: int | None, budget: int | None) -> bool:
    left = _LEFT.findall(text)
    return (
        bool(_LAST.search(text))
        or (bool(left) and int(left[-1]) <= 1)
        or (step is not None and budget is not None and step >= budget - 1)
    )
