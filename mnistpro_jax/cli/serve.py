"""What ``mnistpro serve`` does: its options, and a server that runs until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from types import FrameType

from mnistpro_jax.demo_server.faults import Faults
from mnistpro_jax.demo_server.server import HOST, MODEL, DemoServer, ServerSettings

_SHARES = {
    "fail-429": ("rate_limit", "HTTP 429 with retry-after"),
    "fail-500": ("server_error", "HTTP 500"),
    "drop": ("drop", "a connection that closes without a reply"),
    "torn": ("torn", "a reply whose JSON breaks off"),
    "empty": ("empty", "a reply without text"),
    "overlong": ("overlong", 'a reply cut off at its token limit (finish_reason "length")'),
    "refuse": ("refuse", "a refusal"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro serve``."""
    parser.add_argument(
        "--port", type=int, default=8765, metavar="P", help="0 for any free one (default: 8765)"
    )
    parser.add_argument(
        "--model-name", default=MODEL, metavar="NAME", help=f"the model that it serves (default: {MODEL})"
    )
    parser.add_argument(
        "--api-key",
        default=None,
        metavar="KEY",
        help="refuse requests without this key (default: any will do)",
    )
    parser.add_argument(
        "--no-images", dest="images", action="store_false", help="refuse requests with pictures"
    )
    slow = parser.add_argument_group("latency, log-normal")
    slow.add_argument(
        "--latency-median", type=float, default=0.0, metavar="S", help="seconds (default: 0, none)"
    )
    slow.add_argument(
        "--latency-sigma",
        type=float,
        default=0.0,
        metavar="X",
        help="of the logarithm (default: 0, constant)",
    )
    faults = parser.add_argument_group("faults on purpose, each a share of requests, 0 to 1 (default: 0)")
    for option, (name, text) in _SHARES.items():
        faults.add_argument(f"--{option}", dest=name, type=float, default=0.0, metavar="SHARE", help=text)
    faults.add_argument(
        "--retry-after",
        type=float,
        default=1.0,
        metavar="S",
        help="what a 429 asks for, seconds (default: 1)",
    )
    faults.add_argument(
        "--seed", type=int, default=0, metavar="S", help="of faults and latencies (default: 0)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM, then print the counters to standard output."""
    if not 0 <= arguments.port <= 65535:
        raise ValueError(f"--port is {arguments.port}; expected 0 to 65535")
    shares = {name: getattr(arguments, name) for name, _ in _SHARES.values()}
    faults = Faults(
        **shares,
        retry_after=arguments.retry_after,
        latency_median=arguments.latency_median,
        latency_sigma=arguments.latency_sigma,
        seed=arguments.seed,
    )
    settings = ServerSettings(
        port=arguments.port,
        model=arguments.model_name,
        api_key=arguments.api_key,
        images=arguments.images,
        faults=faults,
    )
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        try:
            server = DemoServer(settings)
        except OSError as error:
            raise ValueError(
                f"cannot listen on {HOST}:{arguments.port} ({error.strerror}); try another --port"
            ) from None
        print("mnistpro: compiling the reader ...", file=sys.stderr, flush=True)
        server.player.warm_up()
        with server:
            print(
                f"mnistpro: model {settings.model!r} at {server.base_url}, counters at "
                f"http://{HOST}:{server.port}/stats; Ctrl-C ends",
                file=sys.stderr,
                flush=True,
            )
            stopped.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    print(json.dumps(server.statistics.report(), indent=2))
    return 0
