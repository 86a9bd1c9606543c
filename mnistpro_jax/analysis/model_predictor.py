"""A model behind an API as a predictor: it is shown a fused canvas and asked for the digits, as in the offline canvas.

Every answer is kept in a file as it comes, so that no picture is paid for twice.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mnistpro_jax.analysis.predictors import NOT_COUNTED, Digits, FixedCanvas
from mnistpro_jax.data.whole_file import named
from mnistpro_jax.host.contract import ANSWER, Decision, HostPolicy, Status, StopRun, Turn
from mnistpro_jax.host.models import choose_model
from mnistpro_jax.host.parser import read_glimpse
from mnistpro_jax.host.pictures import data_url, png
from mnistpro_jax.host.retries import Retries, with_retries

VERSION = 1
"""Raised whenever a model would be told something else."""
_RETRIES = Retries(most=5)
_MANY = "The picture shows part of {digits} handwritten digits (0 to 9 each), side by side, black on white."
_ONE = "The picture shows part of one handwritten digit (0 to 9), black on white."
_REST = (
    "Grey was never looked at and says nothing. Say from what is there which {what}, even where you are not sure. "
    'Reply with one JSON object: {{"action": "answer", "value": "{example}"}}, where the value is {value}.'
)


class ModelPredictor:
    """name: for people and for the file. policy: who is asked. answers: the file, one JSON object a line.

    concurrency: pictures asked for at a time. attempts: replies until one can be read.
    """

    def __init__(
        self, name: str, policy: HostPolicy, answers: Path, *, concurrency: int = 16, attempts: int = 3
    ) -> None:
        self.name = name
        self._policy = policy
        self._path = answers
        self._concurrency, self._attempts = concurrency, attempts
        self._kept = self._read_kept()

    def read(self, fixed: Sequence[FixedCanvas]) -> list[Digits | None]:
        """See ``predictors.Predictor``. Refusals and cut-off replies do not count.

        Raises ValueError where a call fails for good; what was answered until then, by the calls under way included, is
        kept. Raises OSError, before any call, where the file of answers cannot be written.
        """
        pictures = [png(one.picture()) for one in fixed]
        keys = [
            hashlib.sha256(f"{self.name} {VERSION} ".encode() + picture).hexdigest() for picture in pictures
        ]
        missing = {key: number for number, key in enumerate(keys) if key not in self._kept}
        if missing:
            self._path.open("a", encoding="utf-8").close()
            asyncio.run(self._ask(fixed, pictures, missing))
        return [self._kept[key] for key in keys]

    async def _ask(
        self, fixed: Sequence[FixedCanvas], pictures: Sequence[bytes], missing: dict[str, int]
    ) -> None:
        slots = asyncio.Semaphore(self._concurrency)
        failed: list[str] = []

        async def one(key: str, number: int) -> None:
            async with slots:
                if failed:
                    return
                # An exception here would close the client under the calls of the others, which are paid for.
                try:
                    decision = await self._decide(fixed[number], pictures[number], number)
                except StopRun as error:
                    failed.append(str(error))
                    return
            if decision.status in (Status.API_ERROR, Status.CANCELLED, Status.BUDGET_SPENT):
                failed.append(decision.problem or decision.status)
                return
            try:
                self._keep(key, decision)
            except OSError as error:
                failed.append(f"its answer cannot be kept in {self._path}: {error.strerror or error}")

        try:
            await asyncio.gather(*(one(key, number) for key, number in missing.items()))
        finally:
            await self._policy.close()
        if failed:
            raise ValueError(
                f"model {self.name!r} could not be asked ({failed[0]}); the same command goes on from here"
            )

    async def _decide(self, one: FixedCanvas, picture: bytes, number: int) -> Decision:
        for attempt in range(1, self._attempts + 1):
            turn = Turn(
                episode=number,
                step=0,
                budget=1,
                attempt=attempt,
                digits=one.level,
                messages=messages(one.level, picture),
                pictures=(picture,),
                digest="",
            )
            decision = await with_retries(functools.partial(self._policy.act, turn), _RETRIES, asyncio.sleep)
            if decision.status is not Status.UNPARSEABLE:
                break
        return decision

    def _keep(self, key: str, decision: Decision) -> None:
        counted = decision.status in (Status.OK, Status.UNPARSEABLE)
        answer = decision.answer if decision.action == ANSWER else None
        self._kept[key] = answer if counted else NOT_COUNTED
        line = {
            "picture": key,
            "model": self.name,
            "status": decision.status.value,
            "answer": answer,
            "text": decision.text,
            "input_tokens": decision.usage.input_tokens,
            "output_tokens": decision.usage.output_tokens,
        }
        with named(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def _read_kept(self) -> dict[str, Digits | None]:
        kept: dict[str, Digits | None] = {}
        if not self._path.is_file():
            return kept
        stored = self._path.read_bytes()
        whole, _, torn = stored.rpartition(b"\n")
        if torn:  # the process was killed while it wrote: that answer is asked for again
            self._path.write_bytes(whole + b"\n" if whole else b"")
        for number, line in enumerate(whole.split(b"\n"), start=1):
            try:
                entry: Any = json.loads(line) if line.strip() else None
                if entry is not None:
                    answer = entry["answer"]
                    counted = entry["status"] in (Status.OK, Status.UNPARSEABLE)
                    kept[entry["picture"]] = (
                        (None if answer is None else tuple(answer)) if counted else NOT_COUNTED
                    )
            except (ValueError, KeyError, TypeError):
                raise ValueError(
                    f"{self._path}, line {number}: no kept answer; is it another file?"
                ) from None
        return kept


def messages(level: int, picture: bytes) -> tuple[dict[str, Any], ...]:
    """What the model is told, in OpenAI's chat format. picture: a PNG file."""
    what = "digits they are, from left to right" if level > 1 else "digit it is"
    value = f"all {level} digits from left to right" if level > 1 else "the digit"
    first = _MANY.format(digits=level) if level > 1 else _ONE
    rules = f"{first} {_REST.format(what=what, value=value, example='?' * level)}"
    image = {"type": "image_url", "image_url": {"url": data_url(picture)}}
    return ({"role": "system", "content": rules}, {"role": "user", "content": [image]})


def model_predictor(
    text: str,
    answers: Path,
    *,
    base_url: str | None = None,
    key_variable: str | None = None,
    headers: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    concurrency: int = 16,
) -> ModelPredictor:
    """A model by its name, as ``mnistpro run --model`` has it. Raises as ``host.models.choose_model`` does."""
    choice = choose_model(
        text, base_url=base_url, key_variable=key_variable, headers=headers or None, query=query or None
    )
    if choice.chat is None:
        raise ValueError(
            f"model {text!r} is not behind an API; expected a reader or a model such as openai:NAME"
        )
    # With the SDK, which is an extra.
    from mnistpro_jax.host.models.openai_chat import OpenAIChatPolicy

    policy = OpenAIChatPolicy(choice.chat, functools.partial(read_glimpse, moves_allowed=False))
    return ModelPredictor(choice.full_name, policy, answers, concurrency=concurrency)
