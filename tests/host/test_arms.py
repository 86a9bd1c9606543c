"""What is carried from episode to episode, what is told of it, and the chain of notes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnistpro_jax import data
from mnistpro_jax.cli import main
from mnistpro_jax.host.tools.notes import CHAIN, NOTES, Notebook, refused, verified
from mnistpro_jax.runs.log import LogError, read_events
from mnistpro_jax.runs.records import read_episodes
from tests.host.fake_server import Answer, Body, FakeServer
from tests.host.test_run import EPISODES, asking, one_line
from tests.host.tool_scripts import calls, results

pytest.importorskip("openai")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MNISTPRO_API_KEY", raising=False)


def told(body: Body) -> str:
    """All texts of a request."""
    return json.dumps([{**message, "tool_calls": None} for message in body["messages"]])


def scribe(body: Body, number: int) -> Answer:
    """Moves, answers 7, and writes down all that it was told last."""
    names = [tool["function"]["name"] for tool in body["tools"]]
    said = results(body)
    if not said:
        return calls(("move", {"direction": "up"}), number=number)
    if "submit" in names:
        return calls(("submit", {"value": "7"}), number=number)
    if said[-1] == "Your notes have been replaced.":
        status, headers, sent = calls(number=number)
        loaded = json.loads(sent)
        loaded["choices"][0]["message"] = {"role": "assistant", "content": "done"}
        return status, headers, json.dumps(loaded).encode()
    texts = [part.get("text", "") for part in body["messages"][1]["content"]]
    before = next(text for text in texts if text.startswith("Your notes"))
    kept = "" if "empty" in before else before.partition("\n")[2]
    return calls(("write_notes", {"text": f"{kept}- {said[-1]}\n"}), number=number)


def played(server: FakeServer, out: Path, arm: str, *more: str) -> int:
    return main(asking(server, out, "--harness", "tools", "--arm", arm, "--retries", "0", *more))


@pytest.mark.parametrize("arm", ["A0", "A1", "A2"])
def test_what_each_arm_carries_and_tells(tmp_path: Path, arm: str) -> None:
    with FakeServer(scribe) as server:
        assert played(server, tmp_path, arm) == 0
    records = sorted(read_episodes(tmp_path), key=lambda record: record["position"])
    assert [record["position"] for record in records] == list(range(1, EPISODES + 1))
    everything = told({"messages": [m for body in server.requests for m in body["messages"]]})
    if arm == "A0":
        assert server.count == 2 * EPISODES and "notes" not in json.dumps(server.requests)
        assert not (tmp_path / NOTES).exists()
        return
    assert server.most_active == 1
    chain = verified(read_events(tmp_path / NOTES / CHAIN), tmp_path / NOTES)
    assert [line["episode"] for line in chain] == [record["episode"] for record in records]
    verdicts = ["CORRECT" if record["correct"] else "INCORRECT" for record in records]
    for position in range(1, EPISODES + 1):
        lines = (tmp_path / NOTES / f"{position:04d}.md").read_text().splitlines()
        assert len(lines) == position
        if arm == "A2":
            assert [line.split(".")[0] for line in lines] == [f"- {word}" for word in verdicts[:position]]
    if arm == "A1":
        assert "CORRECT" not in everything
    assert [record["notes_after"]["characters"] for record in records] == [
        len((tmp_path / NOTES / f"{position:04d}.md").read_text()) for position in range(1, EPISODES + 1)
    ]


def test_the_order_is_the_same_in_all_arms(tmp_path: Path) -> None:
    orders = []
    for arm in ("A0", "A1"):
        with FakeServer(scribe) as server:
            assert played(server, tmp_path / arm, arm) == 0
        records = sorted(read_episodes(tmp_path / arm), key=lambda record: record["position"])
        orders.append([record["episode"] for record in records])
    assert orders[0] == orders[1] != list(range(EPISODES))


def test_an_interrupted_session_goes_on_with_the_same_notes(tmp_path: Path) -> None:
    with FakeServer(scribe) as server:
        assert played(server, tmp_path / "whole", "A2") == 0
        needed = server.count
    expected = {path.name: path.read_bytes() for path in sorted((tmp_path / "whole" / NOTES).glob("*.md"))}
    for at in (1, 5, 9, 10, 11):
        strike = [at]

        def respond(body: Body, number: int, strike: list[int] = strike) -> Answer:
            if strike and number >= strike[0]:
                strike.pop()
                os.kill(os.getpid(), signal.SIGINT)
            return scribe(body, number)

        out = tmp_path / str(at)
        with FakeServer(respond, latency=0.01) as server:
            assert played(server, out, "A2") == 130
            assert played(server, out, "A2") == 0
            assert server.count == needed
        assert {path.name: path.read_bytes() for path in sorted((out / NOTES).glob("*.md"))} == expected


def test_notes_that_cannot_be_are_refused(tmp_path: Path) -> None:
    def respond(body: Body, number: int) -> Answer:
        said = results(body)
        wanted: list[Any] = ["x" * 11, "a\0b", "\ud800", 5, "kept"]
        if len(said) < len(wanted):
            return calls(("write_notes", {"text": wanted[len(said)]}), number=number)
        return calls(("submit", {"value": "7"}), number=number)

    with FakeServer(respond) as server:
        assert played(server, tmp_path, "A1", "--limit", "1", "--notes-limit", "10") == 0
    (record,) = read_episodes(tmp_path)
    assert record["faulty_calls"] == 4
    assert (tmp_path / NOTES / "0001.md").read_text() == "kept"


@pytest.mark.parametrize("what", ["notes", "line", "removed"])
def test_a_chain_that_was_tampered_with_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    with FakeServer(scribe) as server:
        assert played(server, tmp_path, "A1", "--limit", "3") == 0
        chain = tmp_path / NOTES / CHAIN
        if what == "notes":
            (tmp_path / NOTES / "0002.md").write_text("answers: 7 3 1")
        elif what == "line":
            chain.write_text(chain.read_text().replace('"position": 2', '"position": 4'))
        else:
            lines = chain.read_text().splitlines(keepends=True)
            chain.write_text(lines[0] + lines[2])
        capsys.readouterr()
        assert played(server, tmp_path, "A1") != 0
    assert "does not hold at position 2" in capsys.readouterr().err


def test_a_notebook(tmp_path: Path) -> None:
    book = Notebook(tmp_path)
    assert book.before(1) == ""
    book.commit(1, 7, "\u00e9\r\nnotes")
    book.commit(1, 7, "\u00e9\r\nnotes")
    assert Notebook(tmp_path).before(2) == "\u00e9\r\nnotes"
    with pytest.raises(LogError, match="other notes"):
        book.commit(1, 7, "others")
    with pytest.raises(LogError, match="position 3"):
        book.before(3)
    memory = Notebook()
    memory.commit(1, 0, "a")
    assert memory.before(2) == "a"


@given(st.text() | st.integers())
def test_what_can_be_notes(text: Any) -> None:
    why = refused(text, 40)
    if why is None:
        assert text.encode().decode() == text and len(text.encode()) <= 40
    else:
        assert why in ("text", "letters", "length")


def test_an_arm_needs_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["run", "--model", "scripted:answer", "--arm", "A1", "--out", str(tmp_path / "x")]
    assert main(given) == 2
    assert "--harness tools" in one_line(capsys)


@pytest.mark.parametrize("arm", ["A0", "A1", "A2"])
def test_nothing_that_is_told_hangs_on_a_label(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: str
) -> None:
    """The same images under other labels: not a byte differs of what is sent, but for the verdicts of A2."""
    told_of = []
    for shift in (0, 1):
        full = data.load("mnist", "test")
        shifted = dataclasses.replace(full, labels=((full.labels + shift) % 10).astype(full.labels.dtype))
        ids = itertools.count()
        with monkeypatch.context() as patched, FakeServer(scribe) as server:
            patched.setattr(data, "load", lambda *_, shifted=shifted: shifted)
            patched.setattr("secrets.token_hex", lambda size, ids=ids: f"{next(ids):0{2 * size}x}")
            given = ("--concurrency", "1", "--limit", "4")
            assert played(server, tmp_path / str(shift), arm, *given) == 0
        text = json.dumps(server.requests)
        told_of.append(text.replace("INCORRECT", "CORRECT") if arm == "A2" else text)
        (first,) = {record["labels"][0] for record in read_episodes(tmp_path / str(shift))[:1]}
        told_of.append(first)
    assert told_of[0] == told_of[2] and told_of[1] != told_of[3]
