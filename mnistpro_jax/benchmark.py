"""``mnistpro bench``: steps a second, compile time and memory, beside the loop that people run today.

The environment runs as ``jit(while_loop(vmap(step)))`` with everything tracked and auto-reset on. The
observation is part of the loop's carry, so that it is written on every step (outside the carry a compiler may
drop it), and so is, in a second measurement, ``final_observation``. The statistics of every episode that ends, its
coverages among them, are computed and added up. Actions are moves drawn beforehand, so that
episodes last their whole budget; keys are (lane, step) pairs. A third measurement, with ``final_observation`` too,
draws actions uniformly, so that most end their episode, as when a training begins: 1.4 steps an episode at level 1.

The reference is a minimal Python loop of the published environment: one episode at a time, the picture drawn
with Pillow on every step. It is timed before, between and after the environment's measurements in the same
process, because the machine may be shared: compare the ratios.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

OBSERVATIONS = ("packed", "glimpse", "canvas", "canvas_full", "published")
BATCHES = (1, 64, 256, 1024, 8192)
# Larger carries than this are not measured: they show the memory, not the simulator.
MAX_CARRY_BYTES = 2**31


def measure(
    level: int,
    observations: tuple[str, ...],
    batches: tuple[int, ...],
    seconds: float,
    repeats: int,
    split: str,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """All figures as one JSON-ready dict. Rates are steps a second of wall time, medians of ``repeats``."""
    import jax

    import mnistpro_jax
    from mnistpro_jax.registration import make

    began = time.perf_counter()
    env, params = make(f"MnistPro-L{level}-v0", split=split)
    jax.block_until_ready(params.bank.tiles)
    bank_s = time.perf_counter() - began
    say(f"bank of {params.bank.num_tiles} canvases: {bank_s:.1f} s, {params.bank.nbytes / 2**20:.0f} MiB")

    loop = reference_loop(level)
    reference = [_reference_rate(loop, seconds)]
    modes: dict[str, Any] = {}
    for observation in observations:
        seen = dataclasses.replace(env, observation=observation, outline=observation == "published")
        rows: dict[str, Any] = {}
        for batch in batches:
            rows[str(batch)] = row = _measure_batch(seen, params, batch, seconds, repeats)
            if "skipped" in row:
                say(f"{observation:>11} x {batch:<5} skipped: {row['skipped']}")
                continue
            say(
                f"{observation:>11} x {batch:<5} {short_rate(row['steps_per_s'])} steps/s, with final observation "
                f"{short_rate(row['with_final_observation'])}, short episodes {short_rate(row['short_episodes'])}, "
                f"compile {row['compile_s']:.1f} s"
            )
        modes[observation] = {"bytes": _sizes(seen, params), "batches": rows}
        reference.append(_reference_rate(loop, seconds))
    report: dict[str, Any] = {
        "level": level,
        "device": {
            "platform": jax.default_backend(),
            "kind": jax.devices()[0].device_kind,
            "cpu": _processor(),
            "cores": os.cpu_count(),
        },
        "versions": {
            "python": platform.python_version(),
            "jax": jax.__version__,
            "mnistpro_jax": mnistpro_jax.__version__,
        },
        "bank": {"tiles": params.bank.num_tiles, "bytes": params.bank.nbytes, "build_s": round(bank_s, 2)},
        "reference_steps_per_s": round(statistics.median(reference)),
        "reference_runs": [round(value) for value in reference],
        "modes": modes,
    }
    for number, (mode, result) in enumerate(modes.items()):
        # The loop's speed just before and just after this mode: a shared machine changes over minutes.
        rate = statistics.mean(reference[number : number + 2])
        result["reference_steps_per_s"] = round(rate)
        measured = {batch: row for batch, row in result["batches"].items() if "steps_per_s" in row}
        for row in measured.values():
            row["vs_reference"] = round(row["steps_per_s"] / rate, 1)
            row["with_final_vs_reference"] = round(row["with_final_observation"] / rate, 1)
            row["short_vs_reference"] = round(row["short_episodes"] / rate, 1)
        if measured:
            # The headline of each mode: its best batch. ``packed`` is stated with final_observation in the carry.
            key = "with_final_vs_reference" if mode == "packed" else "vs_reference"
            report[f"{mode}_vs_reference"] = max(row[key] for row in measured.values())
            report[f"{mode}_with_final_vs_reference"] = max(
                row["with_final_vs_reference"] for row in measured.values()
            )
    return report


def _measure_batch(env: Any, params: Any, batch: int, seconds: float, repeats: int) -> dict[str, Any]:
    import jax
    import numpy as np

    sizes = _sizes(env, params)
    carry_bytes = batch * (2 * sizes["observation"] + sizes["state"])
    if carry_bytes > MAX_CARRY_BYTES:
        return {"skipped": f"the carry would be {carry_bytes / 2**30:.1f} GiB"}
    row: dict[str, Any] = {}
    runs = (
        ("steps_per_s", False, False),
        ("with_final_observation", True, False),
        ("short_episodes", True, True),
    )
    for name, keep_final, uniform in runs:
        key = jax.random.key(0)
        began = time.perf_counter()
        program = _rollout.lower(env, batch, keep_final, uniform, key, params, np.int32(1)).compile()
        if name == "steps_per_s":
            row["compile_s"] = round(time.perf_counter() - began, 2)
        steps = 1
        while True:  # find how many steps fill the time
            began = time.perf_counter()
            jax.block_until_ready(program(key, params, np.int32(steps)))
            elapsed = time.perf_counter() - began
            if elapsed > seconds / 4 or steps >= 1 << 24:
                break
            steps *= 2 if elapsed > seconds / 16 else 4
        steps = max(1, int(steps * seconds / elapsed))
        times = []
        for _ in range(repeats):
            began = time.perf_counter()
            jax.block_until_ready(program(key, params, np.int32(steps)))
            times.append(time.perf_counter() - began)
        row[name] = round(batch * steps / statistics.median(times))
    return row


def rollout_of(
    env: Any, batch: int, keep_final: bool, uniform: bool, key: Any, params: Any, steps: Any
) -> Any:
    """``steps`` steps of ``batch`` environments with random moves, or uniformly random actions; returns the carry."""
    import jax
    import jax.numpy as jnp

    from mnistpro_jax.env.types import Action

    if uniform:
        draw = jax.vmap(jax.vmap(env.action_space(params).sample))
        actions = draw(jax.random.split(key, (64, batch)))
    else:
        # Moves by the code of the action's kind, with digits that are not read.
        kinds = jax.random.randint(key, (64, batch), 0, 4, jnp.int32)
        digits = jnp.zeros((64, batch, env.num_digits), jnp.int32)
        actions = kinds if env.num_digits <= 2 else Action(kinds, digits)
    lanes = jnp.arange(batch, dtype=jnp.uint32)

    def body(step: jax.Array, carry: Any) -> Any:
        _, final, state, total, counts = carry
        # (lane, step) is a key of its own: no time is spent on splitting keys that only a reset would use.
        keys = jax.random.wrap_key_data(jnp.stack([lanes, jnp.full_like(lanes, step)], axis=1))
        observation, state, reward, terminated, truncated, info = jax.vmap(env.step, in_axes=(0, 0, 0, None))(
            keys, state, jax.tree.map(lambda leaf: leaf[step % 64], actions), params
        )
        if keep_final:
            final = info["final_observation"]
        done = terminated | truncated
        ended = jax.vmap(env.final_statistics, in_axes=(0, 0, None))(done, info["final_state"], params)
        counts = jax.tree.map(lambda sums, new: sums + jnp.sum(new, axis=0, dtype=sums.dtype), counts, ended)
        return observation, final, state, total + jnp.sum(reward), counts

    observation, state = jax.vmap(env.reset, in_axes=(0, None))(jax.random.split(key, batch), params)
    final = observation if keep_final else ()
    kinds_of = jax.eval_shape(jax.vmap(env.statistics, in_axes=(0, None)), state, params)
    counts = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape[1:], jnp.int32 if leaf.dtype == jnp.bool_ else leaf.dtype), kinds_of
    )
    carry = (observation, final, state, jnp.zeros((), jnp.float32), counts)
    return jax.lax.fori_loop(0, steps, body, carry)


class _Rollout:
    """``jax.jit(rollout_of)``, made on first use so that importing this module does not import jax."""

    @functools.cached_property
    def jitted(self) -> Any:
        import jax

        return jax.jit(rollout_of, static_argnums=(0, 1, 2, 3))

    def lower(self, *args: Any) -> Any:
        return self.jitted.lower(*args)


_rollout = _Rollout()


def _sizes(env: Any, params: Any) -> dict[str, int]:
    """Bytes of one observation and one state."""
    import jax

    shapes = jax.eval_shape(env.reset, jax.random.key(0), params)
    sizes = [sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)) for tree in shapes]
    return {"observation": sizes[0], "state": sizes[1]}


def reference_loop(level: int) -> Callable[[int], None]:
    """The published environment as a plain Python loop: ``loop(n)`` makes n steps of random moves.

    One episode at a time: the canvas as an array, the window moved and clamped, and on every step the picture
    of the benchmark (arXiv 2608.31022), drawn with Pillow and handed over as an array.
    """
    import numpy as np
    from PIL import Image, ImageDraw

    from mnistpro_jax import data
    from mnistpro_jax.worlds.published import canvas_of

    dataset = data.load("mnist", "test")
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(dataset.labels), (64, level))
    canvases = [canvas_of(dataset.images[pick]) for pick in picks]
    window, stride, width = 64, 32, 224 * level
    budget = ((width - window) // stride + 1) * ((224 - window) // stride + 1)
    moves = rng.integers(0, 4, 4096).tolist()
    deltas = ((0, -stride), (0, stride), (-stride, 0), (stride, 0))

    def draw(canvas: Any, x: int, y: int) -> Any:
        picture = Image.new("RGB", (width, 224), (128, 128, 128))
        glimpse = Image.fromarray(canvas).convert("RGB").crop((x, y, x + window, y + window))
        picture.paste(glimpse, (x, y))
        corners = (x, y, x + window, y + window)
        ImageDraw.Draw(picture).rectangle(corners, outline=(0, 229, 255), width=2)
        return np.asarray(picture)

    def loop(steps: int) -> None:
        step = budget
        canvas, x, y = canvases[0], 0, 0
        for number in range(steps):
            if step >= budget:
                canvas = canvases[int(rng.integers(len(canvases)))]
                rows, columns = np.nonzero(canvas == 0)
                pick = int(rng.integers(len(rows)))
                x = min(max(int(columns[pick]) - window // 2, 0), width - window)
                y = min(max(int(rows[pick]) - window // 2, 0), 224 - window)
                step = 0
                draw(canvas, x, y)
            dx, dy = deltas[moves[number % 4096]]
            x = min(max(x + dx, 0), width - window)
            y = min(max(y + dy, 0), 224 - window)
            step += 1
            draw(canvas, x, y)

    return loop


def _reference_rate(loop: Callable[[int], None], seconds: float) -> float:
    """Steps a second of the reference, median of three runs."""
    loop(50)
    began = time.perf_counter()
    loop(200)
    steps = max(200, int(200 * seconds / (time.perf_counter() - began)))
    rates = []
    for _ in range(3):
        began = time.perf_counter()
        loop(steps)
        rates.append(steps / (time.perf_counter() - began))
    return statistics.median(rates)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            for line in info:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def short_rate(value: float) -> str:
    """Steps a second, in short."""
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.1f} k"
