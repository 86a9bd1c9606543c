"""Episodes as a Minari data set, for offline reinforcement learning and imitation."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mnistpro_jax import data
from mnistpro_jax.adapters.optional import missing
from mnistpro_jax.env.environment import Environment, EnvParams
from mnistpro_jax.evaluation.evaluate import evaluate
from mnistpro_jax.evaluation.request import EvaluationRequest, Report
from mnistpro_jax.evaluation.world import world
from mnistpro_jax.registration import make_params, with_observation
from mnistpro_jax.rollouts.replay import replay
from mnistpro_jax.rollouts.rollout import Progress, Trajectories

if TYPE_CHECKING:
    from minari import MinariDataset


def export_minari(
    dataset_id: str,
    env: Environment,
    params: EnvParams,
    trajectories: Trajectories,
    *,
    flatten: bool = False,
    make_overrides: dict[str, Any] | None = None,
    algorithm_name: str | None = None,
    author: str | None = None,
    description: str | None = None,
    progress: Progress | None = None,
) -> MinariDataset:
    """Write episodes as a Minari data set and return it. ``minari.load_dataset(dataset_id)`` reads it back.

    dataset_id: Minari's "(namespace/)name-v0". env, params, trajectories, flatten: see ``replay.replay``; observations
    and actions are those of the Gymnasium adapter. make_overrides: the overrides of ``mnistpro_jax.make`` that name the
    data, such as {"split": "test"}, so that ``dataset.recover_environment()`` makes the same world. algorithm_name,
    author, description: Minari's metadata. Each step's info has the label, int32 (n,), and the images' numbers.

    Arrays are stored as they are, not as JPEG. Data sets lie in ``$MINARI_DATASETS_PATH``, else in
    ``~/.minari/datasets``. Nothing is left where writing fails or is interrupted.

    Raises ImportError without Minari; ValueError for an id that is no good or exists, and what ``replay`` raises.
    """
    minari = _minari()
    # Optional libraries, which the line above asks for.
    from minari.data_collector import EpisodeBuffer

    from mnistpro_jax.adapters.gymnasium import MnistProEnv

    if len(trajectories) == 0:
        raise ValueError("there are no episodes to export; expected 1 or more")
    shown = MnistProEnv(world=(env, params), flatten=flatten)
    shown.spec = _spec(env, params, flatten, make_overrides or {})

    def buffers() -> Iterator[Any]:
        for number, episode in enumerate(
            replay(env, params, trajectories, flatten=flatten, progress=progress)
        ):
            rows = len(episode.rewards) + 1
            yield EpisodeBuffer(
                id=number,
                observations=episode.observations,
                actions=episode.actions,
                rewards=episode.rewards,
                terminations=episode.terminations,
                truncations=episode.truncations,
                infos={
                    "label": np.repeat(episode.label[None], rows, axis=0),
                    "indices": np.repeat(episode.indices[None], rows, axis=0),
                },
            )

    folder = _new_folder(dataset_id)
    try:
        with warnings.catch_warnings():
            # Minari asks for an author, an address and more; a data set is complete without them.
            warnings.filterwarnings("ignore", category=UserWarning, module="minari")
            return minari.create_dataset_from_buffers(
                dataset_id,
                buffers(),
                env=shown,
                algorithm_name=algorithm_name,
                author=author,
                description=description,
                jpeg_encoding=False,
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def export_evaluation(
    dataset_id: str,
    request: EvaluationRequest,
    *,
    observation: str = "packed",
    flatten: bool = False,
    report: Report | None = None,
) -> MinariDataset:
    """Play the episodes of an evaluation with its agent, and write them; see ``export_minari``.

    request: one confidence at most. observation, flatten: what the data set shows, whatever the agent looks at.
    Raises what ``evaluation.evaluate`` and ``export_minari`` raise.
    """
    _new_folder(dataset_id)  # before hours of playing
    say = report or (lambda what, done, total: None)
    run = next(evaluate(request, report))
    env, bank = world(request, data.load(request.source, request.split))
    overrides: dict[str, Any] = {"source": request.source, "split": request.split}
    if request.episodes is None:
        overrides = {"episodes": "published"}
    return export_minari(
        dataset_id,
        with_observation(env, observation),
        make_params(env, bank, budget=request.budget),
        run.trajectories,
        flatten=flatten,
        make_overrides=overrides,
        algorithm_name=request.agent,
        description=f"MNIST-PRO level {request.level}, agent {request.agent}, {request.source} {request.split}, "
        f"seed {request.seed}",
        progress=lambda done, total: say("writing", done, total),
    )


def _new_folder(dataset_id: str) -> Path:
    """Where the data set will lie; ImportError without Minari, ValueError for an id that is no good or exists."""
    _minari()
    # As above.
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage.datasets_root_dir import get_dataset_path

    try:
        parse_dataset_id(dataset_id)
    except TypeError:  # Minari makes a number of the version, also where there is none
        raise ValueError(
            f"the Minari id {dataset_id!r} has no version; expected (namespace/)name-v0, such as '{dataset_id}-v0'"
        ) from None
    folder = Path(get_dataset_path(dataset_id))
    if folder.exists():
        raise ValueError(f"the Minari data set {dataset_id!r} exists already, in {folder}; choose another id")
    return folder


def _minari() -> Any:
    try:
        import h5py  # noqa: F401  (Minari's format; Minari itself asks for it only when it writes)
        import minari
    except ImportError as error:
        raise missing("minari and h5py", "minari") from error
    return minari


def _spec(env: Environment, params: EnvParams, flatten: bool, overrides: dict[str, Any]) -> Any:
    """Gymnasium's specification of the world, in values that go into a JSON file."""
    # Minari's own requirement, optional as it is.
    import gymnasium

    from mnistpro_jax.adapters.gymnasium import NAMESPACE

    env_id = f"MnistPro-L{env.num_digits}-v0"
    static = {name: getattr(env, name) for name in ("window", "stride", "observation", "start", "outline")}
    values = {
        name: np.asarray(getattr(params, name)).item()
        for name in ("budget", "move_reward", "correct_reward", "wrong_reward", "invalid_reward")
    }
    if env.start == "fixed":
        values["start_xy"] = np.asarray(params.start_xy).tolist()
    kwargs = {"env_id": env_id, "flatten": flatten, **static, **values, **overrides}
    return gymnasium.envs.registration.EnvSpec(
        id=f"{NAMESPACE}/{env_id}",
        entry_point="mnistpro_jax.adapters.gymnasium:MnistProEnv",
        kwargs=kwargs,
    )
