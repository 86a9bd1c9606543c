"""What a player with tools is told: the rules of the world in the words of a pack, and a desk that speaks them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from mnistpro_jax.host.prompts import PromptPack
from mnistpro_jax.host.protocol import World
from mnistpro_jax.host.tools.desk import Desk, Limits, shown_notes
from mnistpro_jax.host.tools.request import ToolRequest


@dataclasses.dataclass(frozen=True, eq=False)
class ToolRules:
    """world: what the rules say of it. prompts: a pack like "tools". request: what is carried and told."""

    world: World
    prompts: PromptPack
    request: ToolRequest

    @functools.cached_property
    def rules(self) -> str:
        """All that holds for the whole episode."""
        keys = [f"rules.task_{'many' if self.world.digits > 1 else 'one'}", "rules.window"]
        keys += ["rules.outline"] if self.world.outline else []
        keys += ["rules.tools", "rules.budget"]
        if self.request.has_notes:
            keys += ["notes.rule", "notes.told" if self.request.arm == "A2" else "notes.untold"]
        return "\n\n".join(self.say(key) for key in keys)

    def first(self, notes: str) -> str:
        """What the first message says of the notes; "" where there are none to carry."""
        if not self.request.has_notes:
            return ""
        return shown_notes(self.say, notes)

    def receipt(self, correct: bool | None) -> str:
        """What is said after an answer. correct: known to the arm A2 alone."""
        if not self.request.has_notes:
            return self.say("result.accepted")
        if self.request.arm == "A2":
            return self.say("result.right" if correct else "result.wrong")
        return self.say("result.submitted")

    @property
    def limits(self) -> Limits:
        """Of an episode."""
        return Limits.of(self.world.budget)

    def desk(self, notes: str = "") -> Desk:
        """The desk of an episode. notes: that it begins with."""
        limit = self.request.notes_limit if self.request.has_notes else None
        return Desk(self.world, self.say, self.limits, self.request.counter, notes, limit)

    def say(self, key: str, **values: Any) -> str:
        """A text of the pack."""
        known = {
            **self.world.facts,
            "image": "",
            "number": "",
            "left": "",
            "said": "",
            "expected": "",
        }
        return self.prompts.text(key, {**known, **values})
