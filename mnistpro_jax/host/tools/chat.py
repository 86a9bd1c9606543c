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
import json
import secrets
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.host.capped import LONGEST
from mnistpro_jax.host.contract import (
    REPLY,
    UNFINISHED,
    Decision,
    HostPolicy,
    Journal,
    Message,
    Status,
    Turn,
    Usage,
)
from mnistpro_jax.host.memory import UNBOUNDED
from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy
from mnistpro_jax.host.pictures import data_url
from mnistpro_jax.host.problems import NO_CALL
from mnistpro_jax.host.tools.desk import Desk, Kind, Result
from mnistpro_jax.host.tools.notes import Notebook, digest
from mnistpro_jax.host.tools.rules import ToolRules
from mnistpro_jax.host.tools.schema import as_functions

_LAST_REPLIES = 4
_KEPT = 4096  # characters of a call's arguments in the log


class ToolPolicy(HostPolicy):
    """A model that acts by tools. chat: who is asked. order: episodes as the session plays them. folder: of the run.

    horizon: pictures in a request, the newest ones; ``UNBOUNDED``: all. reminders: replies without a call, in a row,
    that are answered with a word.
    """

    journals = True

    def __init__(
        self,
        chat: OpenAIChatPolicy,
        rules: ToolRules,
        order: Sequence[int] = (),
        folder: Path | None = None,
        *,
        horizon: int = UNBOUNDED,
        reminders: int = 3,
    ) -> None:
        self._chat = chat
        self._positions = {episode: position for position, episode in enumerate(order, start=1)}
        self._folder = folder
        self._notebook: Notebook | None = None
        self._rules = rules
        self.horizon = horizon
        self.reminders = reminders
        self._episodes: dict[int, _Episode] = {}
        self._parallel: dict[str, Any] = {"parallel_tool_calls": False}

    def begin(self, episode: int, journal: Journal) -> None:
        """A transcript of its own for each episode."""
        position = self._positions.get(episode, episode + 1)
        notes = self._notes().before(position) if self._rules.request.has_notes else ""
        desk = self._rules.desk(notes)
        self._episodes[episode] = _Episode(self, self._rules, desk, journal, position)

    def _notes(self) -> Notebook:
        # Made where it is used: the folder is there by then.
        if self._notebook is None:
            self._notebook = Notebook(self._folder)
        return self._notebook

    async def debrief(self, turn: Turn, correct: bool | None) -> Decision | None:
        """The receipt, and the last word on the notes. Returns a decision where that could not be finished."""
        episode = self._episodes[turn.episode]
        if not self._rules.request.has_notes:
            return None
        unfinished = await episode.debrief(turn, correct)
        if unfinished is None:
            self._notes().commit(episode.position, turn.episode, episode.notes)
        return unfinished

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

    async def ask(self, turn: Turn, tools: list[dict[str, Any]], may_speak: bool = False) -> Decision:
        """One call: a decision with REPLY, and the message in ``details``; or one that failed.

        A message without a call is UNPARSEABLE, with the message all the same, unless it may_speak.
        """
        began = time.perf_counter()
        sent = self._parallel
        reply, came = await self._chat.ask(turn, {"tools": tools, **sent})
        if sent and reply.status == Status.API_ERROR and "parallel_tool_calls" in (reply.problem or ""):
            self._parallel = {}  # others may have been asked meanwhile, and find out for themselves
            reply, came = await self._chat.ask(turn, {"tools": tools})
        facts: dict[str, Any] = {
            "text": reply.text,
            "usage": reply.usage,
            "latency_s": time.perf_counter() - began,
            "details": reply.details,
        }
        if reply.status != Status.OK or came is None:
            return Decision(reply.status, problem=reply.problem, failure=reply.failure, **facts)
        # What is empty says nothing, and some servers do not take it back.
        message = {name: value for name, value in came.items() if value not in (None, [])} | {
            "content": came.get("content")
        }
        size = len(json.dumps(message))
        if size > LONGEST:
            return Decision(Status.UNPARSEABLE, problem=f"a message of {size:,} characters", **facts)
        facts["details"] = {**reply.details, "message": message}
        if not may_speak and not _calls_of(message):
            return Decision(Status.UNPARSEABLE, problem=NO_CALL, **facts)
        return Decision(Status.OK, REPLY, **facts)


def _calls_of(message: Message) -> list[_Call]:
    """The calls of a message; of one that is none of the format's, what can be told of it."""
    found = []
    for call in message.get("tool_calls") or ():
        known = call if isinstance(call, dict) else {}
        function = known.get("function")
        asked = function if isinstance(function, dict) else {}
        found.append(_Call(str(known.get("id")), asked.get("name"), asked.get("arguments")))
    return found


@dataclasses.dataclass(frozen=True)
class _Call:
    id: str
    name: Any
    arguments: Any


