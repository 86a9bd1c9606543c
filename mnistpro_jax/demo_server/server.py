"""The server itself: ``POST /v1/chat/completions``, ``GET /v1/models``, ``GET /stats``, on 127.0.0.1 alone.

HTTP is the standard library's: a thread a connection, connections kept alive.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import socket
import statistics
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from mnistpro_jax.demo_server import wire
from mnistpro_jax.demo_server.conversation import read_request
from mnistpro_jax.demo_server.faults import Fault, FaultDraws, Faults
from mnistpro_jax.demo_server.player import Player
from mnistpro_jax.demo_server.spoilt import Sent, before_reply, spoilt
from mnistpro_jax.demo_server.tools import as_call, as_note, check_transcript, offered
from mnistpro_jax.demo_server.wire import WireError

HOST = "127.0.0.1"
MODEL = "demo"
_LARGEST_BODY = 256 * 2**20
_KEPT_TIMES = 10_000
_BAD = "bad-request"
_DRIP_S = 0.5


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """port: 0 for any free one. model: the one model that it serves; others are answered with 404, as OpenAI does.
    api_key: what ``Authorization: Bearer`` must hold, None for anything or nothing. images: False for a server that
    refuses pictures. faults: see ``Faults``. tools, parallel, pictures_in_tools: whether it calls tools, knows the
    field ``parallel_tool_calls``, and takes pictures in the messages of tools."""

    port: int = 8765
    model: str = MODEL
    api_key: str | None = None
    images: bool = True
    faults: Faults = dataclasses.field(default_factory=Faults)
    tools: bool = True
    parallel: bool = True
    pictures_in_tools: bool = False


class Statistics:
    """Counters of a server, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._times: collections.deque[float] = collections.deque(maxlen=_KEPT_TIMES)
        self._running = 0
        self._most_running = 0

    def begin(self) -> None:
        """A request has come."""
        with self._lock:
            self._counts["requests"] += 1
            self._running += 1
            self._most_running = max(self._most_running, self._running)

    def end(self, outcome: str, pictures: int = 0, usage: dict[str, int] | None = None) -> None:
        """It is answered. outcome: a ``Fault``'s value, or "bad-request"."""
        with self._lock:
            self._running -= 1
            self._outcomes[outcome] += 1
            self._counts["pictures"] += pictures
            for name in ("prompt_tokens", "completion_tokens"):
                self._counts[name] += (usage or {}).get(name, 0)

    def thought(self, seconds: float) -> None:
        """A decision took so long."""
        with self._lock:
            self._times.append(seconds)

    def report(self) -> dict[str, Any]:
        """Counters as a JSON object; thinking_ms_median is over the last 10,000 decisions, null without any."""
        with self._lock:
            return {
                "requests": self._counts["requests"],
                "outcomes": {
                    name: self._outcomes[name]
                    for name in (*Fault, _BAD)
                    if name in (Fault.NONE, _BAD) or self._outcomes[name]
                },
                "pictures": self._counts["pictures"],
                "prompt_tokens": self._counts["prompt_tokens"],
                "completion_tokens": self._counts["completion_tokens"],
                "running": self._running,
                "most_running": self._most_running,
                "thinking_ms_median": 1e3 * statistics.median(self._times) if self._times else None,
            }


