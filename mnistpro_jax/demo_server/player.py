"""Decides from one conversation: fuse its pictures, read them, and answer or move to what is worth most.

The reader is the trained one in the package, the explorer the rule of the agent "planner". Nothing is kept from one
request to the next beside decoded pictures: a player who is shown the last picture alone knows no more than that.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mnistpro_jax.agents.base import Geometry
from mnistpro_jax.agents.explorers import PriorCoverage, Sight
from mnistpro_jax.agents.learned.shipped import load_reader
from mnistpro_jax.agents.reader import Reader
from mnistpro_jax.agents.registry import DISCOUNT, FLOOR, default_confidence
from mnistpro_jax.demo_server import notes
from mnistpro_jax.demo_server.conversation import Conversation
from mnistpro_jax.demo_server.sight import Mask, Picture, decode, look
from mnistpro_jax.demo_server.wire import WireError
from mnistpro_jax.env.environment import default_budget
from mnistpro_jax.env.pipeline import NATIVE
from mnistpro_jax.env.types import FusedCanvas, Kind, Observation
from mnistpro_jax.worlds.published import PUBLISHED_SIZE

_REMEMBERED_PICTURES = 2048  # decoded pictures that are kept, at 12 KB each and digit
_CELL = (PUBLISHED_SIZE // NATIVE) ** 2  # what the reader counts to in a native pixel that is wholly known
_LEAST_SURE = 0.5  # where memory is too short ever to be sure, what is sure enough at the end of the budget
_MOVES = tuple(kind.name.lower() for kind in (Kind.UP, Kind.DOWN, Kind.LEFT, Kind.RIGHT))


@dataclasses.dataclass(frozen=True)
class Decision:
    """What to reply: the protocol's JSON object, and how sure the reader is of the answer it has in mind."""

    reply: dict[str, Any]
    confidence: float

    @property
    def text(self) -> str:
        """The reply as a model would write it."""
        return json.dumps(self.reply)


