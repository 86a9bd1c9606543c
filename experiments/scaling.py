"""How far does it scale? Steps a second against batch and devices, bytes an episode, time to a million episodes.

Measured: the environment alone with random moves, at every batch on the fewest devices, and on all numbers of devices
at the largest batch; and evaluations by agent. On a CPU the devices are pieces of the same cores
(``--xla_force_host_platform_device_count``): more devices than cores show what splitting costs, not what more hardware
brings. Calculated: what a roofline allows on machines that are not at hand, from the bytes of a step and from
bandwidths that are inputs, with the same formula applied to this machine beside what was measured on it.

    python -m experiments.scaling --quick
    python -m experiments.scaling --json > scaling.json
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

GIGA = 1e9
MILLION = 1_000_000


@dataclasses.dataclass(frozen=True)
class Machine:
    """Devices that are not at hand. bandwidth: of one device's memory, GB/s."""

    name: str
    devices: int
    bandwidth: float
    source: str


MACHINES = (
    Machine("8 x H100 SXM", 8, 3350, "NVIDIA's data sheet of the H100: 3.35 TB/s"),
    Machine("TPU v5e pod", 256, 819, "Google Cloud's page on TPU v5e: 256 chips of 819 GB/s"),
)


def main() -> int:
    """Measure and print."""
    args = _arguments()
    for name, values in (
        ("--batches", args.batches),
        ("--devices", args.devices),
        ("--episodes", [args.episodes]),
    ):
        if min(values) < 1:
            return _fail(f"{name} is {min(values)}; expected 1 or more")
    if args.seconds <= 0:
        return _fail(f"--seconds is {args.seconds:g}; expected more than 0")
    # Before JAX is imported. Other platforms than the CPU do not look at it.
    force = f"--xla_force_host_platform_device_count={max(args.devices)}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {force}".strip()
    try:
        report = measure(args)
    except ValueError as error:
        return _fail(str(error))
    print(json.dumps(report, indent=2)) if args.json else print_tables(report)
    return 0