@dataclasses.dataclass(frozen=True)
class _Answer:
    """The result of a call. image: id of a picture that its message holds, None without."""

    id: str
    text: str
    image: str | None


_Pictures = list[str]
"""Ids of pictures to show after the results of a message's calls."""


class _Episode:
    def __init__(
        self,
        policy: ToolPolicy,
        rules: ToolRules,
        desk: Desk,
        journal: Journal,
        position: int,
    ) -> None:
        self.position = position
        self._before = desk.notes
        self._policy = policy
        self._rules = rules
        self._desk = desk
        self._journal = journal
        self._functions = as_functions(desk.tools)
        self._said: list[Message | _Answer | _Pictures] = []
        self._queue: collections.deque[_Call] = collections.deque()
        self._open: _Call | None = None
        self._shown: _Pictures = []
        self._silent = 0
        self._stopped: str | None = None

    def record(self) -> dict[str, Any]:
        desk = self._desk
        notes = {
            name: {"sha256": digest(text), "characters": len(text)}
            for name, text in (("notes_before", self._before), ("notes_after", desk.notes))
        }
        return {
            "arm": self._rules.request.arm,
            "position": self.position,
            **(notes if self._rules.request.has_notes else {}),
            "views": desk.views,
            "faulty_calls": desk.faulty,
            "moves_refused": desk.refused,
            "stopped": self._stopped,
        }

    @property
    def notes(self) -> str:
        return self._desk.notes

    async def debrief(self, turn: Turn, correct: bool | None) -> Decision | None:
        """After the answer: the receipt, and a few replies with the tools of notes alone."""
        if self._open is None:
            return None
        self._answer(self._open, self._rules.receipt(correct), None)
        self._open = None
        functions = as_functions(self._desk.notes_tools)
        for number in range(_LAST_REPLIES + 1):
            while self._queue:
                call = self._queue.popleft()
                result = self._desk.call(call.name, call.arguments)
                self._note(turn, call, result)
                self._answer(call, result.text, result.image)
            self._show()
            if number == _LAST_REPLIES or self._desk.exhausted:
                break
            asked = dataclasses.replace(turn, messages=tuple(self._messages()))
            decision = await self._journal.reply(asked, lambda: self._policy.ask(asked, functions, True))  # noqa: B023
            if decision.status in UNFINISHED:
                return decision
            message = decision.details.get("message")
            if message is None or not _calls_of(message):
                break
            self._hear(message)
        return None

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
            message = decision.details.get("message")
            if message is None:
                # The journal has what it took.
                return dataclasses.replace(decision, usage=Usage(), asked=False, failure=None)
            if not self._hear(message):
                return self._end("no answer")

    def _see(self, turn: Turn) -> None:
        """The environment shows a picture: the first one, or the result of the move that is still to be answered."""
        event = self._journal.note(turn, "picture", lambda: {"image": secrets.token_hex(16)})
        text = self._desk.expose(event["image"], turn.pictures[-1])
        if self._open is not None:
            self._answer(self._open, text, event["image"])
            self._open = None
            return
        words = [word for word in (self._rules.first(self._before), text) if word]
        self._said.append({"role": "user", "content": [{"type": "text", "text": word} for word in words]})
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
        in_tool = self._rules.request.pictures_in == "tool"
        self._said.append(_Answer(call.id, text, image if in_tool else None))
        if image is not None and not in_tool:
            self._shown.append(image)

    def _show(self) -> None:
        """The pictures of the calls that were answered, once all of them are."""
        if self._shown:
            self._said.append(self._shown)
            self._shown = []

    def _hear(self, message: Message) -> bool:
        """A message of the model's. False: it has called nothing too often."""
        calls = _calls_of(message)
        self._queue.extend(calls)
        self._silent = 0 if calls else self._silent + 1
        if calls or message["content"]:  # servers refuse an empty text
            self._said.append(message)
        if self._silent > self._policy.reminders:
            return False
        if not calls:
            self._said.append({"role": "user", "content": self._rules.say("turn.reminder")})
        return True

    def _end(self, why: str) -> Decision:
        self._stopped = why
        return Decision(Status.UNPARSEABLE, problem=why, final=True, asked=False)

    def _messages(self) -> list[Message]:
        """The request: older pictures than the horizon become a line."""
        total = sum(
            len(item) if isinstance(item, list) else isinstance(item, _Answer) and item.image is not None
            for item in self._said
        )
        horizon = self._policy.horizon
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
            elif isinstance(item, _Answer):
                content: Any = item.text
                if item.image is not None:
                    content = [{"type": "text", "text": item.text}, *self._picture(item.image, gone > 0)]
                    gone -= 1
                made.append({"role": "tool", "tool_call_id": item.id, "content": content})
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
