"""The options that say where a model's server is, and how it is told who asks: of every command that asks models."""

from __future__ import annotations

import argparse
from typing import Any


def add_server(parser: argparse._ActionsContainer) -> None:
    """Address, key, headers and parameters; ``server_of`` reads them."""
    parser.add_argument("--base-url", default=None, metavar="URL", help="the server, up to and with /v1")
    parser.add_argument(
        "--key-variable", default=None, metavar="NAME", help="the environment's variable that holds the key"
    )
    parser.add_argument(
        "--header",
        dest="headers",
        type=_pair,
        action=_Pairs,
        default=None,
        metavar="NAME=VARIABLE",
        help="a further header, with its value from the environment's VARIABLE; may come several times",
    )
    parser.add_argument(
        "--query",
        type=_pair,
        action=_Pairs,
        default=None,
        metavar="NAME=VALUE",
        help="a further parameter of the address, such as api-version=2025-01-01; may come several times",
    )


def server_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options as fields of ``RunRequest`` and arguments of ``model_predictor``."""
    return {name: getattr(arguments, name) for name in ("base_url", "key_variable", "headers", "query")}


class _Pairs(argparse.Action):
    """Collects NAME=VALUE pairs in a dict; a name that comes twice is refused."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option: Any = None) -> None:
        found = dict(getattr(namespace, self.dest) or {})
        name, value = values
        if name in found:
            raise argparse.ArgumentError(self, f"{name} comes twice")
        setattr(namespace, self.dest, {**found, name: value})


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not value.strip() or not text.isprintable():
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name.strip(), value.strip()
