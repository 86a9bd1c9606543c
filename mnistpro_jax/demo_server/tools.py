"""Tool calling as chat completions have it: what a server checks of a transcript, and an answer as a call."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from mnistpro_jax.demo_server.wire import WireError

SIGNED = "extra_content"
"""A field of an assistant's message that has to come back as it was sent, as some providers ask for."""


def offered(request: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The tools of a request by name, none where it has none. Raises WireError for what is no list of functions."""
    found = {}
    for number, tool in enumerate(request.get("tools") or ()):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise WireError(400, f"tools[{number}] is no function", None, "tools")
        found[function["name"]] = function.get("parameters") or {}
    return found


def check_transcript(messages: Any, pictures_in_tools: bool, signed: bool = True) -> None:
    """Raise WireError where calls are unanswered or answered twice, a signature is missing, or tools send pictures."""
    waiting: dict[str, None] = {}
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        role = message.get("role")
        if role == "tool":
            call = message.get("tool_call_id")
            if call not in waiting:
                raise WireError(400, f"{where} answers the call {call!r}, which is not open", None, where)
            del waiting[call]
            pictured = isinstance(message.get("content"), list) and any(
                part.get("type") == "image_url" for part in message["content"]
            )
            if pictured and not pictures_in_tools:
                raise WireError(400, f"{where}: messages of tools hold text alone here", None, where)
            continue
        if waiting:
            raise WireError(
                400, f"the calls {', '.join(waiting)} are not answered before {where}", None, where
            )
        if role == "assistant" and message.get("tool_calls"):
            waiting = dict.fromkeys(call["id"] for call in message["tool_calls"])
            if signed and message.get(SIGNED) != _signature(message["tool_calls"]):
                raise WireError(400, f"{where} came back without its {SIGNED}", None, where)
    if waiting:
        raise WireError(400, f"the calls {', '.join(waiting)} are not answered", None, "messages")


def as_call(number: int, reply: str) -> dict[str, Any]:
    """The assistant's message that does by a call what a reply in the protocol's JSON says. number: makes the id."""
    said = json.loads(reply)
    if said["action"] == "move":
        function = {"name": "move", "arguments": json.dumps({"direction": said["direction"]})}
    else:
        function = {"name": "submit", "arguments": json.dumps({"value": said["value"]})}
    return _calling(number, function)


def as_note(number: int, request: Mapping[str, Any], offers: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is done after the answer: notes on it, once; None before it."""
    messages = request["messages"]
    if "submit" in offers:
        return None
    last = messages[-1]
    if last["role"] != "tool" or not _is_receipt(str(last["content"])):
        return {"role": "assistant", "content": "That is all."}
    said = "\n".join(str(message.get("content")) for message in messages[:2])
    seen = [int(count) for count in re.findall(r"after episode (\d+)", said)]
    text = f"after episode {max(seen, default=0) + 1}: {str(last['content']).split('.')[0]}"
    return _calling(number, {"name": "write_notes", "arguments": json.dumps({"text": text})})


def _is_receipt(text: str) -> bool:
    return "episode is over" in text


def _calling(number: int, function: Mapping[str, Any]) -> dict[str, Any]:
    calls = [{"id": f"call_{number}", "type": "function", "function": dict(function)}]
    return {"role": "assistant", "content": None, "tool_calls": calls, SIGNED: _signature(calls)}


def _signature(calls: Any) -> dict[str, str]:
    return {"signature": hashlib.sha256(json.dumps(calls, sort_keys=True).encode()).hexdigest()}
