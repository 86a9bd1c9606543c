"""What a run with tools would take, counted for a player that calls one tool a reply and never looks again."""

from __future__ import annotations

import math

from mnistpro_jax.host.contract import Usage
from mnistpro_jax.host.dry_run import Forecast
from mnistpro_jax.host.memory import UNBOUNDED
from mnistpro_jax.host.prices import CHARACTERS_A_TOKEN, PICTURE_TOKENS, Price
from mnistpro_jax.host.tools.rules import ToolRules

_ID = "0" * 32
_AFTER_ANSWER = 2  # notes that are written, and a reply that ends the episode


def forecast(
    rules: ToolRules,
    horizon: int,
    episodes: int,
    steps: int,
    price: Price | None = None,
    reply_tokens: int = 60,
) -> Forecast:
    """The forecast of ``episodes`` episodes of ``steps`` actions each, the answer included.

    Notes are taken for empty. reply_tokens: of one reply, an assumption.
    """
    steps = min(steps, rules.world.budget)
    said = len(rules.say("result.picture", image=_ID, number=1, left=1)) + len(
        rules.say("result.shown", image=_ID)
    )
    said += CHARACTERS_A_TOKEN * reply_tokens
    fixed = len(rules.rules) + len(rules.first(""))
    replies = steps + (_AFTER_ANSWER if rules.request.has_notes else 0)
    pictures = characters = 0
    for reply in range(1, replies + 1):
        seen = min(reply, steps)
        pictures += seen if horizon == UNBOUNDED else min(seen, horizon)
        characters += fixed + reply * said
    picture_tokens = PICTURE_TOKENS if price is None else price.picture_tokens
    tokens_in = episodes * (math.ceil(characters / CHARACTERS_A_TOKEN) + picture_tokens * pictures)
    tokens_out = episodes * replies * reply_tokens
    return Forecast(
        episodes=episodes,
        steps=steps,
        calls=episodes * replies,
        pictures=episodes * pictures,
        characters=episodes * characters,
        input_tokens=tokens_in,
        output_tokens=tokens_out,
        cost=None if price is None else price.cost(Usage(tokens_in, tokens_out)),
    )
