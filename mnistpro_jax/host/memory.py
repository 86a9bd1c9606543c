"""Memory configurations as data: what is carried from turn to turn, and shown again (arXiv 2608.31022)."""

from __future__ import annotations

import dataclasses

UNBOUNDED = -1
"""As a horizon: all pictures of the episode."""


@dataclasses.dataclass(frozen=True)
class Memory:
    """What an agent is shown again on later turns.

    actions, thoughts, grid_map: which parts of its own earlier replies are listed as text. canvas: the fused canvas
    of all windows so far comes with the newest glimpse, always these two pictures. multi_turn: the whole conversation
    stays, as it was said. full_image: no exploration, the whole canvas in one turn. horizon: how many pictures of the
    last turns are shown, the current one included, where the run does not say (``UNBOUNDED``: all).
    fixed_horizon: whether another number would contradict the configuration. about: one line for people.
    """

    name: str
    about: str
    actions: bool = False
    thoughts: bool = False
    grid_map: bool = False
    canvas: bool = False
    multi_turn: bool = False
    full_image: bool = False
    horizon: int = 1
    fixed_horizon: bool = False


_BASES = (
    Memory("image-only", "the last H pictures, no text", horizon=4),
    Memory("event-log", "the last H pictures, and its own actions", actions=True),
    Memory("textual", "the last H pictures, its own actions and thoughts", actions=True, thoughts=True),
    Memory(
        "grid-map",
        "the last H pictures, its own actions, thoughts and the map that it draws",
        actions=True,
        thoughts=True,
        grid_map=True,
    ),
)
_CANVAS = "canvas"
OWN = Memory("own", "what the player keeps by itself", horizon=UNBOUNDED)
"""Of players with tools, who are told nothing on a turn but what their calls return."""
MEMORIES: dict[str, Memory] = {
    memory.name: memory
    for memory in (
        *_BASES,
        *(
            dataclasses.replace(
                base,
                name=_CANVAS if base.name == "image-only" else f"{_CANVAS}+{base.name}",
                about=base.about.replace("the last H pictures", "the fused canvas and the newest glimpse"),
                canvas=True,
                horizon=1,
                fixed_horizon=True,
            )
            for base in _BASES
        ),
        Memory(
            "natural",
            "the whole conversation, one picture a turn",
            multi_turn=True,
            horizon=UNBOUNDED,
            fixed_horizon=True,
        ),
        Memory("full-image", "control: the whole canvas in one turn", full_image=True, fixed_horizon=True),
    )
}
"""All configurations by name."""


def memory_of(name: str) -> Memory:
    """A configuration by its name. Raises ValueError, with the names, for one that does not exist."""
    if name not in MEMORIES:
        raise ValueError(f"unknown memory {name!r}; expected one of {', '.join(MEMORIES)}")
    return MEMORIES[name]


def horizon_of(memory: Memory, horizon: int | None) -> int:
    """The number of pictures that a configuration shows, ``horizon`` or its own where that is None.

    Raises ValueError for 0, for less than ``UNBOUNDED``, and for another number than a fixed one.
    """
    if horizon is None:
        return memory.horizon
    if horizon != UNBOUNDED and horizon < 1:
        raise ValueError(f"horizon is {horizon}; expected 1 or more pictures, or 'all'")
    if memory.fixed_horizon and horizon != memory.horizon:
        shown = "all pictures" if memory.horizon == UNBOUNDED else "its own pictures"
        raise ValueError(f"memory {memory.name!r} always shows {shown}; leave the horizon out")
    return horizon
