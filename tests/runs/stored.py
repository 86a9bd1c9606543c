"""Run folders as each writer leaves them, made from episodes of the slow reference: no compilation, no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.host import protocol
from mnistpro_jax.host.prompts import load_pack
from mnistpro_jax.runs.json_files import write_json, write_jsonl
from mnistpro_jax.worlds.published import canvas_of, published_start
from tests.episodes import mnist_test
from tests.records import ACTIONS, Record, record_of
from tests.reference import ANSWER, INVALID, ReferenceEpisode

Script = tuple[Sequence[int], str | None]

# Moves, and the answer: "right", "wrong", None for none. One script an episode, of images 0, 1, ... of the test split.
SCRIPTS: tuple[Script, ...] = (
    ((3, 1, 1), "right"),
    ((0, 0, 0, 0, 0), "wrong"),
    ((), "right"),
    ((2, 3, 2, 3, 1, 1), None),
    ((1, 2, 0, 0, 3, 3), "right"),
    ((3,), "invalid"),
    ((1, 1, 3), "wrong"),
)


def episodes(level: int, scripts: Sequence[Script] = SCRIPTS, budget: int = 36) -> list[ReferenceEpisode]:
    """Finished episodes, from their published starts."""
    dataset = mnist_test()
    made = []
    for number, (moves, end) in enumerate(scripts):
        rows = indices_of(number, level)
        labels = dataset.labels[rows].tolist()
        canvas = canvas_of(dataset.images[rows])
        limit = len(moves) if end is None else budget
        world = ReferenceEpisode(canvas, labels, published_start(canvas), 64, 32, limit)
        for move in moves:
            world.step(move)
        if end == "invalid":
            world.step(INVALID)
        elif end is not None:
            world.step(ANSWER, labels if end == "right" else [*labels[:-1], (labels[-1] + 1) % 10])
        assert world.ending != 0
        made.append(world)
    return made


def indices_of(number: int, level: int) -> list[int]:
    return [level * number + k for k in range(level)]


def kinds_of(script: Script) -> list[int]:
    moves, end = script
    return [*moves, *({None: [], "invalid": [INVALID]}.get(end, [ANSWER]))]


def records(level: int, scripts: Sequence[Script] = SCRIPTS) -> list[Record]:
    """What our writers would store."""
    worlds = zip(episodes(level, scripts), scripts, strict=True)
    return [
        record_of(world, kinds_of(script), episode=number, indices=indices_of(number, level))
        for number, (world, script) in enumerate(worlds)
    ]


def evaluate_folder(folder: Path, level: int = 1, agent: str = "planner", **changes: Any) -> Path:
    """As ``mnistpro evaluate --out`` leaves it (what analysis reads of it)."""
    folder.mkdir(parents=True)
    listed = records(level, changes.pop("scripts", SCRIPTS))
    write_jsonl(folder / "episodes.jsonl", listed)
    summary = {
        "agent": agent,
        "level": level,
        "episodes": len(listed),
        "episode_list": "published",
        "control_accuracy": 0.99,
        "source": "mnist",
        "split": "test",
        "window": 64,
        "stride": 32,
        "budget": 36,
        "outline": True,
        "confidence": 0.99,
        "seed": 0,
    }
    write_json(folder / "summary.json", {**summary, **changes})
    return folder


def host_folder(folder: Path, level: int = 1, failed: int = 2, **config: Any) -> Path:
    """As ``mnistpro run --out`` leaves it; the last ``failed`` episodes are infrastructure failures."""
    (folder / "log").mkdir(parents=True)
    listed = records(level, config.pop("scripts", SCRIPTS))
    for number, record in enumerate(listed):
        record |= {
            "status": "ok" if record["ending"] != "INVALID_ACTION" else "unparseable",
            "calls": record["steps"],
            "failed_attempts": 0,
            "input_tokens": 100 * record["steps"],
            "output_tokens": 10 * record["steps"],
            "latency_s": 0.5 * record["steps"],
            "cost": None,
        }
        if number >= len(listed) - failed:
            record |= {"status": "api_error", "correct": None, "ending": "RUNNING", "answer": None}
        lines = [{"event": "start", "episode": number}]
        lines += [
            {"event": "turn", "step": step, "attempt": 1, "text": f"reply {step} </script><b>"}
            for step in range(record["steps"])
        ]
        if number < len(listed) - failed:
            bare = {name: value for name, value in record.items() if name != "cost"}
            lines.append({"event": "end", "status": record["status"], "record": bare})
        (folder / "log" / f"{number:04d}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
    write_jsonl(folder / "episodes.jsonl", listed)
    whole = {
        "model": "openai:gpt",
        "level": level,
        "memory": "textual",
        "horizon": 1,
        "attempts": 3,
        "prompts": "plain",
        "prompts_sha256": load_pack("plain").digest,
        "protocol_version": protocol.VERSION,
        "episode_list": "published",
        "episodes": len(listed),
        "source": "mnist",
        "split": "test",
        "seed": 0,
        "window": 64,
        "stride": 32,
        "budget": 36,
        "outline": True,
        "temperature": None,
    }
    write_json(folder / "run.json", {"config": {**whole, **config}, "sessions": []})
    return folder


def reference_folder(
    home: Path, level: int = 1, *, old: bool = False, failed: int = 0, **config: Any
) -> Path:
    """As the published reference leaves it. old: before its rewrite, with settings in the name and no positions."""
    several = f"multidigit_{level}_" if level > 1 else ""
    agent = ("MultiDigit" if level > 1 else "") + "MemoryVisionAgent"
    name = f"{several}gemini-3.7-flash_img224_box64_step32_maxsteps36_seed42_{agent}_hist1_evalsets10_20260801_120000"
    folder = home / name
    folder.mkdir(parents=True)
    entries = []
    for number, (world, script) in enumerate(zip(episodes(level), SCRIPTS, strict=True)):
        actions = [_said(kind, world) for kind in kinds_of(script)]
        reasons = ("running", "answered", "step_limit", "invalid_action")
        entry: dict[str, Any] = {
            "episode_id": number,
            "indices": indices_of(number, level),
            "label": "".join(map(str, world.labels)),
            "success": world.correct,
            "answer": None if world.answer is None else "".join(map(str, world.answer)),
            "termination_reason": reasons[world.ending],
            "total_reward": float(world.episode_return),
            "n_steps": world.steps,
            "error": "BackendError: quota" if number < failed else None,
            "control_success": number != 0,
        }
        trajectory = [{"step": step + 1, "action": action} for step, action in enumerate(actions)]
        if old:
            entry["trajectory"] = trajectory
        else:
            (folder / f"episode_{number}").mkdir()
            path = {"windows": [list(corner) for corner in world.windows], "trajectory": trajectory}
            (folder / f"episode_{number}" / "trajectory.json").write_text(json.dumps({**entry, **path}))
        entries.append(entry)
    stored: dict[str, Any] = {"metrics": {}, "episodes": entries}
    if not old:
        whole = {
            "model": "gemini-3.7-flash",
            "digits": level,
            "memory": "textual_belief_state",
            "horizon": 1,
            "turn_mode": "turn_based",
            "harness": "turn_based",
            "arm": "A0",
            "box_size": 64,
            "step_size": 32,
            "image_size": 224,
            "seed": 42,
            "max_steps": 36,
            "evalsets": 10,
            "draw_border": True,
        }
        (folder / "run_config.json").write_text(json.dumps({**whole, **config}))
    (folder / "results_summary.json").write_text(json.dumps(stored))
    return folder


def _said(kind: int, world: ReferenceEpisode) -> Any:
    if kind == INVALID:
        return {"action": "<unparseable>", "raw": "hm"}
    if kind == ANSWER:
        return {"action": "answer", "value": "".join(map(str, world.answer or []))}
    return (
        json.dumps({"action": "move", "direction": ACTIONS[kind]})
        if kind == 3
        else {"action": "move", "direction": ACTIONS[kind]}
    )