def _fail(message: str) -> int:
    print(f"scaling: error: {message}", file=sys.stderr)
    return 2


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer of everything: under 3 minutes on two cores"
    )
    parser.add_argument("--level", type=int, default=1, help="digits (default: 1)")
    parser.add_argument(
        "--batches",
        type=int,
        nargs="+",
        metavar="N",
        help="environments side by side, on all devices together (default: 256 1024 8192 32768; quick: 1024 8192)",
    )
    parser.add_argument(
        "--devices",
        type=int,
        nargs="+",
        metavar="N",
        help="devices to split over (default: 1 2 4 8; quick: 1 2)",
    )
    parser.add_argument(
        "--agents",
        nargs="+",
        metavar="NAME",
        help="agents to evaluate, see `mnistpro agents` (default: random planner canvas; quick: random)",
    )
    parser.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help="episodes of a timed evaluation (default: 20000; quick: 20000)",
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="of a timed run of steps (default: 1; quick: 0.3)"
    )
    parser.add_argument(
        "--json", action="store_true", help="one JSON object on standard output, nothing else"
    )
    args = parser.parse_args()
    quick = args.quick
    args.batches = args.batches or ([1024, 8192] if quick else [256, 1024, 8192, 32768])
    args.devices = args.devices or ([1, 2] if quick else [1, 2, 4, 8])
    args.agents = args.agents or (["random"] if quick else ["random", "planner", "canvas"])
    args.episodes = 20_000 if args.episodes is None else args.episodes
    args.seconds = (0.3 if quick else 1.0) if args.seconds is None else args.seconds
    return args


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All figures, JSON-ready. Rates are medians of five rounds in which every configuration has its turn."""
    import jax

    from mnistpro_jax.registration import make

    if max(args.devices) > len(jax.local_devices()):
        raise ValueError(f"--devices is {max(args.devices)}; this machine has {len(jax.local_devices())}")
    if all(batch % min(args.devices) for batch in args.batches):
        raise ValueError(
            f"--batches are {args.batches}; expected one at least that {min(args.devices)} devices divide"
        )
    say(f"{jax.default_backend()}: {jax.local_devices()[0].device_kind}, {os.cpu_count()} cores")
    env, params = make(f"MnistPro-L{args.level}-v0", split="test")
    steps = measure_steps(env, params, args)
    bytes_ = measure_bytes(env, params, max(args.batches))
    bandwidth = measure_bandwidth()
    row = max((row for row in steps if row["devices"] == min(args.devices)), key=lambda row: row["batch"])
    report: dict[str, Any] = {
        "platform": jax.default_backend(),
        "device": jax.local_devices()[0].device_kind,
        "cores": os.cpu_count(),
        "jax": jax.__version__,
        "level": args.level,
        "steps": steps,
        "bytes": bytes_,
        "bandwidth_gb_per_s": round(bandwidth / GIGA, 1),
        "evaluations": [measure_evaluation(agent, args) for agent in args.agents],
    }
    here = Machine("this machine", row["devices"], bandwidth / GIGA, "x + 1 in place, on one device")
    report["estimates"] = [estimate(machine, bytes_, int(params.budget)) for machine in (here, *MACHINES)]
    report["estimates"][0]["measured_steps_per_s"] = row["steps_per_s"]
    return report


def measure_steps(env: Any, params: Any, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Steps a second of the environment with random moves and auto-reset."""
    import jax
    import numpy as np

    from mnistpro_jax.benchmark import rollout_of
    from mnistpro_jax.rollouts.sharding import episode_mesh, on_each_device, replicated, row_each

    runs: list[tuple[dict[str, Any], Callable[[int], None]]] = []
    fewest, largest = min(args.devices), max(args.batches)
    for devices in sorted(args.devices):
        mesh = episode_mesh(devices)
        everywhere = replicated(params, mesh)
        for batch in sorted(args.batches):
            if devices != fewest and batch != largest:
                continue
            if batch % devices:
                say(f"{batch} environments on {devices} devices: not a multiple, left out")
                continue

            def lanes(shared: Any, own: Any, batch: int = batch // devices) -> Any:
                params, steps = shared
                return rollout_of(env, batch, True, False, own, params, steps)

            program = jax.jit(on_each_device(lanes, mesh))
            keys = row_each(jax.random.split(jax.random.key(0), devices), mesh)
            shared = (everywhere, np.int32(1))
            began = time.perf_counter()
            compiled = program.lower(shared, keys).compile()
            seconds = time.perf_counter() - began
            say(f"{batch} environments on {devices} device(s): compiled in {seconds:.1f} s")

            def run(count: int, compiled: Any = compiled, params: Any = everywhere, keys: Any = keys) -> None:
                jax.block_until_ready(compiled((params, np.int32(count)), keys))

            row = {"devices": devices, "batch": batch, "compile_s": round(seconds, 1)}
            runs.append((row, run))
    counts = [_count(run, args.seconds) for _, run in runs]
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(5):
        for spent, count, (_, run) in zip(times, counts, runs, strict=True):
            spent.append(_seconds(run, count))
    for spent, count, (row, _) in zip(times, counts, runs, strict=True):
        row["steps_per_s"] = round(row["batch"] * count / statistics.median(spent))
    rows = [row for row, _ in runs]
    for row in rows:
        one = next(other for other in rows if other["batch"] == row["batch"])
        row["vs_fewest_devices"] = round(row["steps_per_s"] / one["steps_per_s"], 2)
    return rows


def _seconds(run: Callable[[int], None], count: int) -> float:
    began = time.perf_counter()
    run(count)
    return time.perf_counter() - began


def _count(run: Callable[[int], None], seconds: float) -> int:
    """How many steps fill so many seconds."""
    count = 1
    while (spent := _seconds(run, count)) < seconds / 4:
        count *= 2 if spent > seconds / 16 else 4
    return max(1, int(count * seconds / spent))


def measure_bytes(env: Any, params: Any, batch: int) -> dict[str, int]:
    """Bytes of an episode (state and observation, from their arrays), of the bank, and of a step.

    step_least: what one step of an environment cannot do without: the state read and written, the observation and the
    final observation written, and the words of the bank that the window lies on read. step_counted: what XLA counts as
    read and written by the operations of the compiled step, much of which stays in caches. working: what the compiled
    step holds beside its arguments. All but the bank are per environment.
    """
    import jax
    import jax.numpy as jnp

    from mnistpro_jax.env.bitmap import num_words

    keys = jax.random.split(jax.random.key(0), batch)
    observation, state = jax.jit(jax.vmap(env.reset, in_axes=(0, None)))(keys, params)
    moves = jnp.zeros(batch, jnp.int32)
    step = jax.jit(jax.vmap(env.step, in_axes=(0, 0, 0, None)), donate_argnums=1)
    compiled = step.lower(keys, state, moves, params).compile()
    memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
    size = functools.partial(jax.tree.reduce, lambda total, leaf: total + leaf.nbytes, initializer=0)
    state_bytes, observation_bytes = size(state) // batch, size(observation) // batch
    window_bytes = 4 * env.window * (num_words(env.window) + 1)
    return {
        "state": state_bytes,
        "observation": observation_bytes,
        "working": memory.temp_size_in_bytes // batch,
        "bank": params.bank.nbytes,
        "step_least": 2 * state_bytes + 2 * observation_bytes + window_bytes,
        "step_counted": round(cost["bytes accessed"] / batch),
    }


def measure_bandwidth(megabytes: int = 256) -> float:
    """Bytes a second of ``x + 1`` in place, read and written both counted; best of seven, on one device."""
    import jax
    import jax.numpy as jnp

    x = jnp.zeros(megabytes * 2**18, jnp.float32)
    add = jax.jit(lambda x: x + 1, donate_argnums=0)
    times = []
    x = jax.block_until_ready(add(x))
    for _ in range(7):
        began = time.perf_counter()
        x = jax.block_until_ready(add(x))
        times.append(time.perf_counter() - began)
    return 2 * x.nbytes / min(times)


def measure_evaluation(agent: str, args: argparse.Namespace) -> dict[str, Any]:
    """Episodes a second of an agent by name, and from it the time of a million; on the fewest and the most devices."""
    from mnistpro_jax.evaluation.evaluate import prepare
    from mnistpro_jax.evaluation.request import EvaluationRequest

    rows = {}
    for devices in sorted({min(args.devices), max(args.devices)}):
        request = EvaluationRequest(level=args.level, agent=agent, episodes=args.episodes, devices=devices)
        prepared = prepare(request)
        (confidence,) = prepared.confidences
        say(f"{agent} on {devices} device(s): compiling")
        # The timed run has the shapes of the first, and does not compile.
        chunk = min(args.episodes, 16 * prepared.batch * devices)
        prepared.play(confidence, 0, min(chunk, 64 * devices), chunk)
        began = time.perf_counter()
        played = prepared.play(confidence, 0, args.episodes, chunk)
        seconds = time.perf_counter() - began
        rate = args.episodes / seconds
        say(f"{agent} on {devices} device(s): {rate:,.0f} episodes/s")
        rows[str(devices)] = {
            "episodes_per_s": round(rate, 1),
            "steps_per_episode": round(float(played.statistics.steps.mean()), 2),
            "million_episodes_s": round(MILLION / rate, 1),
            "stored_bytes_per_episode": round(played.nbytes / len(played)),
        }
    return {"agent": agent, "confidence": confidence, "episodes": args.episodes, "devices": rows}


def estimate(machine: Machine, bytes_: dict[str, int], budget: int) -> dict[str, Any]:
    """Steps a second by the roofline: devices x bandwidth / bytes of a step.

    counted: if all that XLA counts goes to memory. least: if only what has to does. Episodes exchange nothing, so that
    devices add up. Starting kernels and what an agent calculates are left out: this is the environment alone.
    million_episodes_s: of random moves, which use up the budget; at the lower rate.
    """
    total = machine.devices * machine.bandwidth * GIGA
    lower, upper = total / bytes_["step_counted"], total / bytes_["step_least"]
    return {
        "machine": machine.name,
        "devices": machine.devices,
        "bandwidth_gb_per_s": round(machine.bandwidth, 1),
        "source": machine.source,
        "counted_steps_per_s": round(lower),
        "least_steps_per_s": round(upper),
        "million_episodes_s": round(MILLION * budget / lower, 4),
    }


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def print_tables(report: dict[str, Any]) -> None:
    """For people."""
    from rich.console import Console

    from mnistpro_jax.analysis.tables import plain_table

    console = Console(highlight=False)

    def table(names: list[str], rows: list[tuple[str, ...]]) -> None:
        console.print()
        console.print(
            plain_table([(name, "left" if not i else "right") for i, name in enumerate(names)], rows)
        )

    console.print(
        f"Level {report['level']}, {report['cores']} cores, {report['platform']} ({report['device']}), "
        f"jax {report['jax']}. Random moves, everything tracked, auto-reset, final observation kept."
    )
    table(
        ["devices", "batch", "steps/s", "x fewest", "compile"],
        [
            (
                str(row["devices"]),
                f"{row['batch']:,}",
                f"{row['steps_per_s']:,}",
                f"{row['vs_fewest_devices']:.2f}",
                f"{row['compile_s']:.1f} s",
            )
            for row in report["steps"]
        ],
    )
    table(
        [
            "agent",
            "devices",
            "episodes/s",
            "steps an episode",
            "a million episodes",
            "stored, bytes an episode",
        ],
        [
            (
                evaluation["agent"],
                devices,
                f"{row['episodes_per_s']:,.0f}",
                f"{row['steps_per_episode']:.2f}",
                _duration(row["million_episodes_s"]),
                f"{row['stored_bytes_per_episode']:,}",
            )
            for evaluation in report["evaluations"]
            for devices, row in evaluation["devices"].items()
        ],
    )
    bytes_ = report["bytes"]
    console.print(
        f"\nBytes an episode: {bytes_['state']:,} state, {bytes_['observation']:,} observation, "
        f"{bytes_['working']:,} working memory of a step. The bank: {bytes_['bank'] / 2**20:.0f} MiB on each device.\n"
        f"A step moves {bytes_['step_least']:,} bytes at least; XLA counts {bytes_['step_counted']:,}."
    )
    here = report["estimates"][0]
    console.print(
        "\nESTIMATE, which nobody has measured: steps/s = devices x bandwidth / bytes of a step, with all "
        "bytes that XLA\ncounts and with the least. The environment alone; a million episodes at the lower rate, each "
        "of the whole budget."
        f"\nThe same for this machine, whose rate is known: {here['measured_steps_per_s']:,} steps/s."
    )
    table(
        ["machine", "devices", "GB/s each", "steps/s, counted", "steps/s, least", "a million episodes"],
        [
            (
                row["machine"],
                str(row["devices"]),
                f"{row['bandwidth_gb_per_s']:,}",
                f"{row['counted_steps_per_s']:.2g}",
                f"{row['least_steps_per_s']:.2g}",
                _duration(row["million_episodes_s"]),
            )
            for row in report["estimates"]
        ],
    )
    for row in report["estimates"]:
        console.print(f"[dim]{row['machine']}: {row['source']}.[/dim]")


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.2g} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


if __name__ == "__main__":
    sys.exit(main())
