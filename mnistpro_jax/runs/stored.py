"""Stored runs: found in folders, read into one shape whatever wrote them.

Three writers are known: ``mnistpro evaluate --out`` and ``mnistpro run --out`` (``episodes.jsonl`` with
``summary.json`` or ``run.json`` beside it), and the published reference (``analysis.reference_runs``). Everything in
this package works on what is returned here.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mnistpro_jax.runs.folder import EPISODES, SUMMARY
from mnistpro_jax.runs.outcomes import Outcomes
from mnistpro_jax.runs.records import check_record
from mnistpro_jax.worlds.digits import PUBLISHED_SIZE

RUN_CONFIGURATION = "run.json"
_DEPTH = 4  # folders of folders that are searched
OWN_MEMORY = "own"
"""The memory of our agents, which is no configuration of the protocol."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What was run: all that must be the same for two runs to be repeats of each other, but for the seed.

    model: of an API, or the name of an agent. level: digits. memory: a configuration's name, ``OWN_MEMORY`` for
    agents of ours. horizon: pictures shown, -1 for all, None where the memory has none. window, stride: pixels. budget:
    actions of an episode. outline: whether windows are framed. source, split: of the images. episode_list: "published"
    or "random". harness: how the agent is driven: "turns" (one request a turn), "agent" (ours), or a tool harness.
    others: further settings that matter, as sorted (name, text) pairs.
    """

    model: str
    level: int
    memory: str
    horizon: int | None
    window: int
    stride: int
    budget: int
    outline: bool
    source: str = "mnist"
    split: str = "test"
    episode_list: str = "published"
    harness: str = "turns"
    others: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """The setting in a few words, without level and world."""
        words = [self.model]
        if self.memory != OWN_MEMORY:
            words.append(self.memory)
        if self.horizon is not None:
            words.append(f"H={'all' if self.horizon == -1 else self.horizon}")
        if self.harness not in ("turns", "agent"):
            words.append(self.harness)
        return ", ".join(words)


@dataclasses.dataclass(frozen=True, eq=False)
class StoredRun:
    """One run. name: unique among the runs that were loaded together, for people. seed: its own, None where unknown.

    records: episodes that count, in the format of ``analysis.records``, by number. uncounted: how many others there
    are, by status (infrastructure failures: never scored). planned: how many episodes the run was meant to have, None
    where it does not say. control: its summary's accuracy on unmasked canvases, None without one. writer: "mnistpro" or
    "reference".
    """

    name: str
    path: Path
    setting: Setting
    seed: int | None
    records: tuple[dict[str, Any], ...]
    uncounted: dict[str, int]
    planned: int | None = None
    control: float | None = None
    writer: str = "mnistpro"

    @property
    def key(self) -> str:
        """Names the run, for programs: its folder, which no other run has, whatever they are called."""
        return str(self.path.resolve())

    @property
    def outcomes(self) -> Outcomes:
        """The counted episodes as columns. Raises ValueError where there is none."""
        return Outcomes.of_records(self.records)

    def keys(self) -> list[tuple[int, tuple[int, ...]]]:
        """What names each counted episode in every run of the same list: (number, images)."""
        return [(record["episode"], tuple(record["indices"])) for record in self.records]


def load_runs(folders: Sequence[str | Path]) -> list[StoredRun]:
    """All runs in these folders and their subfolders, named apart.

    Raises FileNotFoundError for a folder that does not exist, and ValueError, naming file and field, for one without
    any run or with a run that cannot be read.
    """
    found: dict[Path, StoredRun] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise FileNotFoundError(
                f"there is no folder {folder}; expected what `evaluate --out` or `run --out` wrote"
            )
        runs = [load_run(path) for path in run_folders(folder)]
        if not runs:
            raise ValueError(
                f"{folder} holds no run: expected {EPISODES} with {SUMMARY} or {RUN_CONFIGURATION}, or a run of the "
                "published reference (results_summary.json), there or in its subfolders"
            )
        found.update({run.path.resolve(): run for run in runs})
    return named_apart(list(found.values()))


def run_folders(folder: Path, depth: int = _DEPTH) -> Iterator[Path]:
    """Folders that hold a run each, in the order of their names."""
    from mnistpro_jax.runs import reference as reference_runs

    if (folder / EPISODES).is_file() or reference_runs.is_run(folder):
        yield folder
    elif depth and folder.is_dir():
        for entry in sorted(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink() and not entry.name.startswith("."):
                yield from run_folders(entry, depth - 1)


def load_run(folder: Path) -> StoredRun:
    """The run in one folder. Raises ValueError, naming file and field, where it cannot be read."""
    from mnistpro_jax.runs import reference as reference_runs

    if not (folder / EPISODES).is_file():
        return reference_runs.load_run(folder)
    records, uncounted = _read_records(folder / EPISODES)
    summary = read_object(folder / SUMMARY) if (folder / SUMMARY).is_file() else {}
    if (folder / RUN_CONFIGURATION).is_file():
        configuration = read_object(folder / RUN_CONFIGURATION)
        setting, seed, planned = _host_setting(configuration, summary, folder)
    elif summary:
        setting, seed, planned = _evaluate_setting(summary, folder / SUMMARY)
    else:
        raise ValueError(
            f"{folder} has neither {SUMMARY} nor {RUN_CONFIGURATION}; the run's settings are in them"
        )
    for record in records:
        get = Fields(record, folder / EPISODES, f"episode {record['episode']}")
        if record["level"] != setting.level:
            raise get.wrong("level", f"{setting.level}, as the run's settings say")
        check_windows(record["windows"], setting.window, setting.level, get)
    return StoredRun(
        name=setting.label,
        path=folder,
        setting=setting,
        seed=seed,
        records=tuple(records),
        uncounted=uncounted,
        planned=planned,
        control=summary.get("control_accuracy"),
    )


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object from a file. Raises ValueError where it is none, or is torn."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is not a complete JSON object ({error})") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path} holds a {type(value).__name__}; expected a JSON object")
    return value


def _read_records(path: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """(counted episodes by number, number of others by status) of an ``episodes.jsonl``."""
    counted: dict[int, dict[str, Any]] = {}
    uncounted: collections.Counter[str] = collections.Counter()
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise ValueError(
                f"{where}: not a complete JSON object ({error}); remove this line or run again"
            ) from None
        if isinstance(record, dict) and record.get("correct", "") is None:
            uncounted[str(record.get("status") or "unfinished")] += 1
            continue
        check_record(record, where)
        _check_values(record, where)
        if record["episode"] in counted:
            raise ValueError(f"{where}: episode {record['episode']} is there twice")
        counted[record["episode"]] = record
    return [counted[number] for number in sorted(counted)], dict(uncounted)


_SHARES = "stroke_coverage stroke_coverage_readable area_coverage area_coverage_readable".split()
_BY_DIGIT = "digit_stroke_coverage digit_stroke_coverage_readable".split()


def _check_values(record: dict[str, Any], where: str) -> None:
    """Raise ValueError for a counted record of the right types whose values cannot be."""
    get, level = Fields(record, Path(where)), record["level"]
    if level < 1:
        raise get.wrong("level", "1 or more digits")
    for name in ("answer", "digits_correct", *_BY_DIGIT):
        value = record[name]
        if len(value) != level if value is not None else name != "answer":
            raise get.wrong(name, f"{level} entries, one a digit")
    if not all(0 <= digit <= 9 for digit in record["labels"]):
        raise get.wrong("labels", "digits, 0 to 9")
    for name in (*_SHARES, *_BY_DIGIT):
        value = record[name]
        if not all(0 <= share <= 1 for share in (value if name in _BY_DIGIT else [value])):
            raise get.wrong(name, "shares, 0 to 1")
    if not math.isfinite(record["return"]):
        raise get.wrong("return", "a number")


def check_windows(windows: Any, window: int, level: int, get: Fields) -> None:
    """Raise ValueError unless these are corners of windows that lie in a canvas of ``level`` digits, at least one."""
    right, bottom = PUBLISHED_SIZE * level - window, PUBLISHED_SIZE - window
    if not isinstance(windows, list) or not windows or not all(map(_is_corner, windows)):
        raise get.wrong("windows", "corners [x, y] of whole numbers, at least one")
    outside = [corner for corner in windows if not (0 <= corner[0] <= right and 0 <= corner[1] <= bottom)]
    if outside:
        raise get.wrong(
            "windows",
            f"corners within 0..{right} and 0..{bottom}, so that windows of {window} pixels lie in the canvas "
            f"({outside[0]} does not)",
        )


def _is_corner(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(part) is int for part in value)


def _evaluate_setting(summary: dict[str, Any], path: Path) -> tuple[Setting, int | None, int | None]:
    get = Fields(summary, path)
    others = [
        (name, repr(summary[name])) for name in ("confidence", "weights") if summary.get(name) is not None
    ]
    setting = Setting(
        model=get.text("agent"),
        level=get.whole("level"),
        memory=OWN_MEMORY,
        horizon=None,
        window=get.whole("window"),
        stride=get.whole("stride"),
        budget=get.whole("budget"),
        outline=get.flag("outline"),
        source=get.text("source"),
        split=get.text("split"),
        episode_list=get.text("episode_list"),
        harness="agent",
        others=tuple(others),
    )
    return setting, summary.get("seed"), summary.get("episodes")


_SAME_SETTING = (
    "model level memory horizon window stride budget outline source split episode_list episodes seed".split()
)
_WORDS = "prompts_sha256"  # shortened: it is there to tell packs apart


def _host_setting(
    configuration: dict[str, Any], summary: dict[str, Any], folder: Path
) -> tuple[Setting, int | None, int | None]:
    """The setting of a run of ``mnistpro run``; what its configuration leaves out may be in its summary."""
    configuration = configuration.get("config", configuration)
    if not isinstance(configuration, dict):
        raise ValueError(f"{folder / RUN_CONFIGURATION}: field 'config' is no object")
    get = Fields({**summary, **configuration}, folder / RUN_CONFIGURATION)
    episodes = configuration.get("episodes")
    others = [
        (name, str(value)[:8] if name == _WORDS else value if isinstance(value, str) else json.dumps(value))
        for name, value in configuration.items()
        if name not in _SAME_SETTING and value is not None
    ]
    horizon = configuration.get("horizon")
    setting = Setting(
        model=get.text("model"),
        level=get.whole("level"),
        memory=get.text("memory"),
        horizon=-1 if horizon in ("all", "inf") else horizon,
        window=get.whole("window"),
        stride=get.whole("stride"),
        budget=get.whole("budget"),
        outline=get.flag("outline"),
        source=str(get.values.get("source", "mnist")),
        split=str(get.values.get("split", "test")),
        episode_list=str(
            get.values.get("episode_list", "published" if episodes == "published" else "random")
        ),
        others=tuple(sorted(others)),
    )
    planned = episodes if isinstance(episodes, int) else None
    return setting, configuration.get("seed"), planned


_SHOWN = 80  # characters of a wrong value in a message


class Fields:
    """Typed fields of a JSON object; an error names the file, the place in it where there is one, and the field."""

    def __init__(self, values: dict[str, Any], path: Path, place: str = "") -> None:
        self.values = values
        self._where = f"{path}, {place}" if place else str(path)

    def text(self, name: str) -> str:
        """A text."""
        return str(self._checked(name, str, "text"))

    def whole(self, name: str) -> int:
        """A whole number."""
        return int(self._checked(name, int, "a whole number"))

    def flag(self, name: str) -> bool:
        """True or false."""
        return bool(self._checked(name, bool, "true or false"))

    def _checked(self, name: str, kind: type, expected: str) -> Any:
        value = self.values.get(name)
        if type(value) is not kind:
            raise self.wrong(name, expected)
        return value

    def wrong(self, name: str, expected: str) -> ValueError:
        """The error that a field is not what it has to be."""
        has = json.dumps(self.values.get(name))
        shown = has if len(has) <= _SHOWN else f"{has[:_SHOWN]} ..."
        return ValueError(f"{self._where}: field {name!r} is {shown}; expected {expected}")


def named_apart(runs: list[StoredRun]) -> list[StoredRun]:
    """Names that tell runs of one level apart: the setting, then what differs, then the end of the folder's path."""
    groups: dict[tuple[int, str], list[StoredRun]] = collections.defaultdict(list)
    for run in runs:
        groups[run.setting.level, run.setting.label].append(run)
    names: dict[Path, str] = {}
    for (_, label), same in groups.items():
        for run in same:
            names[run.path] = label + (_difference(run, same) if len(same) > 1 else "")
    alike: dict[tuple[int, str], list[Path]] = collections.defaultdict(list)
    for run in runs:
        alike[run.setting.level, names[run.path]].append(run.path)
    for (_, name), paths in alike.items():
        if len(paths) > 1:
            names |= {path: f"{name} ({end})" for path, end in zip(paths, _path_ends(paths), strict=True)}
    return [dataclasses.replace(run, name=names[run.path]) for run in runs]


