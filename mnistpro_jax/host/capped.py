"""How much of a reply is kept: a broken model may send megabytes, on every turn."""

from __future__ import annotations

import dataclasses

from mnistpro_jax.host.contract import Decision

LONGEST = 256 * 1024
"""Characters of a text that are kept, of its beginning and its end; some 64,000 tokens."""
_LINE = 1_000
"""Of what was wrong, which may repeat a part of the reply."""


def capped(decision: Decision) -> Decision:
    """The decision with its texts no longer than ``LONGEST`` and a note in them. ``details["left_out"]``: how many
    characters of the reply are gone."""
    details = {
        name: _shortened(value) if isinstance(value, str) else value
        for name, value in decision.details.items()
    }
    place = None
    if decision.place is not None:
        place = {**decision.place, "features": _shortened(decision.place["features"])}
    texts = (decision.text, decision.thought or "", *map(str, decision.details.values()))
    if max(map(len, texts)) <= LONGEST and place == decision.place and len(decision.problem or "") <= _LINE:
        return decision
    if len(decision.text) > LONGEST:
        details["left_out"] = len(decision.text) - LONGEST
    return dataclasses.replace(
        decision,
        text=_shortened(decision.text),
        thought=None if decision.thought is None else _shortened(decision.thought),
        place=place,
        problem=None if decision.problem is None else decision.problem[:_LINE],
        details=details,
    )


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} [... {len(text) - LONGEST:,} characters left out ...] {text[-half:]}"
