"""How fast is the Gymnasium vector adapter, and what does it cost on top of the jitted step?

    python -m experiments.adapter_speed
    python -m experiments.adapter_speed --ap-gym-python OTHER/bin/python --json

Side by side in one run, in rounds, so that a shared machine slows all of them alike; ratios are medians over rounds:

- ours: ``gymnasium.make_vec`` over the jitted step, level 1, in same-step and next-step mode;
- Pillow: the published environment as a plain Python loop that draws its picture with Pillow, as many of them as
  environments under Gymnasium's SyncVectorEnv (with and without its copy of the observations);
- ap_gym: its vectorised MNIST environment on random images, where it is installed, or in the environment of
  ``--ap-gym-python``.

Actions are random moves, so that episodes last their whole budget; all environments reset themselves. The overhead
compares ``envs.step`` with ``jit(vmap(env.step))`` whose observation, reward and flags are fetched to numpy.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

LEVEL_1 = "mnistpro_jax/MnistPro-L1-v0"


# ---- What is compared -----------------------------------------------------------------------------------------


def adapter(num_envs: int, mode: str, observation: str, copy: bool) -> Any:
    """The vector environment, reset."""
    import gymnasium

    import mnistpro_jax.adapters.gymnasium

    assert mnistpro_jax.adapters.gymnasium.NAMESPACE in LEVEL_1
    envs = gymnasium.make_vec(
        LEVEL_1, num_envs=num_envs, split="test", autoreset_mode=mode, observation=observation, copy=copy
    )
    envs.reset(seed=0)
    return envs


def stepper(envs: Any, actions: np.ndarray) -> Callable[[int], None]:
    """``run(n)``: n calls of ``envs.step``."""
    turn = 0

    def run(calls: int) -> None:
        nonlocal turn
        for _ in range(calls):
            envs.step(actions[turn % len(actions)])
            turn += 1

    return run


def raw_stepper(envs: Any, actions: np.ndarray) -> Callable[[int], None]:
    """``run(n)``: n calls of the plain jitted step of the same world, its outputs fetched to numpy."""
    import jax
    import jax.numpy as jnp

    world = envs.unwrapped.world
    env, params, num_envs = world.env, world.params, envs.num_envs

    def step(state: Any, words: Any, turn: Any, action: Any, params: Any) -> Any:
        keys = jax.random.wrap_key_data(
            jnp.stack([words[:, 0], words[:, 1] + turn], axis=1), impl="threefry2x32"
        )
        observation, state, reward, terminated, truncated, info = jax.vmap(env.step, (0, 0, 0, None))(
            keys, state, action, params
        )
        return state, turn + jnp.uint32(1), (observation, reward, terminated, truncated), info

    step = jax.jit(step, donate_argnums=0)
    words = jnp.asarray(np.random.default_rng(0).integers(2**32, size=(num_envs, 2), dtype=np.uint32))
    keys = jax.random.wrap_key_data(words, impl="threefry2x32")
    _, state = jax.jit(jax.vmap(env.reset, (0, None)))(keys, params)
    turn = jnp.zeros((), jnp.uint32)

    def run(calls: int) -> None:
        nonlocal state, turn
        for _ in range(calls):
            state, turn, shown, _ = step(state, words, turn, actions[run.calls % len(actions)], params)
            jax.device_get(jax.block_until_ready(shown))
            run.calls += 1

    run.calls = 0
    return run


def pillow_envs(num_envs: int, copy: bool) -> Any:
    """As many Pillow loops under SyncVectorEnv, reset."""
    import gymnasium
    from PIL import Image, ImageDraw

    from mnistpro_jax import data
    from mnistpro_jax.worlds.published import canvas_of

    dataset = data.load("mnist", "test")
    canvases = [canvas_of(dataset.images[row : row + 1]) for row in range(64)]
    window, stride, side, budget = 64, 32, 224, 36
    deltas = ((0, -stride), (0, stride), (-stride, 0), (stride, 0))

    class PillowEnv(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0, 255, (side, side, 3), np.uint8)
        action_space = gymnasium.spaces.Discrete(14)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.index = int(self.np_random.integers(len(canvases)))
            rows, columns = np.nonzero(canvases[self.index] == 0)
            pick = int(self.np_random.integers(len(rows)))
            self.x = min(max(int(columns[pick]) - window // 2, 0), side - window)
            self.y = min(max(int(rows[pick]) - window // 2, 0), side - window)
            self.steps = 0
            return self.draw(), {}

        def step(self, action: Any) -> Any:
            self.steps += 1
            if action >= 4:
                right = action - 4 == dataset.labels[self.index]
                return self.draw(), 10.0 if right else -10.0, True, False, {}
            dx, dy = deltas[action]
            self.x = min(max(self.x + dx, 0), side - window)
            self.y = min(max(self.y + dy, 0), side - window)
            return self.draw(), -0.1, False, self.steps >= budget, {}

        def draw(self) -> Any:
            x, y = self.x, self.y
            picture = Image.new("RGB", (side, side), (128, 128, 128))
            glimpse = (
                Image.fromarray(canvases[self.index]).convert("RGB").crop((x, y, x + window, y + window))
            )
            picture.paste(glimpse, (x, y))
            ImageDraw.Draw(picture).rectangle((x, y, x + window, y + window), outline=(0, 229, 255), width=2)
            return np.asarray(picture)

    envs = gymnasium.vector.SyncVectorEnv([PillowEnv] * num_envs, copy=copy)
    envs.reset(seed=0)
    return envs


def ap_gym_stepper(num_envs: int) -> Callable[[int], None]:
    """ap_gym's vectorised MNIST environment with its default configuration, on random images."""
    import ap_gym
    from ap_gym.envs import image, image_classification

    class RandomImages(image.ImageClassificationDataset):
        def __init__(self) -> None:
            super().__init__()
            rng = np.random.default_rng(0)
            self.pictures = rng.integers(0, 256, (10_000, 28, 28), dtype=np.uint8)
            self.classes = rng.integers(0, 10, 10_000)

        def _get_length(self) -> int:
            return len(self.classes)

        def _get_num_classes(self) -> int:
            return 10

        def _get_num_channels(self) -> int:
            return 1

        def _get_data_point_batch(self, idx: Any) -> Any:
            return self.pictures[idx], self.classes[idx]

    config = image.ImagePerceptionConfig(dataset=RandomImages())
    envs = ap_gym.ActiveClassificationVectorLogWrapper(
        image_classification.ImageClassificationVectorEnv(num_envs, config)
    )
    envs.reset(seed=0)
    envs.action_space.seed(0)
    action = envs.action_space.sample()

    def run(calls: int) -> None:
        for _ in range(calls):
            envs.step(action)

    return run


