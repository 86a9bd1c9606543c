"""A model behind chat completions that acts by calling tools.

A request is the rules, the first picture, and the transcript: the model's messages as they came (fields that we do not
know included, because some providers want them back), a ``tool`` message of text for every call, and then one user
message with the pictures, because chat completions take none from tools. Several calls in one message are carried out
in their order; moves among them cost no further reply.

All of it is rebuilt from the journal: what was paid for is not asked again.
"""

from __future__ import annotations

import collections
import dataclasses
import secrets
import time
from typing import Any

from mnistpro_jax.host.contract import REPLY, Decision, HostPolicy, Message, Status, Turn, Usage
from mnistpro_jax.host.journal import Journal
from mnistpro_jax.host.memory import UNBOUNDED
from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy
from mnistpro_jax.host.pictures import data_url
from mnistpro_jax.host.tools.desk import Desk, Kind, Result
from mnistpro_jax.host.tools.rules import ToolRules
from mnistpro_jax.host.tools.schema import as_functions

PICTURES_IN = ("user", "tool")
_KEPT = 4096  # characters of a call's arguments in the log


@dataclasses.dataclass(frozen=True)
class ToolSettings:
    """How the model is asked. horizon: pictures in a request, the newest ones; ``UNBOUNDED``: all. reminders: replies
    without a call, in a row, that are answered with a word. pictures_in: "user", or "tool" for servers that take
    pictures in the messages of tools. counter: whether results say how many moves are left."""

    horizon: int = UNBOUNDED
    reminders: int = 3
    pictures_in: str = "user"
    counter: bool = True

    def __post_init__(self) -> None:
        if self.pictures_in not in PICTURES_IN:
            raise ValueError(f"pictures in is {self.pictures_in!r}; expected one of {', '.join(PICTURES_IN)}")


class ToolPolicy(HostPolicy):
    """A model that acts by tools. chat: who is asked."""

    journals = True

    def __init__(self, chat: OpenAIChatPolicy, rules: ToolRules, settings: ToolSettings) -> None:
        self._chat = chat
        self._rules = rules
        self._settings = settings
        self._episodes: dict[int, _Episode] = {}
        self._parallel: dict[str, Any] = {"parallel_tool_calls": False}

    def begin(self, episode: int, journal: Journal) -> None:
        """A transcript of its own for each episode."""
        desk = self._rules.desk(self._settings.counter)
        self._episodes[episode] = _Episode(self, self._rules, self._settings, desk, journal)

    async def act(self, turn: Turn) -> Decision:
        """Ask until a call is an action."""
        return await self._episodes[turn.episode].act(turn)

    def record(self, episode: int) -> dict[str, Any]:
        """What the calls came to."""
        return self._episodes[episode].record() if episode in self._episodes else {}

    def forget(self, episode: int) -> None:
        """Drop the transcript."""
        self._episodes.pop(episode, None)

    async def close(self) -> None:
        """Close the connections."""
        await self._chat.close()

    async def ask(self, turn: Turn, tools: list[dict[str, Any]]) -> Decision:
        """One call: a decision with REPLY, and the message as it came in ``details``; or one that failed."""
        began = time.perf_counter()
        reply, message = await self._chat.ask(turn, {"tools": tools, **self._parallel})
        if (
            reply.status == Status.API_ERROR
            and self._parallel
            and "parallel_tool_calls" in (reply.problem or "")
        ):
            self._parallel = {}
            reply, message = await self._chat.ask(turn, {"tools": tools})
        facts: dict[str, Any] = {
            "text": reply.text,
            "usage": reply.usage,
            "latency_s": time.perf_counter() - began,
            "details": reply.details,
        }
        if reply.status != Status.OK or message is None:
            return Decision(reply.status, problem=reply.problem, failure=reply.failure, **facts)
        facts["details"] = {**reply.details, "message": message}
        return Decision(Status.OK, REPLY, **facts)


@dataclasses.dataclass(frozen=True)
class _Call:
    id: str
    name: Any
    arguments: Any


_Pictures = list[str]
"""Ids of pictures to show after the results of a message's calls."""


