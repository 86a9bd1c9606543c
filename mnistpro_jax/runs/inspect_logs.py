"""Logs of Inspect's with our task, read through Inspect's own API: every epoch of a log is a run.

The task leaves in its log what a run folder holds: the configuration (``CONFIG``, in the task's metadata) and the
record of each episode (``RECORD``, in the sample's). Model and settings of its calls are those that Inspect notes
itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mnistpro_jax.runs.logged import UNFINISHED, Found
from mnistpro_jax.runs.ours import check_setting, counted_of, host_setting
from mnistpro_jax.runs.stored import StoredRun

CONFIG = "mnistpro"
"""In the metadata of the task: the configuration, in the fields of ``run.json``."""
RECORD = "mnistpro_record"
"""In the metadata of a sample: its episode, in the format of ``runs.records``."""

_DATED = re.compile(r"\d{4}-\d\d-\d\dT.*\.json")
_NOT_READ = {"messages", "events", "store", "attachments"}
_NAMES = {"seed": "model_seed"}  # Inspect's, where `mnistpro run` has others
_NO_SETTINGS = frozenset(
    "max_retries timeout attempt_timeout stream_idle_timeout max_connections adaptive_connections batch cache "
    "cache_prompt fail_on_refusal extra_headers".split()
)
"""Fields of Inspect's configuration of calls that change nothing of what a model is asked."""


def is_log(path: Path) -> bool:
    """Whether a file is a log of Inspect's, by its name."""
    named = path.suffix == ".eval" or _DATED.fullmatch(path.name) is not None
    return named and not path.name.startswith(".") and path.is_file()


def current(paths: Iterable[Path]) -> list[Path]:
    """Those of these logs that are of our task, in their order, without those that a later one goes on with.

    What ``inspect eval-retry`` writes holds the finished samples of the log that it was given. A log that cannot be
    read is kept, for ``load`` to say so.
    """
    kept: list[tuple[Path, str | None]] = []
    newest: dict[str, tuple[str, Path]] = {}
    for path in paths:
        try:
            spec = _read(path, header_only=True).eval
        except ValueError:
            kept.append((path, None))
            continue
        if CONFIG in (spec.metadata or {}):
            kept.append((path, spec.task_id))
            newest[spec.task_id] = max(newest.get(spec.task_id, ("", path)), (spec.created, path))
    return [path for path, task in kept if task is None or newest[task][1] == path]


def load(path: Path) -> list[StoredRun]:
    """The runs in a log, by epoch. Samples that ended in an error do not count.

    Raises ValueError, naming the file, where it cannot be read, is no log of our task, or holds what cannot be, and
    where Inspect is not installed.
    """
    log = _read(path)
    config = (log.eval.metadata or {}).get(CONFIG)
    if not isinstance(config, dict):
        raise ValueError(f"{path} is a log of the task {log.eval.task!r}; expected one of mnist_pro")
    configuration = {"model": log.eval.model, **config, **_asked(log)}
    setting, seed, planned = host_setting(configuration, {}, path)
    epochs: dict[int, dict[int, Found]] = {1: {}} if not log.samples else {}
    for sample in log.samples or ():
        found = epochs.setdefault(sample.epoch, {})
        found[int(sample.id)] = f"{path}, sample {sample.id}, epoch {sample.epoch}", _record(sample)
    runs = []
    for epoch, found in sorted(epochs.items()):
        records, uncounted = counted_of(found)
        check_setting(records, setting, path)
        runs.append(
            StoredRun(
                name=setting.label,
                path=path / f"epoch-{epoch}" if len(epochs) > 1 else path,
                setting=setting,
                seed=seed,
                records=tuple(records),
                uncounted=uncounted,
                planned=planned,
                writer="inspect",
            )
        )
    return runs


def _record(sample: Any) -> dict[str, Any]:
    """The sample's episode, without an outcome where it has none, or was declared invalid."""
    record = sample.metadata.get(RECORD)
    if not isinstance(record, dict) or record.get("episode") != sample.id:
        record = {"episode": sample.id, "status": UNFINISHED, "correct": None}
    if sample.invalidation is not None:
        return {**record, "status": "invalidated", "correct": None}
    return record


def _asked(log: Any) -> dict[str, Any]:
    """How the model was asked, where that was said, in the names of ``mnistpro run``."""
    given = {
        **log.eval.model_generate_config.model_dump(exclude_none=True),
        **log.plan.config.model_dump(exclude_none=True),
    }
    return {_NAMES.get(name, name): value for name, value in given.items() if name not in _NO_SETTINGS}


def _read(path: Path, header_only: bool = False) -> Any:
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise ValueError(
            f'{path} is a log of Inspect, which is needed to read it: pip install "mnistpro_jax[inspect]"'
        ) from None
    try:
        return read_eval_log(str(path), header_only=header_only, exclude_fields=_NOT_READ)
    except OSError:
        raise
    except Exception as error:  # what a torn file raises hangs on where it is torn
        raise ValueError(f"{path}: Inspect cannot read it: {type(error).__name__}: {error}") from None
