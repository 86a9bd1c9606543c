"""The same runs as a task of Inspect: its providers, log viewer, ``eval-retry`` and epochs.

    inspect eval mnistpro_jax/mnist_pro --model openai/gpt-5 -T memory=textual -T episodes=20
    inspect eval mnistpro_jax/mnist_pro --model ... -T votes=5      # five epochs, the answers vote

Protocol, parser, world and scoring are those of ``mnistpro run``; Inspect asks the model and keeps the log. A fault of
the provider, a refusal or a reply cut off at its limit is an error of the sample (``inspect eval-retry`` plays it
anew), never a wrong answer. Needs the extra: pip install "mnistpro_jax[inspect]".
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from mnistpro_jax import data
from mnistpro_jax.evaluation.request import EvaluationRequest, check
from mnistpro_jax.host.attempts import Played, sit_through
from mnistpro_jax.host.contract import COUNTED, Failure, Message, Reader, Status, Turn, Usage
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.memory import UNBOUNDED, horizon_of, memory_of
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.models.finish_reasons import meaning
from mnistpro_jax.host.parser import read_glimpse
from mnistpro_jax.host.prompts import DEFAULT, load_pack
from mnistpro_jax.host.protocol import Protocol
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.world import host_world

try:
    from inspect_ai import Epochs, Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import (
        CachePolicy,
        ChatMessage,
        ChatMessageAssistant,
        ChatMessageSystem,
        ChatMessageUser,
        Content,
        ContentImage,
        ContentText,
        Model,
        ModelOutput,
        get_model,
    )
    from inspect_ai.model._generate_config import active_generate_config
    from inspect_ai.scorer import (
        Score,
        Scorer,
        ScoreReducer,
        Target,
        accuracy,
        score_reducer,
        scorer,
        stderr,
    )
    from inspect_ai.solver import Generate, Solver, TaskState, solver
except ImportError as error:
    raise ImportError('the Inspect task needs Inspect: pip install "mnistpro_jax[inspect]"') from error

_RECORD = "mnistpro_record"
_RETRIES = 5  # where nobody says how many, as in `mnistpro run`


@task
def mnist_pro(
    level: int = 1,
    memory: str = "image-only",
    horizon: str | int | None = None,
    episodes: str | int = "published",
    seed: int = 0,
    window: int = 64,
    stride: int = 32,
    attempts: int = 3,
    prompts: str = DEFAULT,
    votes: int = 1,
) -> Task:
    """MNIST-PRO as an Inspect task; a sample is an episode.

    horizon: pictures, or "all". episodes: "published", or how many to draw. votes: epochs whose answers vote for one
    answer an episode. Others as of ``mnistpro run``.
    """
    chosen = memory_of(memory)
    request = EvaluationRequest(
        level=level,
        agent="random",
        episodes=None if episodes == "published" else int(episodes),
        seed=seed,
        window=window,
        stride=stride,
        budget=1 if chosen.full_image else None,
    )
    check(request)
    world = host_world(request, data.load(request.source, request.split))
    wanted = UNBOUNDED if horizon == "all" else None if horizon is None else int(horizon)
    talk = Protocol(world.rules, chosen, horizon_of(chosen, wanted), load_pack(prompts), attempts)
    samples = [
        Sample(
            id=number,
            input=f"Episode {number} of MNIST-PRO level {level}, memory {memory}.",
            target="".join(map(str, world.labels(number))),
            metadata={"episode": number},
        )
        for number in range(len(world))
    ]
    return Task(
        dataset=MemoryDataset(samples, name=f"mnist-pro level {level}"),
        solver=explore(GlimpseSittings(world, talk)),
        scorer=exact(),
        epochs=Epochs(votes, [vote()]) if votes > 1 else None,
        metadata={"level": level, "memory": memory, "horizon": talk.horizon, "prompts": talk.prompts.digest},
    )


@solver
def explore(sittings: GlimpseSittings) -> Solver:
    """Play the sample's episode with the model that Inspect was given."""
    reader = functools.partial(
        read_glimpse,
        num_classes=sittings.world.env.num_classes,
        moves_allowed=not sittings.protocol.memory.full_image,
    )

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        policy = InspectPolicy(get_model(), reader)
        ledger = Ledger(retries=policy.retries)
        number = int(state.metadata["episode"])
        played = await sit_through(sittings.sit(number), policy, ledger, EpisodeLog(number))
        _raise_faults(played, ledger)
        if policy.messages:
            state.messages = policy.messages
        if policy.output is not None:
            state.output = policy.output
        state.metadata[_RECORD] = played.record
        return state

    return solve