@jax.jit
def _consider(
    reader: Reader, explorer: PriorCoverage, fused: FusedCanvas, xy: jax.Array, needed: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(digits int32 (n,), confidence float32 (), direction int32 ()) for one canvas."""
    posterior = reader.posterior(fused)
    zero = jnp.zeros((), jnp.int32)
    observation = Observation(fused, xy, zero, zero, zero)
    direction, _ = explorer.direction(jax.random.key(0), Sight(observation, reader, posterior, needed), ())
    return posterior.digits, posterior.confidence, direction


class Player:
    """Plays any number of conversations, from any thread.

    weights: a folder of trained weights, None for those in the package (``agents.learned.shipped``).
    """

    def __init__(self, weights: Any = None) -> None:
        self._reader, _ = load_reader(weights)
        self._discount, self._floor = (jax.device_put(np.float32(value)) for value in (DISCOUNT, FLOOR))
        self._pictures: collections.OrderedDict[str, Picture] = collections.OrderedDict()
        self._lock = threading.Lock()

    def warm_up(self, level: int = 1) -> None:
        """Compile for the published world of a level, which the first request would have to wait for."""
        shape = (PUBLISHED_SIZE, PUBLISHED_SIZE * level)
        nothing = np.zeros(shape, bool)
        self._think(nothing, nothing, (0, 0, 64), 32, True, 1.0)

    def decide(self, conversation: Conversation) -> Decision:
        """The next reply. Raises WireError for pictures that it cannot read."""
        pictures = [self._picture(url) for url in conversation.pictures]
        shapes = {picture.known.shape for picture in pictures}
        if len(shapes) > 1:
            raise WireError(400, f"the pictures show canvases of different sizes: {sorted(shapes)}")
        now = _current(pictures[-conversation.newest :])
        level = now.known.shape[1] // now.known.shape[0]
        known = np.logical_or.reduce([picture.known for picture in pictures])
        stroke = np.logical_or.reduce([picture.stroke for picture in pictures])
        note = notes.read(conversation.text, now.known.shape)
        if note is not None:
            known, stroke = known | note[1], stroke | note[2]
        if known.all() or now.window is None or not conversation.moves:
            digits, confidence, _ = self._think(known, stroke, (0, 0, 64), 32, True, 1.0)
            return Decision(_answer(digits, conversation, {}), confidence)
        windows = [p.window for p in pictures if p.window is not None and p.window[2] == now.window[2]]
        start = windows[0][:2] if note is None else note[0]
        stride = _stride(windows, now.known.shape)
        taken, budget = _clock(conversation, windows, now, stride)
        # A note, every picture so far, or a picture of several windows: then all that was seen is still there.
        whole_memory = note is not None or len(pictures) > taken or len(windows) < len(pictures)
        needed = default_confidence(level, "planner")
        if not whole_memory:
            needed -= (needed - _LEAST_SURE) * min(1.0, taken / budget)
        digits, confidence, direction = self._think(known, stroke, now.window, stride, now.outlined, needed)
        extra = _extra_keys(conversation, start, now, stride, known, stroke, confidence)
        if confidence >= needed or conversation.last_turn or taken >= budget - 1:
            return Decision(_answer(digits, conversation, extra), confidence)
        return Decision({**extra, "action": "move", "direction": _MOVES[direction]}, confidence)

    def _think(
        self,
        known: Mask,
        stroke: Mask,
        window: tuple[int, int, int],
        stride: int,
        outlined: bool,
        needed: float,
    ) -> tuple[list[int], float, int]:
        height, width = known.shape
        factor = height // NATIVE
        try:
            geometry = Geometry(height, width, window[2], stride, width // height, factor, outlined)
        except ValueError as error:
            raise WireError(400, f"the pictures show no world that can be played: {error}") from None
        explorer = PriorCoverage(self._discount, self._floor, geometry)
        fused = FusedCanvas(_counts(stroke, factor), _counts(known, factor))
        xy = np.asarray(window[:2], np.int32)
        # One at a time: on a few cores the calls would only push each other out of the caches.
        with self._lock:
            considered = _consider(self._reader, explorer, fused, xy, np.float32(needed))
            digits, confidence, direction = (np.asarray(value) for value in considered)
        return digits.tolist(), float(confidence), int(direction)

    def _picture(self, url: str) -> Picture:
        with self._lock:
            seen = self._pictures.get(url)
            if seen is not None:
                self._pictures.move_to_end(url)
                return seen
        picture = look(decode(url))
        with self._lock:
            self._pictures[url] = picture
            while len(self._pictures) > _REMEMBERED_PICTURES:
                self._pictures.popitem(last=False)
        return picture


def _counts(mask: Mask, factor: int) -> Any:
    """Pixels per native pixel as the reader counts them, uint8 (28, 28 n), 0..64."""
    height, width = mask.shape
    counts = mask.reshape(height // factor, factor, width // factor, factor).sum(axis=(1, 3))
    return np.round(counts * (_CELL / factor**2)).astype(np.uint8)


def _stride(windows: list[tuple[int, int, int]], shape: tuple[int, ...]) -> int:
    """Pixels a move, from two neighbouring windows of which the border stopped none; half the window otherwise."""
    for before, after in itertools.pairwise(windows):
        for axis, length in ((0, shape[1]), (1, shape[0])):
            moved = abs(after[axis] - before[axis])
            if moved and 0 < after[axis] < length - after[2]:
                return moved
    return max(1, windows[-1][2] // 2)


def _current(pictures: list[Picture]) -> Picture:
    """The picture of the current turn, of those that came last: the last one that shows a single window.

    A fused canvas may come beside it, and may happen to show a square as well; that is then the larger one.
    """
    single = [picture for picture in pictures if picture.window is not None]
    if not single:
        return pictures[-1]
    side = min(picture.window[2] for picture in single if picture.window)
    return [picture for picture in single if picture.window and picture.window[2] == side][-1]


def _clock(
    conversation: Conversation, windows: list[tuple[int, int, int]], now: Picture, stride: int
) -> tuple[int, int]:
    """(actions taken, actions allowed): as the text says, else from the pictures and the published rule."""
    assert now.window is not None
    height, width = now.known.shape
    taken, budget = conversation.step, conversation.budget
    if taken is None:
        taken = len(windows) - 1
    return taken, budget or default_budget(height, width, now.window[2], stride)


def _answer(digits: list[int], conversation: Conversation, extra: dict[str, Any]) -> dict[str, Any]:
    value = "".join(map(str, digits))
    if not extra and conversation.keys:
        extra = {"thought": "All is seen."} if "thought" in conversation.keys else {}
    return {**extra, "action": "answer", "value": value}


def _extra_keys(
    conversation: Conversation,
    start: tuple[int, ...],
    now: Picture,
    stride: int,
    known: Mask,
    stroke: Mask,
    confidence: float,
) -> dict[str, Any]:
    """The keys that the protocol asks for beside the action."""
    extra: dict[str, Any] = {}
    assert now.window is not None
    x, y, _ = now.window
    if "thought" in conversation.keys:
        extra["thought"] = f"sure to {confidence:.3f}. {notes.write((start[0], start[1]), known, stroke)}"
    if "spatial_map" in conversation.keys:
        coords = [round((x - start[0]) / stride), round((y - start[1]) / stride)]
        share = now.stroke.sum() / max(1, now.visible)
        features = "empty background" if share == 0 else f"ink in {share:.0%} of the window"
        extra["spatial_map"] = {"coords": coords, "features": features}
    return extra
