"""Run folders of the published reference (declare-lab/MNIST-PRO, arXiv 2608.31022), read as runs of ours.

A folder holds ``results_summary.json`` (metrics, and one entry an episode), since its rewrite also ``run_config.json``
and ``episode_<i>/trajectory.json`` with window positions. Older folders say their settings in their names alone and
log no positions; these follow from the actions, because a start is a function of its canvas. Coverages are counted
anew from the windows with our definitions (the reference's "readable" lacks one more row and column).
"""

from __future__ import annotations

import collections
import itertools
import json
import math
import re
from pathlib import Path
from typing import Any

from mnistpro_jax.runs.canvases import canvases
from mnistpro_jax.runs.fields import Fields, check_windows
from mnistpro_jax.runs.json_files import read_object
from mnistpro_jax.runs.recount import counted
from mnistpro_jax.runs.setting import Setting
from mnistpro_jax.runs.stored import StoredRun
from mnistpro_jax.worlds.published import PUBLISHED_SEED, published_start

SUMMARY = "results_summary.json"
CONFIGURATION = "run_config.json"
TRAJECTORY = "trajectory.json"

# <model>_img224_box64_step32_maxsteps38_seed42_<Agent>_hist1_evalsets10_<date>_<time>, with "multidigit_2_" before it.
_NAME = re.compile(
    r"(?:multidigit_(?P<digits>\d+)_)?(?P<model>.+)_img(?P<image_size>\d+)_box(?P<box_size>\d+)_step(?P<step_size>\d+)"
    r"_maxsteps(?P<max_steps>\d+)_seed(?P<seed>\d+)_(?P<agent>[A-Za-z]+)_hist(?P<horizon>-?\d+)"
    r"_evalsets(?P<evalsets>\d+)_\d{8}_\d{6}"
)
_MULTI = "MultiDigit"
MEMORY_OF_AGENT = {
    "SensoryVisionAgent": ("image-only", False),
    "DefaultVisionAgent": ("event-log", False),
    "MemoryVisionAgent": ("textual", False),
    "SpatialMemoryVisionAgent": ("grid-map", False),
    "NaturalConversationVisionAgent": ("event-log", True),
    "NaturalConversationMemoryVisionAgent": ("textual", True),
}
"""The reference's agents, in folder names: the memory, and whether the conversation is kept as it was said."""
MEMORY_OF_NAME = {
    "visual_buffer": "image-only",
    "event_logging": "event-log",
    "textual_belief_state": "textual",
    "metric_grid_map": "grid-map",
}
"""The reference's memories, in configurations, and ours."""
_ENDINGS = {"answered": "ANSWERED", "step_limit": "STEP_LIMIT", "invalid_action": "INVALID_ACTION"}
_STEPS = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}


def is_run(folder: Path) -> bool:
    """Whether this is such a folder."""
    return (folder / SUMMARY).is_file()


def load(folder: Path) -> StoredRun:
    """The run in a folder. Raises ValueError, naming file and field, where it cannot be read.

    Episodes that the reference could not finish (its ``error``) do not count, as everywhere.
    """
    summary = read_object(folder / SUMMARY)
    setting, seed = setting_of(folder, summary)
    entries = summary.get("episodes")
    if not isinstance(entries, list):
        raise ValueError(f"{folder / SUMMARY}: field 'episodes' is no list; expected one entry an episode")
    uncounted: collections.Counter[str] = collections.Counter()
    bare: dict[int, dict[str, Any]] = {}
    for number, entry in enumerate(entries):
        get, logged = _with_trajectory(folder, entry, number)
        if get.values.get("error"):
            uncounted["api_error"] += 1
            continue
        record = _bare_record(get, logged, setting)
        if record["episode"] in bare:
            raise get.wrong("episode_id", "a number that no other episode has")
        bare[record["episode"]] = record
    records = []
    for record, canvas in canvases(list(bare.values())):
        windows = record["windows"]
        if windows is None:
            windows = _replayed(published_start(canvas, setting.window), record["actions"], setting)
        record = {**record, "windows": windows, "start_xy": list(windows[0]), "moves": len(windows) - 1}
        records.append({**record, **counted(canvas, windows, setting.window, setting.level)})
    records.sort(key=lambda record: record["episode"])
    control = [entry.get("control_success") for entry in entries if isinstance(entry, dict)]
    judged = [flag for flag in control if isinstance(flag, bool)]
    return StoredRun(
        name=setting.label,
        path=folder,
        setting=setting,
        seed=seed,
        records=tuple(records),
        uncounted=dict(uncounted),
        planned=len(entries),
        control=sum(judged) / len(judged) if judged else None,
        writer="reference",
    )


