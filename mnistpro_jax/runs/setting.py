"""The setting of a stored run: what makes two runs repeats of each other."""

from __future__ import annotations

import dataclasses

OWN_MEMORY = "own"
"""The memory of our agents, which is no configuration of the protocol."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What was run: all that must be the same for two runs to be repeats of each other, but for the seed.

    model: of an API, or the name of an agent. level: digits. memory: a configuration's name, ``OWN_MEMORY`` for
    agents of ours. horizon: pictures shown, -1 for all, None where the memory has none. window, stride: pixels. budget:
    actions of an episode. outline: whether windows are framed. source, split: of the images. episode_list: "published"
    or "random". harness: how the agent is driven: "turns" (one request a turn), "agent" (ours), or a tool harness.
    others: further settings that matter, as sorted (name, text) pairs.
    """

    model: str
    level: int
    memory: str
    horizon: int | None
    window: int
    stride: int
    budget: int
    outline: bool
    source: str = "mnist"
    split: str = "test"
    episode_list: str = "published"
    harness: str = "turns"
    others: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """The setting in a few words, without level and world."""
        words = [self.model]
        if self.memory != OWN_MEMORY:
            words.append(self.memory)
        if self.horizon is not None:
            words.append(f"H={'all' if self.horizon == -1 else self.horizon}")
        if self.harness not in ("turns", "agent"):
            words.append(self.harness)
            words += [value for name, value in self.others if name == "arm"]
        return ", ".join(words)
