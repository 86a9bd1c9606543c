"""Conversations by the published protocol, made by the tests' own slow world: what a runner would send."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from PIL import Image

from mnistpro_jax.worlds.published import canvas_of, published_start
from tests.episodes import mnist_test
from tests.reference import ANSWER, DOWN, INVALID, LEFT, RIGHT, RUNNING, UP, ReferenceEpisode

MOVES = {"up": UP, "down": DOWN, "left": LEFT, "right": RIGHT}
RULES = (
    'You look at handwritten digits through a window. Reply with one JSON object, {"action": "move", "direction": '
    '"up"} or {"action": "answer", "value": 7}.'
)


def data_url(pixels: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def enlarged(pixels: np.ndarray, factor: int) -> np.ndarray:
    return pixels.repeat(factor, axis=0).repeat(factor, axis=1)


def user(text: str, *pictures: np.ndarray) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    parts += [{"type": "image_url", "image_url": {"url": data_url(picture)}} for picture in pictures]
    return {"role": "user", "content": parts}


def episode(
    rows: Sequence[int], window: int = 64, stride: int = 32, budget: int | None = None
) -> ReferenceEpisode:
    """An episode of these images of the MNIST test split, at its published start."""
    dataset = mnist_test()
    canvas = canvas_of(dataset.images[list(rows)])
    height, width = canvas.shape
    if budget is None:
        budget = ((width - window) // stride + 1) * ((height - window) // stride + 1)
    start = published_start(canvas, window)
    return ReferenceEpisode(canvas, dataset.labels[list(rows)].tolist(), start, window, stride, budget)


def play(
    world: ReferenceEpisode,
    ask: Callable[[list[dict[str, Any]]], str],
    *,
    horizon: int | None = None,
    memory: str = "images",
    outline: bool = True,
    factor: int = 1,
) -> list[str]:
    """Play an episode to its end; returns the replies.

    ask: messages to the text of the reply. horizon: pictures kept, None for all. memory: "images"; "thoughts", earlier
    replies as text; "canvas", the fused canvas and the newest glimpse.
    """
    rules = RULES
    if memory in ("thoughts", "map"):
        rules += ' Add the key "thought".' + (' Add the key "spatial_map".' if memory == "map" else "")
    shown = [world.picture(outline)]
    replies: list[str] = []
    while world.ending == RUNNING:
        kept = shown if horizon is None else shown[-horizon:]
        clock = f"Step {world.steps + 1} of {world.budget}."
        if world.steps_left == 1:
            clock += " This is your last turn: answer now."
        messages: list[dict[str, Any]] = [{"role": "system", "content": rules}]
        if memory == "images":
            for picture, reply in zip(kept, replies[len(replies) - len(kept) + 1 :], strict=False):
                messages += [user("", enlarged(picture, factor)), {"role": "assistant", "content": reply}]
            messages.append(user(clock, enlarged(kept[-1], factor)))
        elif memory == "canvas":
            messages.append(user(clock, enlarged(world.memory_picture(), factor), enlarged(kept[-1], factor)))
        else:
            messages.append(user(f"Earlier: {json.dumps(replies)}\n{clock}", *kept))
        reply = ask(messages)
        replies.append(reply)
        said = json.loads(reply)
        if said["action"] == "move":
            world.step(MOVES[said["direction"]])
            shown.append(world.picture(outline))
        elif said["action"] == "answer":
            world.step(ANSWER, [int(digit) for digit in str(said["value"])])
        else:
            world.step(INVALID)
    return replies