def setting_of(folder: Path, summary: dict[str, Any]) -> tuple[Setting, int | None]:
    """(setting, seed), from the configuration where there is one, else from the folder's name."""
    path = folder / CONFIGURATION
    stored = read_object(path) if path.is_file() else summary.get("run_config")
    if isinstance(stored, dict):
        get = Fields(stored, path if path.is_file() else folder / SUMMARY)
        named = get.text("memory")
        if named not in MEMORY_OF_NAME:
            raise ValueError(
                f"{path}: memory {named!r} is unknown; expected one of {', '.join(MEMORY_OF_NAME)}"
            )
        harness = str(stored.get("harness", "turn_based"))
        natural = "natural" in (harness, stored.get("turn_mode"))
        facts = {
            name: get.whole(name) for name in ("digits", "box_size", "step_size", "image_size", "max_steps")
        }
        model, memory, horizon = get.text("model"), MEMORY_OF_NAME[named], get.whole("horizon")
        outline = bool(stored.get("draw_border", True))
        seed = stored.get("seed")
        arm = str(stored.get("arm", "A0"))
    else:
        match = _NAME.fullmatch(folder.name)
        agent = match["agent"].removeprefix(_MULTI) if match else ""
        if match is None or agent not in MEMORY_OF_AGENT:
            raise ValueError(
                f"{folder} has no {CONFIGURATION}, and its name does not say the settings (expected "
                "MODEL_img224_box64_step32_maxsteps38_seed42_AGENT_hist1_evalsets10_DATE_TIME)"
            )
        memory, natural = MEMORY_OF_AGENT[agent]
        several = 2 if match["agent"].startswith(_MULTI) else 1
        facts = {name: int(match[name]) for name in ("box_size", "step_size", "image_size", "max_steps")}
        facts["digits"] = int(match["digits"] or several)
        model, horizon, outline, seed = match["model"], int(match["horizon"]), True, int(match["seed"])
        harness, arm = "turn_based", "A0"
    wrong = [name for name, value in facts.items() if value < 1]
    if wrong or facts["box_size"] > facts["image_size"]:
        name = wrong[0] if wrong else "box_size"
        raise ValueError(f"{folder}: {name} is {facts[name]}; expected 1 or more, and a box within the image")
    if facts["image_size"] != 224:
        raise ValueError(f"{folder}: images of {facts['image_size']} pixels; only runs with 224 are read")
    # In our names the natural conversation is a memory of its own: all of it stays, and nothing else is kept.
    others = [("keys", memory)] if natural and memory != "event-log" else []
    others += [("arm", arm)] if arm != "A0" else []
    setting = Setting(
        model=model,
        level=facts["digits"],
        memory="natural" if natural else memory,
        horizon=horizon,
        window=facts["box_size"],
        stride=facts["step_size"],
        budget=facts["max_steps"],
        outline=outline,
        episode_list="published" if seed == PUBLISHED_SEED else "random",
        harness="turns" if harness in ("turn_based", "natural") else harness,
        others=tuple(others),
    )
    return setting, seed


def _with_trajectory(folder: Path, entry: Any, number: int) -> tuple[Fields, Fields]:
    """(an entry of the summary, the same with what its episode's own file adds: windows and trajectory)."""
    place = f"episodes[{number}]"
    if not isinstance(entry, dict):
        raise ValueError(f"{folder / SUMMARY}: episodes[{number}] is no object")
    path = folder / f"episode_{entry.get('episode_id', number)}" / TRAJECTORY
    if "windows" not in entry and path.is_file():
        whole = {**read_object(path), **entry}
        return Fields(whole, folder / SUMMARY, place), Fields(whole, path)
    summary = Fields(entry, folder / SUMMARY, place)
    return summary, summary


