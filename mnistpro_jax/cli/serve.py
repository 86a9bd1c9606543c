"""What ``mnistpro serve`` does: its options, and a server that runs until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from types import FrameType

from mnistpro_jax.demo_server.faults import FAULTS, Fault, Faults
from mnistpro_jax.demo_server.server import HOST, MODEL, DemoServer, ServerSettings


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
    faults = parser.add_argument_group("faults on purpose")
    faults.add_argument(
        "--faults",
        type=_share,
        nargs="+",
        default=[],
        metavar="NAME=SHARE",
        help="shares of requests, 0 to 1, such as 429=0.1 drop=0.02; a name alone is all of them (default: none). "
        "Names: " + ", ".join(FAULTS),
    )
    faults.add_argument("--list-faults", action="store_true", help="say what each of them is, and end")
    faults.add_argument(
        "--retry-after",
        type=float,
        default=1.0,
        metavar="S",
        help="what a 429 asks for, seconds (default: 1)",
    )
    faults.add_argument(
        "--drip",
        type=float,
        default=60.0,
        metavar="S",
        help="what a reply takes that drips, seconds (default: 60)",
    )
    faults.add_argument(
        "--seed", type=int, default=0, metavar="S", help="of faults and latencies (default: 0)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM, then print the counters to standard output."""
    if arguments.list_faults:
        for fault, about in FAULTS.items():
            print(f"{fault:15} {about}")
        return 0
    if not 0 <= arguments.port <= 65535:
        raise ValueError(f"--port is {arguments.port}; expected 0 to 65535")
    names = [fault for fault, _ in arguments.faults]
    if len(set(names)) < len(names):
        raise ValueError("--faults names one fault twice")
    faults = Faults(
        dict(arguments.faults),
        retry_after=arguments.retry_after,
        drip=arguments.drip,
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


def _share(text: str) -> tuple[Fault, float]:
    name, equals, share = text.partition("=")
    try:
        return Fault(name), float(share) if equals else 1.0
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=SHARE with one of {', '.join(FAULTS)}"
        ) from None
