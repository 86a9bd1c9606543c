"""How an episode came out, in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnistpro_jax.render.drawing import RIGHT, WRONG
from mnistpro_jax.render.published import Colour


def ending_text(episode: dict[str, Any]) -> str:
    """Why it ended: "answered", "step limit", ..."""
    return str(episode["ending"]).lower().replace("_", " ")


def answer_text(episode: dict[str, Any]) -> str:
    """The digits of the answer, or "none"."""
    return "none" if episode["answer"] is None else digits_text(episode["answer"])


def digits_text(values: Sequence[int]) -> str:
    """Digits as one text."""
    return "".join(str(value) for value in values)


def verdict(episode: dict[str, Any]) -> tuple[str, Colour]:
    """How the episode ended, in a few words, and the colour to say it in."""
    label = digits_text(episode["labels"])
    if episode["answer"] is None:
        return f"{ending_text(episode)}, label {label}", WRONG
    answer = digits_text(episode["answer"])
    if episode["correct"]:
        return f"answer {answer}: right", RIGHT
    return f"answer {answer}, label {label}: wrong", WRONG