def _bare_record(get: Fields, logged: Fields, setting: Setting) -> dict[str, Any]:
    """An episode record without what has to be counted; windows None where they were not logged.

    logged: the same values, of which windows and trajectory are read; its errors name the file that they are in.
    """
    entry = get.values
    indices = entry.get("indices")
    if (
        not isinstance(indices, list)
        or len(indices) != setting.level
        or not all(type(index) is int for index in indices)
    ):
        raise get.wrong("indices", f"the {setting.level} images shown, as whole numbers")
    label = str(entry.get("label")).strip()
    if not re.fullmatch(rf"\d{{{setting.level}}}", label):
        raise get.wrong("label", f"{setting.level} digits")
    trajectory = entry.get("trajectory")
    if trajectory is not None and not isinstance(trajectory, list):
        raise logged.wrong("trajectory", "a list of steps")
    actions = [_action_name(step) for step in trajectory or []]
    windows = entry.get("windows")
    if windows is not None:
        check_windows(windows, setting.window, setting.level, logged)
    reward = entry.get("total_reward", 0.0)
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not math.isfinite(reward):
        raise get.wrong("total_reward", "a number")
    reason = str(entry.get("termination_reason"))
    if reason not in _ENDINGS:
        raise get.wrong("termination_reason", ", ".join(_ENDINGS))
    given = str(entry.get("answer")).strip()
    ending = _ENDINGS[reason]
    # An answer of another length or with other signs than digits stays an answer, a wrong one; it has no digits.
    readable = ending == "ANSWERED" and re.fullmatch(rf"\d{{{setting.level}}}", given)
    answer = [int(digit) for digit in given] if readable else None
    labels = [int(digit) for digit in label]
    if not actions and windows is not None:
        actions = _actions_of(windows, entry, ending)
    return {
        "episode": get.whole("episode_id"),
        "level": setting.level,
        "source": "mnist",
        "split": "test",
        "indices": indices,
        "labels": labels,
        "windows": windows,
        "actions": actions,
        "answer": answer,
        "ending": ending,
        "correct": answer == labels,
        "digits_correct": [a == b for a, b in zip(answer, labels, strict=True)]
        if answer
        else [False] * len(labels),
        "steps": len(actions),
        "return": round(float(reward), 5),
    }


def _action_name(step: Any) -> str:
    """The name of an action in a trajectory: an object, or the JSON text of one."""
    action = step.get("action") if isinstance(step, dict) else None
    if isinstance(action, str):
        try:
            action = json.loads(action)
        except ValueError:
            return "invalid"
    kind = action.get("action") if isinstance(action, dict) else None
    direction = action.get("direction") if isinstance(action, dict) else None
    if kind == "move" and isinstance(direction, str) and direction in _STEPS:
        return direction
    return "answer" if kind == "answer" else "invalid"


def _actions_of(windows: list[list[int]], entry: dict[str, Any], ending: str) -> list[str]:
    """Names of the actions from the windows alone: where a window stayed, the direction is not known; "up" stands."""
    names = []
    for before, after in itertools.pairwise(windows):
        sign = tuple((b > a) - (b < a) for a, b in zip(before, after, strict=True))
        names.append(next((name for name, step in _STEPS.items() if step == sign), "up"))
    last = {"ANSWERED": ["answer"], "INVALID_ACTION": ["invalid"]}.get(ending, [])
    return names + last


def _replayed(start: tuple[int, int], actions: list[str], setting: Setting) -> list[list[int]]:
    """Every corner shown, from the start and the moves."""
    limits = 224 * setting.level - setting.window, 224 - setting.window
    windows = [list(start)]
    for name in actions:
        if name in _STEPS:
            moved = zip(windows[-1], _STEPS[name], limits, strict=True)
            windows.append([min(max(at + setting.stride * step, 0), limit) for at, step, limit in moved])
    return windows
