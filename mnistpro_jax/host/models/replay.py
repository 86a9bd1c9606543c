"""A stored run as a model: it says again what was said there, for free, and refuses another world."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mnistpro_jax.host.contract import ANSWER, MOVES, Decision, HostPolicy, Status, StopRun, Turn
from mnistpro_jax.host.episode_log import decision_of, read_log
from mnistpro_jax.host.world import HostWorld
from mnistpro_jax.runs import folder as names
from mnistpro_jax.runs.records import read_episodes
from mnistpro_jax.runs.run_folder import LOG, log_path


class ReplayPolicy(HostPolicy):
    """The replies of a folder of ``mnistpro run``, or the actions of one of ``mnistpro evaluate``.

    world: with which the records of ``evaluate`` are compared, which hold no digests. Raises FileNotFoundError where
    the folder holds neither.
    """

    def __init__(self, folder: Path, world: HostWorld | None = None) -> None:
        self.folder = folder
        self._world = world
        self._turns: dict[int, dict[tuple[int, int], dict[str, Any]]] = {}
        self._records: dict[int, dict[str, Any]] = {}
        if not (folder / LOG).is_dir():
            if not (folder / names.EPISODES).is_file():
                raise FileNotFoundError(
                    f"nothing to replay in {folder}: expected the folder of `mnistpro run` or `mnistpro evaluate`"
                )
            self._records = {record["episode"]: record for record in read_episodes(folder)}

    async def act(self, turn: Turn) -> Decision:
        """What was said on this turn."""
        return self._recorded(turn) if self._records else self._logged(turn)

    def forget(self, episode: int) -> None:
        """Drop the episode's log."""
        self._turns.pop(episode, None)

    def _logged(self, turn: Turn) -> Decision:
        if turn.episode not in self._turns:
            path = log_path(self.folder, turn.episode)
            events = [event for event in read_log(path) if event["event"] == "turn"]
            self._turns[turn.episode] = {(event["step"], event["attempt"]): event for event in events}
        event = self._turns[turn.episode].get((turn.step, turn.attempt))
        if event is None:
            return Decision(Status.CANCELLED, problem=f"{self.folder} does not go on after step {turn.step}")
        if event["observation"] != turn.digest:
            raise StopRun(
                f"episode {turn.episode} of {self.folder} saw something else at step {turn.step}: it is of other "
                "episodes or another world (level, window, stride, seed)"
            )
        return decision_of(event)

    def _recorded(self, turn: Turn) -> Decision:
        record = self._records.get(turn.episode)
        if record is None or turn.step >= len(record["actions"]):
            return Decision(Status.CANCELLED, problem=f"{self.folder} does not go on after step {turn.step}")
        if turn.step == 0 and self._world is not None:
            self._refuse_another_world(record, self._world)
        action = record["actions"][turn.step]
        if action in MOVES:
            return Decision(Status.OK, action)
        if action == ANSWER:
            return Decision(Status.OK, ANSWER, tuple(record["answer"]))
        return Decision(Status.UNPARSEABLE, problem="an invalid action")

    def _refuse_another_world(self, record: dict[str, Any], world: HostWorld) -> None:
        number = record["episode"]
        played = (record["source"], record["split"], list(record["indices"]), list(record["start_xy"]))
        dataset = world.dataset
        shown = (dataset.source, dataset.split, world.indices[number].tolist(), world.starts[number].tolist())
        if played != shown:
            raise StopRun(
                f"episode {number} of {self.folder} was played on images {played[2]} of {played[0]} {played[1]} from "
                f"{played[3]}; this run shows {shown[2]} of {shown[0]} {shown[1]} from {shown[3]}"
            )
