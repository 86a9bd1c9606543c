"""The folder of a run that can be gone on with: what the run is, who is at work in it, and where its logs are.

DIR/run.json            what the run is; another configuration is refused, with the field named, from the first
                        reply on; also the settings that episodes were played with again, on purpose
DIR/log/0007.jsonl      an ``EventLog`` for each episode
DIR/pictures/SHA.png    every picture that was shown, once
DIR/episodes.jsonl, DIR/summary.json    as of ``mnistpro evaluate``, from the logs
DIR/.lock               held by the process that is running
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any, Self

from mnistpro_jax.runs.folder import EPISODES, PICTURES
from mnistpro_jax.runs.json_files import write_json
from mnistpro_jax.runs.log import LogError, read_events
from mnistpro_jax.runs.picture_store import PictureStore

RUN = "run.json"
LOG = "log"
_LOCK = ".lock"
_ANSWERED = ("turn", "call", "end")


class RunFolder:
    """The folder of a run, locked for this process. Use as a context manager.

    path: made where it does not exist. config: what the run is, JSON-ready, compared field by field with the
    folder's, where a reply has been logged under that. session: further facts of this call that may differ between
    sessions. may_change: fields that may differ from the folder's, because episodes are to be played again with them.

    pictures: those that were shown. changed: the fields that do differ, with their values. digest: of this
    configuration. digests: of all that the folder's episodes may have been played under.

    Raises LogError for a folder that holds another run, or none but other results, or that another process uses;
    OSError where it cannot be written.
    """

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        session: Mapping[str, Any],
        may_change: Collection[str] = (),
    ) -> None:
        self.path = path
        self.pictures = PictureStore(path / PICTURES)
        self.changed: dict[str, Any] = {}
        self._config = json.loads(json.dumps(config))
        self.digest = digest_of(self._config)
        self.digests = frozenset({self.digest})
        self._may_change = frozenset(may_change)
        self._session = dict(session)
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_dir():
            raise LogError(f"{self.path} is a file; expected a folder for the run")
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.path / _LOCK)
        try:
            self._open()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _open(self) -> None:
        described = self.path / RUN
        config, again, sessions = self._config, [], []
        if described.exists():
            before = read_run(self.path)
            sessions = before["sessions"]
            if has_replies(self.path) or has_results(self.path):
                config, again = before["config"], before["again"]
                self.changed = changes(config, self._config, described, self._may_change)
                if self.changed and self.changed not in again:
                    again = [*again, self.changed]
            elif before["config"] != self._config:
                # Nobody has answered yet: what was tried under other settings says nothing.
                for log in (self.path / LOG).glob("*.jsonl"):
                    log.unlink()
        else:
            others = sorted(entry.name for entry in self.path.iterdir() if entry.name != _LOCK)
            if others:
                raise LogError(
                    f"{self.path} holds other files ({', '.join(others[:3])}) and no {RUN}; choose an empty folder"
                )
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        sessions = [*sessions, {"started": now, **self._session}]
        stored = {"config": config, **({"again": again} if again else {}), "sessions": sessions}
        write_json(described, stored)
        self.digests = digests_of(stored)
        for name in (LOG, PICTURES):
            (self.path / name).mkdir(exist_ok=True)


def log_path(folder: Path, episode: int) -> Path:
    """Where the log of an episode is in a run's folder."""
    return folder / LOG / f"{episode:04d}.jsonl"


def read_run(folder: Path) -> dict[str, Any]:
    """What ``run.json`` of a folder says: {"config": ..., "again": [...], "sessions": [...]}. Raises LogError.

    again: fields, with their values, that were others when episodes were played again.
    """
    path = folder / RUN
    try:
        loaded = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise LogError(f"{folder} holds no {RUN}: it is no folder of `mnistpro run`") from None
    except ValueError as error:
        raise LogError(f"{path} is not a complete JSON object ({error})") from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("config"), dict):
        raise LogError(f"{path} does not say what the run is ('config')")
    again, sessions = (list(loaded.get(name) or []) for name in ("again", "sessions"))
    if not all(isinstance(one, dict) for one in again):
        raise LogError(f"{path} does not say what was played again ('again')")
    return {"config": loaded["config"], "again": again, "sessions": sessions}


def digest_of(config: Mapping[str, Any]) -> str:
    """SHA-256 of a configuration, 16 hexadecimal digits: what a log says it was played under."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:16]


def digests_of(stored: Mapping[str, Any]) -> frozenset[str]:
    """Digests of all configurations that ``run.json`` knows of."""
    config = stored["config"]
    return frozenset(digest_of({**config, **changed}) for changed in ({}, *stored.get("again", ())))


def has_replies(folder: Path) -> bool:
    """Whether anybody has answered in a run: from then on its configuration holds. Raises LogError for a broken log."""
    logs = sorted((folder / LOG).glob("*.jsonl"))
    return any(event["event"] in _ANSWERED for log in logs for event in read_events(log))


def has_results(folder: Path) -> bool:
    """Whether a folder lists episodes, which outlive their logs in a copy without these."""
    listed = folder / EPISODES
    return listed.is_file() and listed.stat().st_size > 0


def changes(
    before: Mapping[str, Any], now: Mapping[str, Any], path: Path, may_change: Collection[str] = ()
) -> dict[str, Any]:
    """The fields of a configuration that differ from the folder's, with their values now.

    Raises LogError, naming the first one, where others than ``may_change`` do.
    """
    found = {}
    for name in [*now, *(name for name in before if name not in now)]:
        if before.get(name) != now.get(name):
            if name in may_change:
                found[name] = now.get(name)
                continue
            was, is_ = (json.dumps(side.get(name)) for side in (before, now))
            raise LogError(
                f"{path.parent} holds a run with {name} = {was}, but this one has {name} = {is_}; use the same "
                f"settings to go on with it, or another folder (or remove {path.parent} to begin anew)"
            )
    return found


def _locked(path: Path) -> IO[bytes]:
    """The lock file, held until it is closed or the process ends, however it ends. Raises LogError if it is taken."""
    file = path.open("ab")
    try:
        if os.name == "nt":  # pragma: no cover - not tested here
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        raise LogError(
            f"{path.parent} is in use by another run; wait for it, or choose another folder"
        ) from None
    except BaseException:
        file.close()
        raise
    return file