def _path_ends(paths: Sequence[Path]) -> list[str]:
    """The ends of different paths by which they differ, of as few parts as that takes."""
    parts = [path.resolve().parts[1:] for path in paths]
    for length in range(1, 1 + max(map(len, parts))):
        ends = ["/".join(part[-length:]) for part in parts]
        if len(set(ends)) == len(ends):
            return ends
    return [str(path.resolve()) for path in paths]


def _difference(run: StoredRun, same: list[StoredRun]) -> str:
    """The settings in which a run differs from others of its label, as text to add to it."""
    names = ("window", "stride", "budget", "outline", "source", "split", "episode_list")
    words = [
        f"{name.replace('_', ' ')} {getattr(run.setting, name)}"
        for name in names
        if len({getattr(other.setting, name) for other in same}) > 1
    ]
    mine = dict(run.setting.others)
    for name in sorted({name for other in same for name, _ in other.setting.others}):
        if len({dict(other.setting.others).get(name) for other in same}) > 1:
            words.append(f"{name.replace('_', ' ')} {mine.get(name, 'none')}")
    if not words and len({other.seed for other in same}) > 1:
        words.append(f"seed {run.seed}")
    return "".join(f", {word}" for word in words)


def common_episodes(first: StoredRun, second: StoredRun) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the counted episodes that two runs share, int64 (K,) each, in the same order."""
    rows = {key: row for row, key in enumerate(second.keys())}
    pairs = [(row, rows[key]) for row, key in enumerate(first.keys()) if key in rows]
    both = np.asarray(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