class DemoServer:
    """A running server: ``with DemoServer(ServerSettings(port=0)) as server: ... server.base_url``.

    player: to share one reader among servers. Raises OSError where the port cannot be had.
    """

    def __init__(self, settings: ServerSettings | None = None, player: Player | None = None) -> None:
        self.settings = settings or ServerSettings()
        self.statistics = Statistics()
        self.player = player or Player()
        self.draws = FaultDraws(self.settings.faults)
        self._http = _Server((HOST, self.settings.port), _Handler)
        self._http.demo = self
        self._thread = threading.Thread(target=self._listen, name="demo-server", daemon=True)

    def _listen(self) -> None:
        self._http.serve_forever(poll_interval=0.05)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._http.server_address[1])

    @property
    def base_url(self) -> str:
        """What a client is given as ``base_url``."""
        return f"http://{HOST}:{self.port}/v1"

    def start(self) -> Self:
        """Listen, in a thread of its own."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Listen no more. Requests that still wait for their latency are dropped when the process ends."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def reply(self, raw: bytes, authorization: str | None) -> Sent:
        """What is sent for the body of a chat-completions request."""
        self.statistics.begin()
        outcome, pictures, usage = _BAD, 0, None
        try:
            fault, latency = self.draws.draw(raw)
            sent = before_reply(fault, self.settings.faults)
            if fault is not Fault.RATE_LIMIT:
                time.sleep(latency)
            if sent is None:
                good, pictures, limit = self._completion(raw, authorization)
                body, sent = spoilt(fault, good, self.settings.faults, limit)
                usage = body.get("usage")
            outcome = fault.value
            return sent
        except WireError as error:
            return _error(error.status, error.message, error.code, error.param)
        except Exception as error:  # whatever it is, the client gets an answer and the server goes on
            outcome = _BAD
            return _error(500, f"unexpected {type(error).__name__}: {error}")
        finally:
            self.statistics.end(outcome, pictures, usage)

    def _number(self) -> int:
        return int(self.statistics.report()["requests"])

    def _completion(self, raw: bytes, authorization: str | None) -> tuple[dict[str, Any], int, int]:
        """(a good reply, pictures in the request, the reply's limit of tokens)."""
        key = self.settings.api_key
        if key is not None and authorization != f"Bearer {key}":
            raise WireError(401, "the API key is missing or wrong", "invalid_api_key")
        try:
            request = json.loads(raw)
        except ValueError as error:
            raise WireError(400, f"the request is not JSON ({error})") from None
        asked = request.get("model") if isinstance(request, dict) else None
        if asked != self.settings.model:
            raise WireError(
                404,
                f"there is no model {asked!r} here; it is called {self.settings.model!r}",
                "model_not_found",
                "model",
            )
        tools = offered(request)
        if tools:
            if not self.settings.tools:
                raise WireError(400, "this model calls no tools", "unsupported", "tools")
            if not self.settings.parallel and "parallel_tool_calls" in request:
                raise WireError(400, "parallel_tool_calls is not known here", "unknown_parameter")
            check_transcript(request.get("messages") or (), self.settings.pictures_in_tools)
        conversation = read_request(request)
        if not self.settings.images:
            raise WireError(
                400, "this model takes no pictures; the request holds image_url", "unsupported", "messages"
            )
        began = time.perf_counter()
        text = self.player.decide(conversation).text
        self.statistics.thought(time.perf_counter() - began)
        body = wire.completion(
            self._number(),
            self.settings.model,
            text,
            prompt_characters=len(conversation.text),
            pictures=len(conversation.pictures),
        )
        if tools:
            number = self._number()
            message = as_note(number, request, tools) or as_call(number, text)
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            body["choices"][0] |= {"message": message, "finish_reason": finish}
        limit = request.get("max_completion_tokens") or request.get("max_tokens") or 1024
        return body, len(conversation.pictures), limit


def _error(status: int, message: str, code: str | None = None, param: str | None = None) -> Sent:
    return Sent(status, json.dumps(wire.error_body(message, status, code, param)).encode())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 512
    demo: DemoServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        """Models and counters."""
        demo = self.server.demo
        if self.path == "/stats":
            self._send(200, demo.statistics.report())
        elif self.path.rstrip("/") == "/v1/models":
            model = {"id": demo.settings.model, "object": "model", "created": 0, "owned_by": "mnistpro_jax"}
            self._send(200, {"object": "list", "data": [model]})
        else:
            self._send(404, wire.error_body(f"there is nothing at {self.path}", 404))

    def do_POST(self) -> None:
        """Chat completions."""
        length = self.headers.get("content-length")
        if length is None or not length.isdigit() or int(length) > _LARGEST_BODY:
            self.close_connection = True
            self._send(411, wire.error_body("expected a content-length of at most 256 MB", 411))
            return
        raw = self.rfile.read(int(length))
        if self.path.rstrip("/") != "/v1/chat/completions":
            self._send(404, wire.error_body(f"there is nothing at {self.path}", 404))
            return
        sent = self.server.demo.reply(raw, self.headers.get("authorization"))
        if sent.body is None:
            self.close_connection = True
            return
        self._deliver(sent)

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self._deliver(Sent(status, json.dumps(body).encode()))

    def _deliver(self, sent: Sent) -> None:
        data = sent.body or b""
        spaces = int(sent.drip_s / _DRIP_S)
        self.send_response(sent.status, HTTPStatus(sent.status).phrase)
        headers = {"content-type": "application/json", **sent.headers, "content-length": spaces + len(data)}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        for _ in range(spaces):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(_DRIP_S)
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """No line a request."""
