"""A server of chat completions that calls tools by a script, strict about what comes back, for the tests of tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from mnistpro_jax.demo_server.tools import check_transcript
from mnistpro_jax.demo_server.wire import WireError
from tests.host.fake_server import Answer, Body, chat, fault

Call = tuple[str, Any]
"""A tool's name, and its arguments: an object, or a text as it is sent."""


def calls(*wanted: Call, number: int = 0, usage: tuple[int, int] = (100, 10)) -> Answer:
    """A reply that calls tools."""
    made = [
        {
            "id": f"call_{number}_{k}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for k, (name, arguments) in enumerate(wanted)
    ]
    status, headers, body = chat(None, finish="tool_calls", usage=usage)
    loaded = json.loads(body)
    loaded["choices"][0]["message"] |= {"tool_calls": made}
    return status, headers, json.dumps(loaded).encode()


def replies_of(body: Body) -> int:
    """How many replies of the model a request holds."""
    return sum(message["role"] == "assistant" for message in body["messages"])


def scripted(script: Sequence[Sequence[Call] | str | Answer]) -> Callable[[Body, int], Answer]:
    """Says the script's items in order, by the number of replies that a request holds, the last one again and again.

    An item is the calls of a reply, a text, or a whole answer. A transcript that a strict server refuses is a 400.
    """

    def respond(body: Body, number: int) -> Answer:
        messages = [
            {name: value for name, value in message.items() if name != "extra"}
            for message in body["messages"]
        ]
        try:
            check_transcript(messages, pictures_in_tools=True, signed=False)
        except WireError as error:
            return fault(400, error.message)
        said = replies_of(body)
        item = script[min(said, len(script) - 1)]
        if isinstance(item, str):
            return chat(item)
        if item and isinstance(item[0], int):
            return item  # type: ignore[return-value]
        return calls(*item, number=said)  # type: ignore[arg-type]

    return respond


def results(body: Body) -> list[str]:
    """The texts of the tools' messages of a request."""
    found = []
    for message in body["messages"]:
        if message["role"] == "tool":
            content = message["content"]
            found.append(content if isinstance(content, str) else content[0]["text"])
    return found


def pictures(body: Body) -> list[str]:
    """The pictures of a request, in order."""
    return [
        part["image_url"]["url"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
