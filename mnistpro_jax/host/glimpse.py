"""A glimpse episode as a sitting: what the agent has been shown and has said, and what the environment makes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mnistpro_jax.env.types import EpisodeStatistics, Kind
from mnistpro_jax.host import pictures
from mnistpro_jax.host.contract import COUNTED, Decision, Status, Turn
from mnistpro_jax.host.protocol import Past, Protocol
from mnistpro_jax.host.world import CODES, HostWorld, Look, digest_of
from mnistpro_jax.runs.log import Event


class GlimpseEpisode:
    """What has been shown and said in one episode; whoever steps the environment tells it. See ``sitting.Asking``."""

    def __init__(self, world: HostWorld, protocol: Protocol, number: int, enlarge: int = 1) -> None:
        self.number = number
        self.attempts = protocol.attempts
        self._world = world
        self._protocol = protocol
        self._enlarge = enlarge
        self._windows: list[tuple[int, int]] = []
        self._kinds: list[int] = []
        self._canvas: npt.NDArray[Any] = world.canvas(number)
        self._past: list[Past] = []
        self._observation: Any = None
        self._digest = ""
        self._new: tuple[bytes, ...] = ()
        self._url = ""
        self._canvas_url: str | None = None

    def show(self, words: Any, xy: Any, step: Any, observation: Any = None) -> None:
        """The environment shows the next turn: the window's bitmap, its corner, and the actions taken so far."""
        corner = (int(xy[0]), int(xy[1]))
        self._windows.append(corner)
        self._digest = digest_of(words, xy, step)
        self._observation = observation
        if int(step) != len(self._past):
            raise RuntimeError(f"episode {self.number} shows step {int(step)} after {len(self._past)} turns")
        self._draw(corner)

    def _draw(self, corner: tuple[int, int]) -> None:
        memory, world = self._protocol.memory, self._protocol.world
        if memory.full_image:
            self._new = (pictures.full_png(self._canvas, self._enlarge),)
        else:
            glimpse = pictures.glimpse_png(self._canvas, corner, world.window, world.outline, self._enlarge)
            self._new = (glimpse,)
            if memory.canvas:
                fused = pictures.fused_png(self._canvas, self._windows, world.window, self._enlarge)
                self._new = (fused, glimpse)
                self._canvas_url = pictures.data_url(fused)
        self._url = pictures.data_url(self._new[-1])

    def hear(self, decision: Decision) -> None:
        """What the agent made of the turn; statuses that play nothing leave no trace."""
        if decision.action is not None:
            self._past.append(Past(self._url, decision))
            self._kinds.append(CODES[decision.action])
        elif decision.status == Status.UNPARSEABLE:
            self._kinds.append(int(Kind.INVALID))

    def opening(self) -> Event:
        """Where the episode starts."""
        return {"start_xy": list(self._windows[0])}

    def turn(self, failed: Sequence[Decision]) -> Turn:
        """The current turn as its agent sees it."""
        world = self._protocol.world
        said = [decision.text for decision in failed]
        return Turn(
            episode=self.number,
            step=len(self._past),
            budget=world.budget,
            attempt=len(failed) + 1,
            digits=world.digits,
            messages=self._protocol.messages(self._past, self._url, self._canvas_url, said),
            pictures=self._new,
            digest=self._digest,
            observation=self._observation,
        )

    def allows(self, decision: Decision) -> str | None:
        """Moves, and answers with the digits of this world."""
        if decision.action is not None and decision.action not in CODES:
            return f"said {decision.action!r}; expected one of {', '.join(CODES)}"
        digits, classes = self._protocol.world.digits, self._protocol.world.num_classes
        answer = decision.answer
        if answer is None or (len(answer) == digits and all(0 <= digit < classes for digit in answer)):
            return None
        return f"answered {answer}; expected {digits} digit(s), 0 to {classes - 1}"

    def line(self, decision: Decision) -> Event:
        """The corner of the turn's window."""
        return {"window": list(self._windows[-1])}

    def outcome(self, statistics: EpisodeStatistics, xy: Any, status: Status) -> dict[str, Any]:
        """The episode as ``mnistpro evaluate`` writes it; unscored where it does not count.

        statistics, xy: of the last state.
        """
        # Where the last move used up the budget, its window was reached and not shown.
        x, y = np.asarray(xy).tolist()
        windows = [*self._windows, (x, y)][: int(statistics.moves) + 1]
        record = self._world.record(self.number, windows, self._kinds, statistics)
        if status not in COUNTED:
            record |= {"correct": None, "digits_correct": None}
        return record


class GlimpseSitting(GlimpseEpisode):
    """An episode that steps its environment itself. See ``sitting.Sitting``."""

    def __init__(self, world: HostWorld, protocol: Protocol, number: int, enlarge: int = 1) -> None:
        super().__init__(world, protocol, number, enlarge)
        self._look, self._state = world.begin(number)
        self._show(self._look)

    def _show(self, look: Look) -> None:
        self.show(look.words, look.xy, look.step, look.observation)

    def take(self, decision: Decision) -> bool:
        """Step the environment."""
        self.hear(decision)
        self._look, self._state = self._world.advance(self._state, decision)
        if not self._look.ended:
            self._show(self._look)
        return self._look.ended

    def record(self, status: Status) -> dict[str, Any]:
        """See ``outcome``."""
        return self.outcome(self._world.statistics(self._state), self._look.xy, status)


@dataclasses.dataclass(frozen=True, eq=False)
class GlimpseSittings:
    """The episodes of a world. protocol: what agents are told. enlarge: whole factor of the pictures.

    See ``sitting.Sittings``; drivers that step many episodes at a time take them apart.
    """

    world: HostWorld
    protocol: Protocol
    enlarge: int = 1

    def __len__(self) -> int:
        return len(self.world)

    def sit(self, number: int) -> GlimpseSitting:
        """An episode, from its beginning."""
        return GlimpseSitting(self.world, self.protocol, number, self.enlarge)

    def episode(self, number: int) -> GlimpseEpisode:
        """An episode that is stepped by another."""
        return GlimpseEpisode(self.world, self.protocol, number, self.enlarge)

    def warm_up(self) -> None:
        """Compile the steps of single episodes."""
        self.world.warm_up()
