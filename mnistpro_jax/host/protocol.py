"""What an agent is told on each turn: a ``Protocol`` (data) makes the chat messages of a turn from its history.

The request, always in OpenAI's chat format:

    windowed (all memories but the two below)
        system: the rules, the form of the reply, and how the memory works
        user:   [text, picture] for each picture that is shown, oldest first, then a text with the logs and the turn
    natural
        user:   the rules, and the first picture
        assistant, user, assistant, user ...: its replies as they came, each followed by the next picture alone
    full-image (control)
        system: the rules; user: the whole canvas

Where a server knows no system role, the rules open the first user message.

The turn's text says which turn it is, how many are left, and, on the last one, that it is the last. Pictures are PNG
data URLs in ``image_url`` parts. A reply is {"action": "move", "direction": "up"} or {"action": "answer", "value":
"7"}, with "thought" and "spatial_map" where the memory asks for them. The words are in a prompt pack.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Sequence
from typing import Any

from mnistpro_jax.host.contract import ANSWER, Decision, Message
from mnistpro_jax.host.memory import OWN, UNBOUNDED, Memory
from mnistpro_jax.host.parser import without_thinking
from mnistpro_jax.host.prompts import PromptPack

VERSION = 1
"""Raised whenever the same configuration would say something else to an agent."""
RETRIES = ("repeat", "explain")
SYSTEMS = ("system", "user")
DETAILS = ("low", "high", "auto")


@dataclasses.dataclass(frozen=True)
class World:
    """What the rules say about the world: sizes in pixels, budget in actions (the answer included)."""

    height: int
    width: int
    window: int
    stride: int
    digits: int
    num_classes: int
    budget: int
    outline: bool

    @property
    def facts(self) -> dict[str, Any]:
        """The values that every text of a pack may name."""
        return {
            "width": self.width,
            "height": self.height,
            "window": self.window,
            "stride": self.stride,
            "digits": self.digits,
            "largest": self.num_classes - 1,
            "budget": self.budget,
            # A digit in the example would be one that an agent which knows nothing says more often.
            "example": "?" * self.digits,
        }


@dataclasses.dataclass(frozen=True)
class Past:
    """An earlier turn: the picture that it showed (data URL), and what was made of it."""

    picture: str
    decision: Decision


@dataclasses.dataclass(frozen=True, eq=False)
class Protocol:
    """How a run talks to its agent.

    horizon: pictures shown, the current one included; ``UNBOUNDED``: all. attempts: replies that an agent may use up
    on a turn until one says what to do. warning: whether the last turn is announced. retry: what a further attempt
    sees: "repeat", the same request again, or "explain", its failed reply and a word on what was missing. detail:
    of ``image_url`` ("low", "high", "auto"), None to leave it out. system: the role that says the rules, "system" or
    "user".
    """

    world: World
    memory: Memory
    horizon: int
    prompts: PromptPack
    attempts: int = 3
    warning: bool = True
    retry: str = "repeat"
    detail: str | None = None
    system: str = "system"

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}; expected 1 or more")
        if self.retry not in RETRIES:
            raise ValueError(f"retry is {self.retry!r}; expected one of {', '.join(RETRIES)}")
        if self.detail not in (None, *DETAILS):
            raise ValueError(f"detail is {self.detail!r}; expected one of {', '.join(DETAILS)}, or none")
        if self.system not in SYSTEMS:
            raise ValueError(f"system is {self.system!r}; expected one of {', '.join(SYSTEMS)}")

    def pictures_shown(self, turn: int) -> int:
        """How many pictures the request of a turn (from 1) holds."""
        if self.memory.canvas:
            return 2
        if self.memory.full_image:
            return 1
        return turn if self.horizon == UNBOUNDED else min(turn, self.horizon)

    def messages(
        self, past: Sequence[Past], picture: str, canvas: str | None = None, failed: Sequence[str] = ()
    ) -> tuple[Message, ...]:
        """The request of a turn.

        past: the turns so far. picture: what the turn shows, as a data URL (the whole canvas in the control).
        canvas: the fused canvas, for the memories that have one. failed: earlier replies to this same turn.
        """
        if self.memory is OWN:
            return ()
        if self.memory.full_image:
            messages = self._ruled(self._image(picture))
        elif self.memory.multi_turn:
            messages = self._conversation(past, picture)
        else:
            messages = self._ruled(*self._window_parts(past, picture, canvas))
        if self.retry == "explain":
            for reply in failed:
                word, said = _text(self._say("turn.retry")), _unthought(reply)
                if said:
                    messages += [_assistant(said), _user(word)]
                else:
                    # Servers refuse an empty text, and some of them two messages of one role in a row.
                    messages[-1] = _user(*messages[-1]["content"], word)
        return tuple(messages)

    def _ruled(self, *parts: dict[str, Any]) -> list[Message]:
        if self.system == "user":
            return [_user(_text(self.rules()), *parts)]
        return [_system(self.rules()), _user(*parts)]

    def rules(self) -> str:
        """All that holds for the whole episode."""
        return self._rules

    @functools.cached_property
    def _rules(self) -> str:
        memory, several = self.memory, "many" if self.world.digits > 1 else "one"
        if memory.full_image:
            keys = [f"rules.full_{several}", f"reply.full_{several}"]
            return "\n\n".join(self._say(key) for key in keys)
        keys = [f"rules.task_{several}", "rules.window"]
        keys += ["rules.outline"] if self.world.outline else []
        keys += ["rules.moves", "rules.budget"]
        if memory.canvas:
            keys.append("memory.canvas")
        elif not memory.multi_turn:
            shown = {1: "one", UNBOUNDED: "all"}.get(self.horizon, "some")
            keys.append(f"memory.pictures_{shown}")
        keys += ["reply.move", f"reply.answer_{several}"]
        keys += ["reply.thought"] if memory.thoughts else []
        keys += ["reply.map"] if memory.grid_map else []
        return "\n\n".join(self._say(key) for key in keys)

    def _conversation(self, past: Sequence[Past], picture: str) -> list[Message]:
        messages: list[Message] = []
        shown = [*(turn.picture for turn in past), picture]
        for number, image in enumerate(shown, start=1):
            texts = [self.rules()] if number == 1 else []
            if number == len(shown):
                texts += self._warning(number)
            messages.append(_user(*map(_text, texts), self._image(image)))
            if number < len(shown):
                messages.append(_assistant(_said(past[number - 1].decision)))
        return messages

    def _window_parts(self, past: Sequence[Past], picture: str, canvas: str | None) -> list[dict[str, Any]]:
        turn = len(past) + 1
        parts: list[dict[str, Any]] = []
        if self.memory.canvas:
            if canvas is None:
                raise ValueError(f"memory {self.memory.name!r} shows the fused canvas; pass it")
            parts += [_text(self._say("memory.picture_canvas")), self._image(canvas)]
        else:
            kept = self.pictures_shown(turn) - 1
            for number in range(turn - kept, turn):
                parts.append(_text(self._say("memory.picture", turn=number)))
                parts.append(self._image(past[number - 1].picture))
        parts += [_text(self._say("memory.picture_now", turn=turn)), self._image(picture)]
        texts = self._logs(past) + [
            self._say("turn.status", turn=turn, left=self.world.budget - len(past)),
            *self._warning(turn),
        ]
        return [*parts, _text("\n\n".join(texts))]

    def _logs(self, past: Sequence[Past]) -> list[str]:
        memory = self.memory
        if not memory.actions:
            return []
        if not past:
            return [self._say("memory.log_nothing")]
        lines, places = [], []
        for number, decision in enumerate((turn.decision for turn in past), start=1):
            if memory.thoughts and decision.thought:
                lines.append(self._say("memory.log_thought", turn=number, thought=decision.thought))
            lines.append(self._say("memory.log_action", turn=number, action=decision.action))
            if memory.grid_map and decision.place:
                coords = json.dumps(decision.place["coords"])
                features = decision.place["features"]
                places.append(self._say("memory.map_line", turn=number, coords=coords, features=features))
        texts = ["\n".join([self._say("memory.log"), *lines])]
        if places:
            texts.append("\n".join([self._say("memory.map"), *places]))
        return texts

    def _warning(self, turn: int) -> list[str]:
        return [self._say("turn.last")] if self.warning and turn >= self.world.budget else []

    def _say(self, key: str, **values: Any) -> str:
        known = {
            **self.world.facts,
            "horizon": self.horizon,
            "turn": "",
            "left": "",
            "action": "",
            "thought": "",
            "coords": "",
            "features": "",
        }
        return self.prompts.text(key, {**known, **values})

    def _image(self, url: str) -> dict[str, Any]:
        detail = {} if self.detail is None else {"detail": self.detail}
        return {"type": "image_url", "image_url": {"url": url, **detail}}


def _said(decision: Decision) -> str:
    """A reply as it came, but for its thinking; for agents that do not speak, the protocol's JSON of the action."""
    return _unthought(decision.text) or action_json(decision)


def _unthought(text: str) -> str:
    """A reply as it is sent again, or "": providers ask for it without the thinking, which may be long."""
    shown = without_thinking(text)
    return text if shown == text and text.strip() else shown.strip()


def action_json(decision: Decision) -> str:
    """A decision in the protocol's JSON."""
    if decision.action == ANSWER:
        assert decision.answer is not None
        return json.dumps({"action": ANSWER, "value": "".join(map(str, decision.answer))})
    return json.dumps({"action": "move", "direction": decision.action})


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _system(text: str) -> Message:
    return {"role": "system", "content": text}


def _user(*parts: dict[str, Any]) -> Message:
    return {"role": "user", "content": list(parts)}


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}
