"""What an agent is told in every memory configuration."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from mnistpro_jax.host import prompts
from mnistpro_jax.host.contract import Decision, Message, Status
from mnistpro_jax.host.memory import MEMORIES, UNBOUNDED, horizon_of, memory_of
from mnistpro_jax.host.messages import count_pictures, texts_of
from mnistpro_jax.host.prompts import load_pack
from mnistpro_jax.host.protocol import Past, Protocol, World

WORLD = World(224, 224, 64, 32, 1, 10, 36, True)
PAST = [
    Past(
        f"picture-{number}",
        Decision(
            Status.OK,
            action,
            text=f"reply-{number}",
            thought=f"thought-{number}",
            place={"coords": [0, number], "features": f"features-{number}"},
        ),
    )
    for number, action in enumerate(("up", "down", "left", "right", "up"), start=1)
]


def protocol(memory: str, horizon: int | None = None, world: World = WORLD, **changes: Any) -> Protocol:
    chosen = memory_of(memory)
    return Protocol(world, chosen, horizon_of(chosen, horizon), load_pack(), **changes)


def pictures(messages: tuple[Message, ...]) -> list[str]:
    return [
        part["image_url"]["url"]
        for message in messages
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]


def told(messages: tuple[Message, ...]) -> str:
    return "\n".join(texts_of(messages))


@pytest.mark.parametrize(
    ("memory", "horizon", "shown"),
    [
        ("image-only", None, ["picture-3", "picture-4", "picture-5", "now"]),
        ("image-only", 1, ["now"]),
        ("image-only", UNBOUNDED, [*(f"picture-{k}" for k in range(1, 6)), "now"]),
        ("event-log", None, ["now"]),
        ("textual", 2, ["picture-5", "now"]),
        ("grid-map", UNBOUNDED, [*(f"picture-{k}" for k in range(1, 6)), "now"]),
        ("canvas", None, ["fused", "now"]),
        ("canvas+grid-map", None, ["fused", "now"]),
        ("natural", None, [*(f"picture-{k}" for k in range(1, 6)), "now"]),
        ("full-image", None, ["now"]),
    ],
)
def test_pictures(memory: str, horizon: int | None, shown: list[str]) -> None:
    chosen = protocol(memory, horizon)
    messages = chosen.messages(PAST, "now", "fused")
    assert pictures(messages) == shown
    assert count_pictures(messages) == len(shown) == chosen.pictures_shown(len(PAST) + 1)


@pytest.mark.parametrize(
    ("memory", "kept"),
    [
        ("image-only", ""),
        ("event-log", "actions"),
        ("textual", "actions thoughts"),
        ("grid-map", "actions thoughts map"),
        ("canvas", ""),
        ("canvas+event-log", "actions"),
        ("canvas+textual", "actions thoughts"),
        ("canvas+grid-map", "actions thoughts map"),
        ("natural", ""),
        ("full-image", ""),
    ],
)
def test_texts(memory: str, kept: str) -> None:
    """Every kind of text is carried where the configuration says so, and nowhere else."""
    text = told(protocol(memory).messages(PAST, "now", "fused"))
    assert ("you moved left" in text) == ("actions" in kept)
    assert ("thought-4" in text) == ("thoughts" in kept)
    assert ("features-4" in text and "[0, 4]" in text) == ("map" in kept)
    assert ('"thought"' in text) == ("thoughts" in kept)  # asked for
    assert ('"spatial_map"' in text) == ("map" in kept)
    assert ("reply-4" in text) == (memory == "natural")


def test_every_configuration_is_tested() -> None:
    assert set(MEMORIES) == {
        *("image-only", "event-log", "textual", "grid-map", "natural", "full-image"),
        *("canvas", "canvas+event-log", "canvas+textual", "canvas+grid-map"),
    }


def test_natural_is_the_conversation() -> None:
    messages = protocol("natural").messages(PAST[:2], "now")
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"] == "reply-1"
    assert (
        len(messages[0]["content"]) == 2 and len(messages[2]["content"]) == len(messages[4]["content"]) == 1
    )
    # A later request begins with the earlier one, so that providers can keep it.
    assert protocol("natural").messages(PAST[:3], "now")[:4] == messages[:4]


def test_the_rules_name_the_world() -> None:
    odd = World(112, 336, 40, 17, 3, 8, 55, False)
    text = protocol("image-only", world=odd).rules()
    for fact in ("336 x 112", "40 x 40", "17 pixels", "3 handwritten", "0 to 7", "55 turns", '"???"'):
        assert fact in text
    assert "cyan" not in text
    assert "cyan" in protocol("image-only").rules()
    assert "$" not in text


@pytest.mark.parametrize("memory", MEMORIES)
def test_nothing_is_left_to_fill_in(memory: str) -> None:
    for digits in (1, 2):
        chosen = protocol(memory, world=dataclasses.replace(WORLD, digits=digits))
        for past in ([], PAST):
            assert "$" not in told(chosen.messages(past, "now", "fused"))


@pytest.mark.parametrize("memory", ["image-only", "natural", "canvas+textual"])
def test_the_last_turn_is_announced(memory: str) -> None:
    short = dataclasses.replace(WORLD, budget=6)
    assert "your last turn" in told(protocol(memory, world=short).messages(PAST, "now", "fused"))
    assert "your last turn" not in told(protocol(memory, world=short).messages(PAST[1:], "now", "fused"))
    quiet = protocol(memory, world=short, warning=False)
    assert "your last turn" not in told(quiet.messages(PAST, "now", "fused"))


def test_further_attempts() -> None:
    same = protocol("image-only")
    assert same.messages(PAST, "now", None, ["what?"]) == same.messages(PAST, "now")
    more = protocol("image-only", retry="explain").messages(PAST, "now", None, ["what?"])
    assert [message["role"] for message in more] == ["system", "user", "assistant", "user"]
    assert more[2]["content"] == "what?"


def test_an_empty_reply_is_not_sent_again() -> None:
    """Servers refuse an empty text, and some of them two messages of one role in a row."""
    for system in ("system", "user"):
        chosen = protocol("image-only", retry="explain", system=system)
        plain, told_of = (
            chosen.messages(PAST, "now"),
            chosen.messages(PAST, "now", None, ["", "<think>up</think>", " "]),
        )
        assert [message["role"] for message in told_of] == [message["role"] for message in plain]
        assert len(told_of[-1]["content"]) == len(plain[-1]["content"]) + 3


def test_the_rules_may_be_the_users() -> None:
    for memory in MEMORIES:
        chosen = protocol(memory, system="user")
        first, *_ = chosen.messages(PAST, "now", "fused")
        assert first["role"] == "user" and first["content"][0]["text"] == chosen.rules()
    with pytest.raises(ValueError, match="expected one of system, user"):
        protocol("image-only", system="developer")


def test_thinking_is_not_sent_again() -> None:
    thought = '<think>{"action": "answer"} or not</think>\nUp. '
    past = [dataclasses.replace(PAST[0], decision=dataclasses.replace(PAST[0].decision, text=thought))]
    messages = protocol("natural").messages(past, "now")
    assert messages[1]["content"] == "Up."
    explained = protocol("image-only", retry="explain").messages([], "now", None, [thought])
    assert explained[-2]["content"] == "Up."
    # A reply that was nothing else is said in the protocol's words.
    only = [dataclasses.replace(PAST[0], decision=dataclasses.replace(PAST[0].decision, text="<think>up"))]
    assert "action" in protocol("natural").messages(only, "now")[1]["content"]


def test_horizons() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        horizon_of(memory_of("image-only"), 0)
    with pytest.raises(ValueError, match="leave the horizon out"):
        horizon_of(memory_of("canvas"), 4)
    assert horizon_of(memory_of("natural"), UNBOUNDED) == UNBOUNDED
    with pytest.raises(ValueError, match="unknown memory 'none'; expected one of image-only"):
        memory_of("none")


# ---- Prompt packs -------------------------------------------------------------------------------------------


PLAIN = Path(prompts.__file__).with_name("plain.toml")


def test_a_pack_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(PLAIN.read_text().replace("Grey says nothing", "Gris no dice nada"), encoding="utf-8")
    pack = load_pack(file)
    assert pack.digest != load_pack().digest
    text = dataclasses.replace(protocol("image-only"), prompts=pack).rules()
    assert "Gris no dice nada" in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[turn]\n", "[turn]\nextra = 'x'\n", "unknown turn.extra"),
        ("status = ", "stratus = ", "lacks turn.status"),
        ("$stride pixels", "$pace pixels", "rules.moves names $pace"),
        ("$stride pixels", "5 $ pixels", "write $$"),
        ('name = "plain"', "", "'name'"),
        ("[rules]", "[rules", "no TOML"),
    ],
)
def test_a_bad_pack_is_refused(tmp_path: Path, old: str, new: str, expected: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(PLAIN.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match="mine.toml") as error:
        load_pack(file)
    assert expected in str(error.value)


def test_a_missing_pack(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no prompt pack"):
        load_pack(tmp_path / "nothing.toml")
