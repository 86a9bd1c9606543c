"""``mnistpro agents``: which agents there are."""

from __future__ import annotations

import argparse
import json
from typing import Any

from mnistpro_jax.analysis.tables import plain_table
from mnistpro_jax.cli.terminal import stdout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``mnistpro agents``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Run the command; returns its exit code."""
    # These load JAX (see ``mnistpro_jax.cli``).
    from mnistpro_jax.agents import agent_names, describe
    from mnistpro_jax.agents.registry import reads_with

    agents: list[dict[str, Any]] = [
        {"name": name, "description": describe(name), "reads_with": reads_with(name)}
        for name in agent_names()
    ]
    if arguments.json:
        print(json.dumps({"agents": agents}, indent=2))
        return 0
    rows = [(agent["name"], agent["reads_with"] or "nothing", agent["description"]) for agent in agents]
    columns = [("agent", "left"), ("reads with", "left"), ("what it does", "left")]
    console = stdout()
    console.print()
    console.print(plain_table(columns, rows))
    console.print(
        "[dim]bank: compares what it saw with every training image. network: a trained reader on all that was seen. "
        "memory: its own recurrent network.[/dim]"
    )
    return 0