# ---- Measuring ------------------------------------------------------------------------------------------------


def rate(run: Callable[[int], None], num_envs: int, seconds: float) -> float:
    """Steps a second over about ``seconds``."""
    calls, began = 0, time.perf_counter()
    block = 1
    while True:
        run(block)
        calls += block
        elapsed = time.perf_counter() - began
        if elapsed >= seconds:
            return num_envs * calls / elapsed
        block = max(1, min(64, int(calls * (seconds - elapsed) / elapsed / 2)))


class OtherPython:
    """``ap_gym_stepper`` in another interpreter, measured on demand."""

    def __init__(self, python: str, num_envs: int) -> None:
        command = [python, __file__, "--serve-ap-gym", "--num-envs", str(num_envs)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.line()

    def rate(self, seconds: float) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return float(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        if not text:
            raise RuntimeError("the other interpreter ended; it needs ap_gym, pillow and aiohttp")
        return text

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)


def serve_ap_gym(num_envs: int) -> None:
    """Answer each line of seconds on standard input with a rate."""
    run = ap_gym_stepper(num_envs)
    run(2)
    print("ready", flush=True)
    for line in sys.stdin:
        print(rate(run, num_envs, float(line)), flush=True)


def overhead(
    run: Callable[[int], None], raw: Callable[[int], None], pairs: int, calls: int
) -> dict[str, float]:
    """Extra time of ``run`` over ``raw``, from ``pairs`` blocks of ``calls``, alternating and in both orders.

    By the wall clock, and by the processor time of all threads, which other processes disturb less: medians of the
    ratios of neighbours.
    """
    clocks = {"wall": time.perf_counter, "cpu": time.process_time}
    times: dict[Any, dict[str, list[float]]] = {one: {name: [] for name in clocks} for one in (run, raw)}
    for pair in range(pairs):
        for one in (run, raw) if pair % 2 else (raw, run):
            began = {name: clock() for name, clock in clocks.items()}
            one(calls)
            for name, clock in clocks.items():
                times[one][name].append((clock() - began[name]) / calls)
    report = {
        "step_us": statistics.median(times[run]["wall"]) * 1e6,
        "raw_us": statistics.median(times[raw]["wall"]) * 1e6,
    }
    for name in clocks:
        ratios = [ours / plain for ours, plain in zip(times[run][name], times[raw][name], strict=True)]
        report[f"overhead_{name}"] = statistics.median(ratios) - 1
    return report


def measure(options: argparse.Namespace) -> dict[str, Any]:
    num_envs = options.num_envs
    actions = np.random.default_rng(0).integers(4, size=(64, num_envs)).astype(np.int64)
    runs: dict[str, Callable[[float], float]] = {}
    report: dict[str, Any] = {"num_envs": num_envs, "observation": options.observation}

    say("ours: building the bank, compiling")
    batches = {
        f"ours, {mode}{'' if copy else ', no copy'}": adapter(num_envs, mode, options.observation, copy)
        for mode, copy in (("SameStep", True), ("SameStep", False), ("NextStep", True))
    }
    for name, envs in batches.items():
        run = stepper(envs, actions)
        run(3)
        runs[name] = lambda seconds, run=run: rate(run, num_envs, seconds)
    raw = raw_stepper(batches["ours, SameStep"], actions.astype(np.int32))
    raw(3)
    for name in ("ours, SameStep", "ours, SameStep, no copy"):
        say(f"overhead: {name}")
        report[f"overhead: {name}"] = overhead(stepper(batches[name], actions), raw, options.pairs, 20)

    for copy in (True, False):
        say("Pillow loops")
        run = stepper(pillow_envs(num_envs, copy), actions)
        run(1)
        runs[f"Pillow, SyncVectorEnv{'' if copy else ', no copy'}"] = lambda seconds, run=run: rate(
            run, num_envs, seconds
        )
    other = None
    if options.ap_gym_python:
        other = OtherPython(options.ap_gym_python, num_envs)
        runs["ap_gym, vector"] = other.rate
    else:
        try:
            run = ap_gym_stepper(num_envs)
        except ImportError:
            say("ap_gym is not installed: left out (see --ap-gym-python)")
        else:
            run(2)
            runs["ap_gym, vector"] = lambda seconds: rate(run, num_envs, seconds)

    rates: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(options.rounds):
        say(f"round {number + 1} of {options.rounds}")
        for name, run in runs.items():
            rates[name].append(run(options.seconds))
    if other is not None:
        other.close()
    report["steps_per_s"] = {name: statistics.median(values) for name, values in rates.items()}
    ours = rates["ours, SameStep"]
    report["ours_over"] = {
        name: statistics.median([mine / theirs for mine, theirs in zip(ours, values, strict=True)])
        for name, values in rates.items()
        if not name.startswith("ours")
    }
    return report


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def show(report: dict[str, Any]) -> None:
    print(
        f"{report['num_envs']} environments, level 1, observation {report['observation']!r}, random moves\n"
    )
    print(f"{'':28}{'steps/s':>12}{'ours / it':>11}")
    for name, value in report["steps_per_s"].items():
        ratio = report["ours_over"].get(name)
        print(f"{name:28}{value:12,.0f}" + (f"{ratio:11.1f}" if ratio else ""))
    print(
        f"\n{'overhead on the raw step':28}{'step us':>12}{'raw us':>11}{'overhead':>11}{'by CPU time':>13}"
    )
    for name, row in report.items():
        if name.startswith("overhead: "):
            print(
                f"{name.removeprefix('overhead: '):28}{row['step_us']:12,.0f}{row['raw_us']:11,.0f}"
                f"{row['overhead_wall']:11.1%}{row['overhead_cpu']:13.1%}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--num-envs", type=int, default=1024, help="environments side by side")
    parser.add_argument("--observation", default="packed", help="observation mode of ours")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one measurement, seconds")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the median counts")
    parser.add_argument("--pairs", type=int, default=60, help="pairs of blocks of 20 calls for the overhead")
    parser.add_argument("--ap-gym-python", help="Python interpreter of an environment with ap_gym")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    parser.add_argument("--serve-ap-gym", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.num_envs < 1 or options.rounds < 1 or options.pairs < 1 or options.seconds <= 0:
        parser.error("--num-envs, --rounds and --pairs must be 1 or more, --seconds more than 0")
    if options.serve_ap_gym:
        serve_ap_gym(options.num_envs)
        return
    report = measure(options)
    if options.json:
        print(json.dumps(report))
    else:
        show(report)


if __name__ == "__main__":
    main()
