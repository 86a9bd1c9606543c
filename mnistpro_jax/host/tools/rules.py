"""What a player with tools is told: the rules of the world in the words of a pack, and a desk that speaks them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from mnistpro_jax.host.prompts import PromptPack
from mnistpro_jax.host.protocol import World
from mnistpro_jax.host.tools.desk import Desk, Limits


@dataclasses.dataclass(frozen=True, eq=False)
class ToolRules:
    """world: what the rules say of it. prompts: a pack like "tools"."""

    world: World
    prompts: PromptPack

    @functools.cached_property
    def rules(self) -> str:
        """All that holds for the whole episode."""
        keys = [f"rules.task_{'many' if self.world.digits > 1 else 'one'}", "rules.window"]
        keys += ["rules.outline"] if self.world.outline else []
        return "\n\n".join(self.say(key) for key in [*keys, "rules.tools", "rules.budget"])

    @property
    def limits(self) -> Limits:
        """Of an episode."""
        return Limits.of(self.world.budget)

    def desk(self, counter: bool) -> Desk:
        """The desk of an episode."""
        return Desk(self.world, self.say, self.limits, counter)

    def say(self, key: str, **values: Any) -> str:
        """A text of the pack."""
        world = self.world
        known = {
            "width": world.width,
            "height": world.height,
            "window": world.window,
            "stride": world.stride,
            "digits": world.digits,
            "largest": world.num_classes - 1,
            "budget": world.budget,
            "example": "?" * world.digits,
            "image": "",
            "number": "",
            "left": "",
            "said": "",
            "expected": "",
        }
        return self.prompts.text(key, {**known, **values})
