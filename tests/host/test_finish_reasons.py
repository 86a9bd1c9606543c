"""Finish reasons in the words of any provider, however they are spelt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mnistpro_jax.host.contract import Status
from mnistpro_jax.host.models.finish_reasons import known_reasons, meaning

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda word: word,
    "capitals": str.upper,
    "prefixed": lambda word: f"FINISH_REASON_{word.upper()}",
    "a member": lambda word: f"FinishReason.{word.upper()}",
    "suffixed": lambda word: f"{word}: SOMETHING",
    "camel": lambda word: "".join([word.split("_")[0], *(part.title() for part in word.split("_")[1:])]),
    "hyphens": lambda word: word.replace("_", "-"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_known_reason_is_known_in_any_spelling(spelling: str) -> None:
    for word, status in known_reasons().items():
        for text in ("", "some text"):
            assert meaning(SPELLINGS[spelling](word), text)[0] == status, word


@pytest.mark.parametrize(
    ("reason", "text", "status"),
    [
        ("ERROR_TOXIC", "", Status.REFUSED),
        ("image_safety", "", Status.REFUSED),
        ("IMAGE_OTHER", "", Status.API_ERROR),
        ("error_limit", "half", Status.TRUNCATED),
        ("error", "half", Status.API_ERROR),  # what came before a failure is no reply
        ("never heard of", "", Status.API_ERROR),
        ("never heard of", "text", Status.OK),
        (None, "", Status.API_ERROR),
        (None, "text", Status.OK),
        (7, " \n", Status.API_ERROR),
        ("stop", "", Status.OK),  # the agent's own silence
        ("stopped", "", Status.API_ERROR),  # no word of another's is a part of a word
    ],
)
def test_what_no_table_has(reason: object, text: str, status: Status) -> None:
    found, problem = meaning(reason, text)
    assert found == status
    assert (problem is None) == (status == Status.OK)
    if problem is not None and reason is not None:
        assert repr(str(reason)) in problem
