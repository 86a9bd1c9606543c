"""How much of a reply is kept: a broken model may send megabytes, on every turn."""

from __future__ import annotations

import dataclasses

from mnistpro_jax.host.contract import Decision

LONGEST = 256 * 1024
"""Characters of a text that are kept, of its beginning and its end; some 64,000 tokens."""


def capped(decision: Decision) -> Decision:
    """The decision with its texts no longer than ``LONGEST`` and a note in them. ``details["left_out"]``: how many
    characters of the reply are gone."""
    details = {
        name: _shortened(value) if isinstance(value, str) else value
        for name, value in decision.details.items()
    }
    texts = (decision.text, decision.thought or "", *map(str, decision.details.values()))
    if max(map(len, texts)) <= LONGEST:
        return decision
    if len(decision.text) > LONGEST:
        details["left_out"] = len(decision.text) - LONGEST
    return dataclasses.replace(
        decision,
        text=_shortened(decision.text),
        thought=None if decision.thought is None else _shortened(decision.thought),
        details=details,
    )


def _shortened(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} [... {len(text) - LONGEST:,} characters left out ...] {text[-half:]}"
