"""A small OpenAI-compatible server on the loopback address, with faults to order. For tests and measurements alone."""

from __future__ import annotations

import asyncio
import collections
import json
import math
import random
import threading
from collections.abc import Callable
from typing import Any

Body = dict[str, Any]
Answer = tuple[int, dict[str, str], bytes]
"""Status, headers, body. Status 0: the connection closes without a word. A header ``x-drip`` of so many seconds: a
space comes now and then for so long, and then the body."""


def chat(
    text: str | None,
    *,
    finish: str = "stop",
    refusal: str | None = None,
    usage: tuple[int, int] = (100, 10),
) -> Answer:
    """A chat completion."""
    message = {"role": "assistant", "content": text, "refusal": refusal}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "fake",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        },
    }
    return 200, {}, json.dumps(body).encode()


def fault(status: int, message: str = "fault", code: str | None = None, **headers: str) -> Answer:
    """An error as OpenAI words it."""
    body = {"error": {"message": message, "type": code or "error", "code": code, "param": None}}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, sent, json.dumps(body).encode()


class FakeServer:
    """Answers each chat request with ``respond(body, number of the request)``. Use as a context manager.

    latency: seconds, or a function of the number of the request. requests: bodies, as they came. models: listed ones.
    """

    def __init__(
        self,
        respond: Callable[[Body, int], Answer],
        latency: float | Callable[[int], float] = 0.0,
        models: tuple[str, ...] = ("fake",),
        keep: bool = True,
    ) -> None:
        self.respond = respond
        self.latency = latency
        self.models = models
        self.requests: list[Body] = []
        self.headers: list[dict[str, str]] = []
        self.count = 0
        self.active = 0
        self.most_active = 0
        self.paths: collections.Counter[str] = collections.Counter()
        self._keep = keep
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> FakeServer:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)

        async def begin() -> asyncio.Server:
            server = await asyncio.start_server(self._connection, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            return server

        server = self._loop.run_until_complete(begin())
        self._loop.call_soon(self._ready.set)
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines if line)
                }
                content = await reader.readexactly(int(headers.get("content-length", 0)))
                path = first.split(" ")[1]
                self.paths[path] += 1
                status, sent, body = await self._answer(path, headers, content)
                if status == 0:
                    return
                if "x-drip" in sent:
                    await _drip(writer, float(sent["x-drip"]), body)
                    continue
                sent = {"content-type": "application/json", **sent, "content-length": str(len(body))}
                top = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
                writer.write(f"HTTP/1.1 {status} x\r\n{top}\r\n".encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: str, headers: dict[str, str], content: bytes) -> Answer:
        path = path.partition("?")[0]
        if path.endswith("/models"):
            listed = [{"id": name, "object": "model", "created": 0, "owned_by": "x"} for name in self.models]
            return 200, {}, json.dumps({"object": "list", "data": listed}).encode()
        if not path.endswith("/chat/completions"):
            return fault(404, "no such path")
        number = self.count
        self.count += 1
        body = json.loads(content)
        if self._keep:
            self.requests.append(body)
            self.headers.append(headers)
        self.active += 1
        self.most_active = max(self.active, self.most_active)
        try:
            await asyncio.sleep(self.latency(number) if callable(self.latency) else self.latency)
            return self.respond(body, number)
        finally:
            self.active -= 1


async def _drip(writer: asyncio.StreamWriter, seconds: float, body: bytes) -> None:
    spaces = int(seconds / 0.05)
    length = spaces + len(body)
    head = f"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    writer.write(head.encode())
    for _ in range(spaces):
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.05)
    writer.write(body)
    await writer.drain()


def lognormal(median: float, sigma: float, seed: int) -> Callable[[int], float]:
    """Latencies as of paid models: heavy-tailed."""
    chance = random.Random(seed)
    drawn = [median * math.exp(sigma * chance.gauss(0, 1)) for _ in range(10_000)]
    return lambda number: drawn[number % len(drawn)]


def turn_of(body: Body) -> int:
    """The number of the turn that a windowed request is about, from its text."""
    text = "".join(
        part["text"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "text"
    )
    return int(text.rsplit("Turn ", 1)[1].split(" ", 1)[0])


def walker(steps: int, usage: tuple[int, int] = (100, 10)) -> Callable[[Body, int], Answer]:
    """An agent that goes round and answers 7 as its ``steps``-th action, by the number of the turn alone."""
    moves = ("right", "down", "left", "up")

    def respond(body: Body, number: int) -> Answer:
        turn = turn_of(body)
        if turn >= steps:
            return chat('{"action": "answer", "value": "7"}', usage=usage)
        return chat(json.dumps({"action": "move", "direction": moves[turn % 4]}), usage=usage)

    return respond