@scorer(metrics=[accuracy(), stderr()])
def exact() -> Scorer:
    """Whether all digits are right; the answer is kept for votes, coverage and steps for reading."""

    async def score(state: TaskState, target: Target) -> Score:
        record = state.metadata[_RECORD]
        answer = None if record["answer"] is None else "".join(map(str, record["answer"]))
        return Score(
            value=1.0 if record["correct"] else 0.0,
            answer=answer,
            reason="invalid_response_format" if record["status"] == Status.UNPARSEABLE else None,
            metadata={
                name: record[name]
                for name in (
                    "ending",
                    "steps",
                    "revisits",
                    "stroke_coverage",
                    "area_coverage",
                    "windows",
                    "actions",
                )
            },
        )

    return score


@score_reducer(name="vote")
def vote() -> ScoreReducer:
    """The most frequent answer of an episode's epochs, and whether it is right; among equals, the first one given.

    Inspect's own ``mode`` takes the most frequent score, which is another thing.
    """

    def reduce(scores: list[Score]) -> Score:
        answers = [score.answer for score in scores]
        counts = collections.Counter(answer for answer in answers if answer is not None)
        winner = counts.most_common(1)[0][0] if counts else None
        return scores[answers.index(winner)]

    return reduce


class InspectPolicy(TextPolicy):
    """A model of Inspect. messages, output: the last request with its reply, for the log viewer."""

    def __init__(self, model: Model, reader: Reader = read_glimpse) -> None:
        super().__init__(reader)
        self._model = model
        self.messages: list[ChatMessage] = []
        self.output: ModelOutput | None = None
        self._failed = False

    @property
    def retries(self) -> Retries:
        """Of a reply that is a failure, as often as Inspect makes a call again that fails without one."""
        most = self._setting("max_retries")
        return Retries(most=_RETRIES if most is None else most)

    async def reply(self, turn: Turn) -> Reply:
        """One call through Inspect, with its retries, limits and cache."""
        request = as_inspect(turn.messages)
        self.output = output = await self._model.generate(request, cache=self._cache(turn))
        if output.choices:
            self.messages = [*request, output.message]
        reply = self._read_output(output)
        self._failed = reply.status == Status.API_ERROR
        return dataclasses.replace(reply, failure=Failure(passing=True)) if self._failed else reply

    @staticmethod
    def _read_output(output: ModelOutput) -> Reply:
        if not output.choices:
            return Reply("", status=Status.API_ERROR, problem=output.error or "no reply")
        usage = Usage()
        if output.usage is not None:
            usage = Usage(
                output.usage.input_tokens,
                output.usage.output_tokens,
                output.usage.input_tokens_cache_read or 0,
                output.usage.reasoning_tokens or 0,
            )
        if _is_refusal(output.message):
            return Reply(
                output.completion, usage, Status.REFUSED, f"the model refused: {output.completion[:200]}"
            )
        # Inspect says "unknown" for what its provider's adapter does not know, such as a failure within a reply.
        text = output.completion or ("called" if output.message.tool_calls else "")
        status, problem = meaning(output.stop_reason, text)
        return Reply(output.completion, usage, status, problem)

    def _cache(self, turn: Turn) -> bool | CachePolicy:
        """The user's cache, with the attempt as part of what is asked.

        A further attempt sends the same request; it is there to hear something else. So is a retry after a reply that
        was a failure, which Inspect has put into the cache by then.
        """
        wanted = self._setting("cache")
        if not wanted or self._failed:
            return False
        policy = wanted if isinstance(wanted, CachePolicy) else CachePolicy()
        scopes = {**policy.scopes, "mnistpro_attempt": str(turn.attempt)}
        return policy.model_copy(update={"scopes": scopes})

    def _setting(self, name: str) -> Any:
        """A field of the configuration that calls have, as ``Model.generate`` merges it; nothing public says it."""
        active = getattr(active_generate_config(), name)
        return getattr(self._model.config, name) if active is None else active


def _is_refusal(message: ChatMessageAssistant) -> bool:
    """Providers with a field of its own for refusals say "stop" for the reason; Inspect marks the text instead."""
    parts = [] if isinstance(message.content, str) else message.content
    return any(isinstance(part, ContentText) and bool(part.refusal) for part in parts)


def as_inspect(messages: Sequence[Message]) -> list[ChatMessage]:
    """The protocol's messages as Inspect's."""
    made: list[ChatMessage] = []
    for message in messages:
        content: Any = message["content"]
        if message["role"] == "system":
            made.append(ChatMessageSystem(content=content))
        elif message["role"] == "assistant":
            made.append(ChatMessageAssistant(content=content))
        else:
            parts: list[Content] = [
                ContentText(text=part["text"])
                if part["type"] == "text"
                else ContentImage(
                    image=part["image_url"]["url"], detail=part["image_url"].get("detail", "auto")
                )
                for part in content
            ]
            made.append(ChatMessageUser(content=parts))
    return made


def _raise_faults(played: Played, ledger: Ledger) -> None:
    """What is no outcome becomes an error of the sample, with the error that Inspect knows where there is one."""
    if ledger.fault is not None:
        raise ledger.fault.__cause__ or ledger.fault
    if played.status not in COUNTED:
        raise RuntimeError(f"episode {played.episode}: {played.status}: {played.record['problem']}")
