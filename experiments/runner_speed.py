"""How fast are the drivers of host agents, and what does the runner itself cost a call?

    python -m experiments.runner_speed                 # about three minutes on two quiet cores
    python -m experiments.runner_speed --repeats 1 --json

64 episodes of 3 to 20 turns. A reply takes a log-normal time (median 50 ms, sigma 1), as paid models do: first by a
sleeping agent in the process, then through the official SDK from a server in a process of its own. All drivers play
the same episodes, one after the other, again and again; ratios are of medians. The runner's cost is what a call takes
beyond its latency: all that happens between two calls of an episode (step, picture, request, parser, log on disk).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mnistpro_jax import data
from mnistpro_jax.evaluation.request import EvaluationRequest
from mnistpro_jax.host import bridge, event_loop, lockstep, runner
from mnistpro_jax.host.contract import HostPolicy, Turn
from mnistpro_jax.host.episode_log import EpisodeFolder
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.heap import settled_heap
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.memory import memory_of
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.models.chat_settings import ChatSettings
from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy
from mnistpro_jax.host.prompts import load_pack
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.world import HostWorld, host_world
from tests.host.fake_server import FakeServer, chat, lognormal, turn_of

EPISODES = 64
MEDIAN, SIGMA = 0.05, 1.0
_MOVE = '{"action": "move", "direction": "%s"}'
_ANSWER = '{"action": "answer", "value": "7"}'


def length(episode: int) -> int:
    """Turns of an episode, 3 to 20, spread evenly."""
    return 3 + (7 * episode) % 18


def reply_to(turn: int, last: int) -> str:
    """Round and round until the last turn."""
    return _ANSWER if turn >= last else _MOVE % ("right", "down", "left", "up")[turn % 4]


class Sleeping(TextPolicy):
    """Replies after the time that a model would take."""

    def __init__(self, latency: Callable[[int], float]) -> None:
        super().__init__()
        self.latency = latency
        self.calls = 0

    async def reply(self, turn: Turn) -> Reply:
        number, self.calls = self.calls, self.calls + 1
        await asyncio.sleep(self.latency(number))
        return Reply(reply_to(turn.step + 1, length(turn.episode)))


class Marked(OpenAIChatPolicy):
    """Says in the request how long its episode shall be."""

    def __init__(self, settings: ChatSettings) -> None:
        super().__init__(settings)
        self.requests: list[Any] = []

    async def reply(self, turn: Turn) -> Reply:
        first, *others = turn.messages
        told = {**first, "content": f"{first['content']}\nlength={length(turn.episode)}"}
        self.requests.append([told, *others])
        return await super().reply(dataclasses.replace(turn, messages=(told, *others)))


def _serve(connection: Any, median: float, sigma: float) -> None:
    def respond(body: dict[str, Any], number: int) -> Any:
        last = int(body["messages"][0]["content"].rsplit("length=", 1)[1])
        return chat(reply_to(turn_of(body), last))

    latency = lognormal(median, sigma, 0) if median else 0.0
    with FakeServer(respond, latency, keep=False) as server:
        connection.send(server.url)
        connection.recv()
        connection.send(server.count)


@contextlib.contextmanager
def server_process(median: float = MEDIAN, sigma: float = SIGMA) -> Iterator[str]:
    """A server in a process of its own; gives its URL."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, median, sigma), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()


def talk_of(world: HostWorld) -> Protocol:
    """Image-only, four pictures: the published default."""
    return Protocol(world.rules, memory_of("image-only"), 4, load_pack())


def play(driver: str, world: HostWorld, policy: HostPolicy, concurrency: int) -> tuple[float, int]:
    """(seconds, calls) of all episodes, logs and pictures on disk."""
    # As `mnistpro run` plays them.
    with tempfile.TemporaryDirectory() as out, EpisodeFolder(Path(out), {}, {}) as folder, settled_heap():
        ledger, sittings = Ledger(), GlimpseSittings(world, talk_of(world))
        began = time.perf_counter()
        if driver == "bridge":
            played = bridge.play(
                sittings,
                policy,
                range(EPISODES),
                ledger=ledger,
                logs=folder.episode,
                concurrency=concurrency,
            )
        else:
            module = {"free": runner, "lockstep": lockstep}[driver]

            async def session() -> Any:
                try:
                    return await module.play(
                        sittings,
                        policy,
                        range(EPISODES),
                        ledger=ledger,
                        logs=folder.episode,
                        concurrency=concurrency,
                    )
                finally:
                    await policy.close()

            played = event_loop.run(session())
        took = time.perf_counter() - began
    for one in played:
        if one.status != "ok":
            raise SystemExit(f"episode {one.episode}: {one.status}: {ledger.fault or one.record['problem']}")
    return took, sum(one.record["calls"] for one in played)


