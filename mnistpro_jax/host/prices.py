"""Prices from a file, the cost of replies, and estimates of what a request will cost."""

from __future__ import annotations

import dataclasses
import json
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path

from mnistpro_jax.host.contract import Decision, Message, Usage
from mnistpro_jax.host.messages import count_pictures, texts_of

CHARACTERS_A_TOKEN = 4
"""Of English text, roughly; for estimates alone."""
PICTURE_TOKENS = 258
"""Of a picture of 224 x 224 pixels: providers count between about 70 and 260; for estimates alone."""
_MILLION = 1_000_000


@dataclasses.dataclass(frozen=True)
class Price:
    """Of one model: per million tokens, in any one currency.

    input, output: the usual ones. cached_input: of input tokens that the provider had kept; None: as ``input``.
    picture_tokens: what one picture counts, for estimates.
    """

    input: float
    output: float
    cached_input: float | None = None
    picture_tokens: int = PICTURE_TOKENS

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if name == "cached_input" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value!r}; expected a number, 0 or more")

    def cost(self, usage: Usage) -> float:
        """Cost of a reply."""
        kept = self.input if self.cached_input is None else self.cached_input
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        return (
            fresh * self.input + usage.cached_tokens * kept + usage.output_tokens * self.output
        ) / _MILLION


def load_price(path: Path, model: str) -> Price:
    """The price of a model from a TOML or JSON file of tables by model name: {"MODEL": {"input": 1.25, "output": 10}}.

    Raises ValueError, with the models that are there, where the model is missing or its table makes no sense.
    """
    try:
        text = path.read_text(encoding="utf-8")
        prices = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no price file (TOML, or JSON with the suffix .json): {error}") from None
    if not isinstance(prices, dict) or model not in prices:
        known = ", ".join(map(str, prices)) if isinstance(prices, dict) else "none"
        raise ValueError(f"{path} has no price of {model!r}; it has {known}")
    try:
        return Price(**prices[model])
    except (TypeError, ValueError) as error:
        fields = ", ".join(field.name for field in dataclasses.fields(Price))
        raise ValueError(f"{path}, {model!r}: {error} (fields: {fields})") from None


def request_tokens(messages: Sequence[Message], picture_tokens: int = PICTURE_TOKENS) -> int:
    """An estimate of a request's tokens."""
    letters = sum(len(text) for text in texts_of(messages))
    return math.ceil(letters / CHARACTERS_A_TOKEN) + picture_tokens * count_pictures(messages)


def estimated(messages: Sequence[Message], decision: Decision, price: Price | None = None) -> Usage:
    """The tokens of a reply to a request, where the provider tells some of them or none: what it tells, and estimates.

    What a model thought and nobody was shown is in no estimate.
    """
    usage = decision.usage
    said = len(decision.text) + len(str(decision.details.get("reasoning", "")))
    picture_tokens = PICTURE_TOKENS if price is None else price.picture_tokens
    return dataclasses.replace(
        usage,
        input_tokens=usage.input_tokens or request_tokens(messages, picture_tokens),
        output_tokens=usage.output_tokens or math.ceil(said / CHARACTERS_A_TOKEN),
        told=False,
    )
