"""PPO of stable-baselines3 or of SBX on level 1: ``python -m experiments.trainers.sb3_ppo [--library sbx]``.

Both train over the Gymnasium vector adapter, the first in PyTorch, the second in JAX. Both stand on PyTorch, some
gigabytes that nothing else here needs. ``--install FOLDER`` makes an environment for them there, which sees the
packages of this one, and says how to run the script in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Any

import numpy as np

from experiments.trainers.curve import Curve, options

SETTINGS: dict[str, Any] = {
    "n_steps": 32,
    "batch_size": 1024,
    "n_epochs": 2,
    "learning_rate": 1e-3,
    "gamma": 0.97,
    "ent_coef": 0.02,
    "policy_kwargs": {"net_arch": [256, 128]},
}
LANES = 256
LIBRARIES = {"sb3": "stable-baselines3", "sbx": "SBX"}


def train(
    library: str,
    steps: int,
    evaluations: int,
    seed: int,
    curve: Curve,
    *,
    episodes: int = 1000,
    **changes: Any,
) -> None:
    """Train for so many steps; the curve gets a point, of so many test episodes, after each of ``evaluations`` parts.

    library: "sb3" or "sbx". changes: other settings for its PPO than ``SETTINGS``.
    """
    if library == "sbx":
        from sbx import PPO
    else:
        from stable_baselines3 import PPO

    from experiments.trainers.sb3_vec_env import Sb3VecEnv

    envs = Sb3VecEnv("MnistPro-L1-v0", LANES, split="train", observation="canvas")
    test = Sb3VecEnv("MnistPro-L1-v0", LANES, split="test", observation="canvas")
    test.seed(seed)
    settings = {**SETTINGS, **changes}
    at_once = settings["n_steps"] * LANES
    part = max(1, steps // evaluations // at_once) * at_once
    model: Any = PPO("MlpPolicy", envs, seed=seed, device="cpu", **settings)
    for number in range(1, evaluations + 1):
        model.learn(part, reset_num_timesteps=False)
        curve.add(number * part, *played(model, test, episodes))
    curve.finish()


def played(model: Any, envs: Any, episodes: int) -> tuple[float, float]:
    """(share of right answers, average steps) of the first episodes of as many lanes as it takes."""
    right: list[bool] = []
    steps: list[int] = []
    while len(right) < episodes:
        shown = envs.reset()
        running = np.ones(envs.num_envs, bool)
        while running.any():
            shown, _, done, infos = envs.step(model.predict(shown, deterministic=True)[0])
            for lane in np.flatnonzero(running & done):
                right.append(bool(infos[lane]["correct"]))
                steps.append(int(infos[lane]["steps"]))
            running &= ~done
    return float(np.mean(right)), float(np.mean(steps))


def install(folder: Path) -> None:
    """An environment with both libraries in ``folder``, over the packages of the running one."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    theirs = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    (theirs / "mnistpro_jax_parent.pth").write_text(
        sysconfig.get_path("purelib") + os.linesep, encoding="utf-8"
    )
    subprocess.run(
        [str(python), "-m", "pip", "install", "stable-baselines3", "sbx-rl", "gymnasium"], check=True
    )
    print(f"now: {python} -m experiments.trainers.sb3_ppo")


def main() -> int:
    """The command."""
    parser = options(__doc__.splitlines()[0], 1_000_000, "5 minutes")
    parser.add_argument("--library", choices=sorted(LIBRARIES), default="sb3", help="whose PPO")
    parser.add_argument(
        "--install", type=Path, default=None, metavar="FOLDER", help="make an environment and stop"
    )
    arguments = parser.parse_args()
    if arguments.install is not None:
        install(arguments.install)
        return 0
    name = LIBRARIES[arguments.library]
    try:
        curve = Curve(f"{name} PPO", arguments.out)
        train(arguments.library, arguments.steps, arguments.evaluations, arguments.seed, curve)
    except ModuleNotFoundError as error:
        print(
            f"error: {error.name} is not installed; run this script with --install FOLDER first",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
