"""What a run of glimpses would take, counted by saying the protocol's words without an agent."""

from __future__ import annotations

import math

from mnistpro_jax.host.contract import Decision, Status, Usage
from mnistpro_jax.host.dry_run import Forecast
from mnistpro_jax.host.messages import count_pictures, texts_of
from mnistpro_jax.host.prices import CHARACTERS_A_TOKEN, PICTURE_TOKENS, Price
from mnistpro_jax.host.protocol import Past, Protocol


def forecast(
    protocol: Protocol, episodes: int, steps: int, price: Price | None = None, reply_tokens: int = 60
) -> Forecast:
    """The forecast of ``episodes`` episodes of ``steps`` actions each. reply_tokens: of one reply, an assumption."""
    steps = 1 if protocol.memory.full_image else min(steps, protocol.world.budget)
    words = "x" * (CHARACTERS_A_TOKEN * reply_tokens)
    said = Decision(
        Status.OK,
        "right",
        text=words,
        thought=words,
        place={"coords": [0, 0], "features": words[: len(words) // 4]},
    )
    past: list[Past] = []
    pictures = characters = 0
    for _ in range(steps):
        messages = protocol.messages(past, "", "")
        pictures += count_pictures(messages)
        characters += sum(len(text) for text in texts_of(messages))
        past.append(Past("", said))
    calls = episodes * steps
    picture_tokens = PICTURE_TOKENS if price is None else price.picture_tokens
    tokens_in = episodes * (math.ceil(characters / CHARACTERS_A_TOKEN) + picture_tokens * pictures)
    tokens_out = calls * reply_tokens
    return Forecast(
        episodes=episodes,
        steps=steps,
        calls=calls,
        pictures=episodes * pictures,
        characters=episodes * characters,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost=None if price is None else price.cost(Usage(tokens_in, tokens_out)),
    )