def compare(
    make: Callable[[], HostPolicy], world: HostWorld, repeats: int, drivers: list[str]
) -> dict[str, Any]:
    """Median seconds by driver, interleaved."""
    times: dict[str, list[float]] = {driver: [] for driver in drivers}
    calls = 0
    for _ in range(repeats):
        for driver in drivers:
            took, calls = play(driver, world, make(), EPISODES)
            times[driver].append(took)
    medians = {driver: statistics.median(found) for driver, found in times.items()}
    ratios = [slow / fast for slow, fast in zip(times["lockstep"], times["free"], strict=True)]
    return {
        "calls": calls,
        "seconds": {driver: round(value, 2) for driver, value in medians.items()},
        "lockstep_over_free": round(statistics.median(ratios), 2),
        "bridge_over_free": round(medians["bridge"] / medians["free"], 2) if "bridge" in medians else None,
    }


def overhead(world: HostWorld, repeats: int) -> dict[str, float]:
    """Milliseconds that the runner takes a call, one episode at a time and 64, without any latency."""
    found = {}
    for concurrency in (1, EPISODES):
        wall, cpu = [], []
        for _ in range(repeats):
            before = time.process_time()
            took, calls = play("free", world, Sleeping(lambda number: 0.0), concurrency)
            cpu.append(1000 * (time.process_time() - before) / calls)
            wall.append(1000 * took / calls)
        found[f"wall_ms_at_{concurrency}"] = round(statistics.median(wall), 2)
        found[f"cpu_ms_at_{concurrency}"] = round(statistics.median(cpu), 2)
    return found


def beside_bare_sdk(world: HostWorld, repeats: int) -> dict[str, float]:
    """CPU milliseconds a call through the SDK, 64 at a time: the runner, and the same requests by the SDK alone."""
    settings: dict[str, Any] = {"provider": "openai-compatible", "model": "fake"}
    bare, run = [], []
    with server_process(0.0) as url:
        for _ in range(repeats):
            agent = Marked(ChatSettings(**settings, base_url=url))
            before = time.process_time()
            _, calls = play("free", world, agent, EPISODES)
            run.append(1000 * (time.process_time() - before) / calls)
            before = time.process_time()
            event_loop.run(_bare(url, agent.requests))
            bare.append(1000 * (time.process_time() - before) / calls)
    return {
        "runner_cpu_ms": round(statistics.median(run), 2),
        "sdk_alone_cpu_ms": round(statistics.median(bare), 2),
        "difference_ms": round(statistics.median(run) - statistics.median(bare), 2),
    }


async def _bare(url: str, requests: list[Any]) -> None:
    client = OpenAIChatPolicy(ChatSettings("openai-compatible", "fake", base_url=url))
    waiting = list(requests)

    async def worker() -> None:
        while waiting:
            messages = waiting.pop()
            await client.connected().post(
                "/chat/completions", cast_to=object, body={"model": "fake", "messages": messages}
            )

    await asyncio.gather(*(worker() for _ in range(EPISODES)))
    await client.close()


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement (default: 3)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    request = EvaluationRequest(level=1, episodes=EPISODES, seed=0)
    world = host_world(request, data.load("mnist", "test"))
    drivers = ["free", "lockstep", "bridge"]
    quick = lambda: Sleeping(lambda number: 0.0)  # noqa: E731
    for driver in drivers:  # compile
        play(driver, world, quick(), EPISODES)
    with server_process(0.0) as url:  # import
        play("free", world, Marked(ChatSettings("openai-compatible", "fake", base_url=url)), EPISODES)
    results: dict[str, Any] = {}
    results["sleeping agent"] = compare(
        lambda: Sleeping(lognormal(MEDIAN, SIGMA, 0)), world, arguments.repeats, drivers
    )
    with server_process() as url:
        settings = ChatSettings("openai-compatible", "fake", base_url=url)
        results["server through the SDK"] = compare(
            lambda: Marked(settings), world, arguments.repeats, ["free", "lockstep"]
        )
    results["runner, a call"] = overhead(world, arguments.repeats)
    results["runner beside the SDK, a call"] = beside_bare_sdk(world, arguments.repeats)
    if arguments.json:
        print(json.dumps(results, indent=2))
        return
    for name, found in results.items():
        print(f"{name}: {json.dumps(found)}")


if __name__ == "__main__":
    main()