class _Episode:
    def __init__(
        self, policy: ToolPolicy, rules: ToolRules, settings: ToolSettings, desk: Desk, journal: Journal
    ) -> None:
        self._policy = policy
        self._rules = rules
        self._settings = settings
        self._desk = desk
        self._journal = journal
        self._functions = as_functions(desk.tools)
        self._said: list[Message | _Pictures] = []
        self._queue: collections.deque[_Call] = collections.deque()
        self._open: _Call | None = None
        self._shown: _Pictures = []
        self._silent = 0
        self._stopped: str | None = None

    def record(self) -> dict[str, Any]:
        desk = self._desk
        return {
            "views": desk.views,
            "faulty_calls": desk.faulty,
            "moves_refused": desk.refused,
            "stopped": self._stopped,
        }

    async def act(self, turn: Turn) -> Decision:
        self._see(turn)
        while True:
            if self._desk.exhausted:
                return self._end("faulty calls")
            if self._queue:
                call = self._queue.popleft()
                result = self._desk.call(call.name, call.arguments)
                if result.kind == Kind.ACTION:
                    self._open = call
                    assert result.decision is not None
                    return dataclasses.replace(result.decision, asked=False, details={"call": call.id})
                self._note(turn, call, result)
                self._answer(call, result.text, result.image)
                continue
            self._show()
            if self._journal.replies >= self._desk.limits.replies:
                return self._end("calls")
            asked = dataclasses.replace(turn, messages=tuple(self._messages()))
            decision = await self._journal.reply(asked, lambda: self._policy.ask(asked, self._functions))  # noqa: B023
            if decision.status != Status.OK:
                # The journal has what it took.
                return dataclasses.replace(decision, usage=Usage(), asked=False, failure=None)
            if not self._hear(decision.details["message"]):
                return self._end("no answer")

    def _see(self, turn: Turn) -> None:
        """The environment shows a picture: the first one, or the result of the move that is still to be answered."""
        event = self._journal.note(turn, "picture", lambda: {"image": secrets.token_hex(16)})
        text = self._desk.expose(event["image"], turn.pictures[-1])
        if self._open is not None:
            self._answer(self._open, text, event["image"])
            self._open = None
            return
        self._said.append({"role": "user", "content": [{"type": "text", "text": text}]})
        self._shown.append(event["image"])

    def _note(self, turn: Turn, call: _Call, result: Result) -> None:
        """A call that is no action, for the log."""
        said = call.arguments if isinstance(call.arguments, str) else repr(call.arguments)
        self._journal.note(
            turn,
            result.kind.value,
            lambda: {"tool": str(call.name)[:_KEPT], "arguments": said[:_KEPT], "result": result.text},
        )

    def _answer(self, call: _Call, text: str, image: str | None) -> None:
        content: Any = text
        if image is not None and self._settings.pictures_in == "tool":
            content = [{"type": "text", "text": text}, [image]]
        elif image is not None:
            self._shown.append(image)
        self._said.append({"role": "tool", "tool_call_id": call.id, "content": content})

    def _show(self) -> None:
        """The pictures of the calls that were answered, once all of them are."""
        if self._shown:
            self._said.append(self._shown)
            self._shown = []

    def _hear(self, message: Message) -> bool:
        """A message of the model's. False: it has called nothing too often."""
        self._said.append(message)
        calls = message.get("tool_calls") or []
        for call in calls:
            function = call.get("function") or {}
            self._queue.append(_Call(str(call.get("id")), function.get("name"), function.get("arguments")))
        self._silent = 0 if calls else self._silent + 1
        if self._silent > self._settings.reminders:
            return False
        if not calls:
            if not message.get("content"):
                self._said.pop()  # an empty text, which servers refuse
            self._said.append({"role": "user", "content": self._rules.say("turn.reminder")})
        return True

    def _end(self, why: str) -> Decision:
        self._stopped = why
        return Decision(Status.UNPARSEABLE, problem=why, final=True, asked=False)

    def _messages(self) -> list[Message]:
        """The request: older pictures than the horizon become a line."""
        total = sum(len(item) for item in self._said if isinstance(item, list)) + sum(
            isinstance(item, dict)
            and isinstance(item["content"], list)
            and isinstance(item["content"][-1], list)
            for item in self._said
        )
        horizon = self._settings.horizon
        gone = 0 if horizon == UNBOUNDED else max(0, total - horizon)
        made: list[Message] = [{"role": "system", "content": self._rules.rules}]
        for item in self._said:
            if isinstance(item, list):
                parts: list[dict[str, Any]] = []
                for image in item:
                    parts += self._picture(image, gone > 0)
                    gone -= 1
                if made[-1]["role"] == "user" and isinstance(made[-1]["content"], list):
                    made[-1] = {"role": "user", "content": [*made[-1]["content"], *parts]}
                else:
                    made.append({"role": "user", "content": parts})
            elif isinstance(item.get("content"), list) and isinstance(item["content"][-1], list):
                text, (image,) = item["content"]
                made.append({**item, "content": [text, *self._picture(image, gone > 0)]})
                gone -= 1
            else:
                made.append(item)
        return made

    def _picture(self, image: str, gone: bool) -> list[dict[str, Any]]:
        if gone:
            return [{"type": "text", "text": self._rules.say("result.gone", image=image)}]
        return [
            {"type": "text", "text": self._rules.say("result.shown", image=image)},
            {"type": "image_url", "image_url": {"url": data_url(self._desk.pictures[image])}},
        ]
