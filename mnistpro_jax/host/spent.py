"""What a folder of ``mnistpro run`` has cost so far, from its logs: what was paid is there, whatever else was lost."""

from __future__ import annotations

from pathlib import Path

from mnistpro_jax.host.episode_log import decision_of, failure_of, read_log
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.prices import load_price
from mnistpro_jax.runs.run_folder import LOG, RUN, read_run


def spent_in(folder: Path, price_file: Path) -> float:
    """The cost of all replies in a folder's logs, at most; 0 for another folder, and without any tokens.

    Raises ValueError where the price file lacks the model, or a log cannot be read.
    """
    if not (folder / RUN).is_file():
        return 0.0
    events = [event for path in sorted((folder / LOG).glob("*.jsonl")) for event in read_log(path)]
    replies = [decision_of(event) for event in events if event["event"] == "turn"]
    failures = [failure_of(event) for event in events if event["event"] == "error"]
    if not any(one.usage.input_tokens or one.usage.output_tokens for one in (*replies, *failures)):
        return 0.0
    described = read_run(folder)
    config = described["config"]
    longest = [{**config, **changed}.get("max_tokens") or 0 for changed in ({}, *described["again"])]
    price = load_price(price_file, str(config.get("model")).partition(":")[2])
    ledger = Ledger(price=price, max_tokens=max(longest))
    for reply in replies:
        ledger.count(reply)
    for failure in failures:
        ledger.count_failure(failure)
    return ledger.spent_at_most
