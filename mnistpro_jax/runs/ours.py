"""Run folders of our writers: ``episodes.jsonl`` with ``summary.json`` or ``run.json`` beside it.

``mnistpro evaluate --out`` says its settings in the summary, ``mnistpro run --out`` in ``run.json``. The latter's logs
know more than its ``episodes.jsonl`` where its process died, and all there is where it died early (``runs.logged``).
"""

from __future__ import annotations

import collections
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.runs.fields import Fields, check_windows
from mnistpro_jax.runs.folder import EPISODES, SUMMARY
from mnistpro_jax.runs.json_files import read_lines, read_object
from mnistpro_jax.runs.logged import UNFINISHED, Found, has_logs, with_logs
from mnistpro_jax.runs.records import check_record
from mnistpro_jax.runs.run_folder import RUN
from mnistpro_jax.runs.setting import OWN_MEMORY, Setting
from mnistpro_jax.runs.stored import StoredRun


def is_run(folder: Path) -> bool:
    """Whether this is such a folder."""
    return (folder / EPISODES).is_file() or has_logs(folder)


def load(folder: Path) -> StoredRun:
    """The run in a folder. Raises ValueError, naming file and field, where it cannot be read."""
    records, uncounted = _read_records(folder)
    summary = read_object(folder / SUMMARY) if (folder / SUMMARY).is_file() else {}
    if (folder / RUN).is_file():
        configuration = read_object(folder / RUN)
        setting, seed, planned = host_setting(configuration, summary, folder / RUN)
    elif summary:
        setting, seed, planned = _evaluate_setting(summary, folder / SUMMARY)
    else:
        raise ValueError(f"{folder} has neither {SUMMARY} nor {RUN}; the run's settings are in them")
    check_setting(records, setting, folder / EPISODES)
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


def _read_records(folder: Path) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """(counted episodes by number, number of others by status) of a folder."""
    listed: dict[int, Found] = {}
    for where, record in read_lines(folder / EPISODES) if (folder / EPISODES).is_file() else ():
        if not isinstance(record, dict) or type(record.get("episode")) is not int:
            check_record(record, where)
        if record["episode"] in listed:
            raise ValueError(f"{where}: episode {record['episode']} is there twice")
        listed[record["episode"]] = where, record
    return counted_of(with_logs(folder, listed))


def counted_of(found: Mapping[int, Found]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """(counted episodes by number, number of others by status). Raises ValueError for a record that cannot be."""
    counted: list[dict[str, Any]] = []
    uncounted: collections.Counter[str] = collections.Counter()
    for _, (where, record) in sorted(found.items()):
        if record.get("correct", "") is None:
            uncounted[str(record.get("status") or UNFINISHED)] += 1
            continue
        check_record(record, where)
        _check_values(record, where)
        counted.append(record)
    return counted, dict(uncounted)


def check_setting(records: Sequence[dict[str, Any]], setting: Setting, path: Path) -> None:
    """Raise ValueError, naming ``path``, for a counted record that is of another world than the run's."""
    for record in records:
        get = Fields(record, path, f"episode {record['episode']}")
        if record["level"] != setting.level:
            raise get.wrong("level", f"{setting.level}, as the run's settings say")
        check_windows(record["windows"], setting.window, setting.level, get)


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
    *("model", "level", "memory", "horizon", "window", "stride", "budget", "outline", "source", "split"),
    *("episode_list", "episodes", "seed", "repeat", "order_seed", "harness"),
)
_WORDS = "prompts_sha256"  # shortened: it is there to tell packs apart


def host_setting(
    configuration: dict[str, Any], summary: dict[str, Any], path: Path
) -> tuple[Setting, int | None, int | None]:
    """(setting, seed, planned episodes) of a run of ``mnistpro run``; what its configuration leaves out may be in its
    summary. path: where the configuration is from.
    """
    again = configuration.get("again")
    configuration = configuration.get("config", configuration)
    if not isinstance(configuration, dict):
        raise ValueError(f"{path}: field 'config' is no object")
    get = Fields({**summary, **configuration}, path)
    episodes = configuration.get("episodes")
    others = [
        (name, str(value)[:8] if name == _WORDS else value if isinstance(value, str) else json.dumps(value))
        for name, value in configuration.items()
        if name not in _SAME_SETTING and value is not None
    ]
    if again:
        # Some of its episodes were played with other settings: it is a repeat of no run that was played in one way.
        others.append(("again", json.dumps(again)))
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
        harness=str(get.values.get("harness", "turns")),
        others=tuple(sorted(others)),
    )
    planned = episodes if isinstance(episodes, int) else None
    return setting, configuration.get("seed"), planned
