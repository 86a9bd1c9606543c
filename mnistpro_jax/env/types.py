"""Shared vocabulary: pytree dataclasses, actions, endings, observations and statistics.

Everything here is data. Field comments give shapes for one episode; a batch adds leading axes.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, TypeVar, dataclass_transform

import jax

_T = TypeVar("_T")


def static_field(**kwargs: Any) -> Any:
    """A dataclass field that is part of the pytree's structure (hashable, compile-time) and not a leaf."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static_field))
def pytree(cls: type[_T]) -> type[_T]:
    """Make ``cls`` a frozen dataclass and a JAX pytree.

    Fields declared with ``static_field()`` become structure, those with ``init=False`` are left behind when JAX makes a
    new object; all others are children. ``replace(**changes)``
    is added, as everywhere in the JAX ecosystem (type checkers know ``dataclasses.replace``, which is the same).
    """
    data_cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(data_cls)  # type: ignore[arg-type]
    meta = [field.name for field in fields if field.metadata.get("static", False)]
    data = [field.name for field in fields if field.init and field.name not in meta]
    data_cls.replace = dataclasses.replace  # type: ignore[attr-defined]
    jax.tree_util.register_dataclass(data_cls, data_fields=data, meta_fields=meta)
    return data_cls


class Kind(enum.IntEnum):
    """Kinds of action. The four moves come first so that flat and structured actions share their codes."""

    NONE = -1
    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3
    ANSWER = 4
    INVALID = 5


class Ending(enum.IntEnum):
    """Why an episode ended (never encoded as a magic answer)."""

    RUNNING = 0
    ANSWERED = 1
    STEP_LIMIT = 2
    INVALID_ACTION = 3


@pytree
class Action:
    """Structured action, for any number of digits.

    kind: int32 (), a ``Kind``; anything outside 0..4 is an invalid action.
    digits: int32 (n,), the answer, left to right, each in [0, num_classes); read only where kind is ANSWER.
    """

    kind: jax.Array
    digits: jax.Array


@pytree
class FusedCanvas:
    """What an agent may remember of the canvas: the union of the windows it saw.

    At native resolution (``canvas``), (28, 28n) uint8 counts of pixels per native cell, 0..64 for the
    published 8 x 8 cells; at full resolution (``canvas_full``), (H, W) uint8 in {0, 1}.
    stroke: revealed stroke pixels. revealed: revealed pixels, stroke or not.
    """

    stroke: jax.Array
    revealed: jax.Array


@pytree
class Observation:
    """What the policy sees on one turn.

    view: depends on the observation mode (see ``mnistpro_jax.env.environment.OBSERVATIONS``).
    xy: int32 (2,), top-left corner of the window, (x, y) in pixels.
    step: int32 (), actions taken so far in this episode.
    steps_left: int32 (), budget - step; at 1 only an answer avoids ``Ending.STEP_LIMIT``.
    last_action: int32 (), the ``Kind`` of the previous action, ``Kind.NONE`` after reset.
    """

    view: Any
    xy: jax.Array
    step: jax.Array
    steps_left: jax.Array
    last_action: jax.Array


@pytree
class State:
    """Everything that changes during an episode: indices, the window, counters and one bit set; no pixels.

    scene: int32 (m,), tile indices into the bank. xy, start_xy: int32 (2,).
    step, revisits, last_action, ending: int32 (). answer: int32 (n,), -1 until answered.
    visited: uint32 bit set, the window positions shown (``mnistpro_jax.env.positions.Positions``).
    episode_return: float32 (), sum of rewards so far.
    """

    scene: jax.Array
    start_xy: jax.Array
    xy: jax.Array
    step: jax.Array
    last_action: jax.Array
    ending: jax.Array
    answer: jax.Array
    revisits: jax.Array
    visited: jax.Array
    episode_return: jax.Array


@pytree
class EpisodeStatistics:
    """Exact counts of an episode so far, final where it has ended.

    steps: actions, the answer included. moves: moves alone. revisits: observations whose window position
    had been shown before. ending: an ``Ending``. answer, label: int32 (n,) (answer -1 where none was given).
    correct: bool (), all digits right. digits_correct: bool (n,). stroke_total: int32 (n,), stroke pixels per
    digit of the canvas. stroke_seen (windows) and stroke_seen_readable (windows less their outline): int32
    (n,). area_seen, area_seen_readable: int32 (), pixels. episode_return: float32 ().
    Ratios of these are in ``mnistpro_jax.rollouts.metrics``.
    """

    steps: jax.Array
    moves: jax.Array
    revisits: jax.Array
    ending: jax.Array
    answer: jax.Array
    label: jax.Array
    correct: jax.Array
    digits_correct: jax.Array
    stroke_total: jax.Array
    stroke_seen: jax.Array
    stroke_seen_readable: jax.Array
    area_seen: jax.Array
    area_seen_readable: jax.Array
    episode_return: jax.Array
