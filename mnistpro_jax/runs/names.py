"""Names that tell stored runs apart."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from mnistpro_jax.runs.stored import StoredRun


def named_apart(runs: list[StoredRun]) -> list[StoredRun]:
    """Names that tell runs of one level apart: the setting, then what differs, then the end of the folder's path.

    The name of an unfinished run says so, so that every table and figure which names it does.
    """
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
    return [dataclasses.replace(run, name=names[run.path] + _mark(run)) for run in runs]


def _mark(run: StoredRun) -> str:
    missing = run.missing
    return f" ({missing.mark})" if missing is not None and missing.mark else ""


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
