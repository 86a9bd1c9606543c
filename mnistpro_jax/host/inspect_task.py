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
from typing import Any, get_type_hints

from mnistpro_jax.host.attempts import Played, sit_through
from mnistpro_jax.host.contract import COUNTED, Failure, Message, Reader, Status, Turn, Usage
from mnistpro_jax.host.episode_log import EpisodeLog
from mnistpro_jax.host.glimpse import GlimpseSittings
from mnistpro_jax.host.ledger import Ledger
from mnistpro_jax.host.memory import UNBOUNDED
from mnistpro_jax.host.models import PARSERS
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.models.finish_reasons import meaning
from mnistpro_jax.host.parser import read_glimpse
from mnistpro_jax.host.prompts import DEFAULT
from mnistpro_jax.host.retries import Retries
from mnistpro_jax.host.run_glimpse import RunRequest, glimpses, shown_config
from mnistpro_jax.runs.inspect_logs import CONFIG, RECORD

try:
    from inspect_ai import Epochs, Task, task
    from inspect_ai._util.error import PrerequisiteError
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
    from inspect_ai.util import LimitExceededError
    from rich.markup import escape
except ImportError as error:
    raise ImportError('the Inspect task needs Inspect: pip install "mnistpro_jax[inspect]"') from error

_KINDS = {
    bool: "true or false",
    int: "a whole number",
    int | None: "a whole number",
    str: "text",
    str | None: "text",
}
_RETRIES = 5  # where nobody says how many, as in `mnistpro run`


@task
def mnist_pro(
    level: int = 1,
    memory: str = "image-only",
    horizon: str | int | None = None,
    episodes: str | int = "published",
    source: str = "mnist",
    split: str = "test",
    seed: int = 0,
    window: int = 64,
    stride: int = 32,
    budget: int | None = None,
    outline: bool = True,
    attempts: int = 3,
    retry: str = "repeat",
    warning: bool = True,
    detail: str | None = None,
    prompts: str = DEFAULT,
    enlarge: int = 1,
    system: str = "system",
    parser: str = "plain",
    votes: int = 1,
) -> Task:
    """MNIST-PRO as an Inspect task; a sample is an episode.

    horizon: pictures, or "all". episodes: "published", or how many to draw. votes: epochs whose answers vote for one
    answer an episode. Others as of ``run_glimpse.RunRequest``. Raises Inspect's PrerequisiteError, which it shows
    without a traceback, where they make no sense.
    """
    options = dict(locals())  # before anything else has a name: an option is declared above and nowhere else
    try:
        epochs = _whole("votes", options.pop("votes"))
        request = _request(options)
        sittings = glimpses(request)
    except (ValueError, OSError, ImportError) as error:
        raise PrerequisiteError(escape(f"mnist_pro: {error}")) from error
    world = sittings.world
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
        solver=explore(sittings, parser),
        scorer=exact(),
        epochs=Epochs(epochs, [vote()]) if epochs > 1 else None,
        metadata={CONFIG: shown_config(request, sittings.protocol, len(world))},
    )


def _request(options: dict[str, Any]) -> RunRequest:
    """The options of the task as those of ``mnistpro run``. Raises ValueError for a value of another kind."""
    horizon, episodes = options["horizon"], options["episodes"]
    given = {
        **options,
        "horizon": UNBOUNDED if horizon == "all" else horizon,
        "episodes": None if episodes == "published" else episodes,
    }
    kinds = get_type_hints(RunRequest)
    for name, value in given.items():
        # Inspect reads -T values as YAML; true is a whole number to Python, and none here.
        if not isinstance(value, kinds[name]) or (isinstance(value, bool) and kinds[name] is not bool):
            word = {"horizon": ", or 'all'", "episodes": ", or 'published'"}.get(name, "")
            raise ValueError(f"{name} is {options[name]!r}; expected {_KINDS[kinds[name]]}{word}")
    return RunRequest(model="inspect", **given)


def _whole(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}; expected a whole number, 1 or more")
    return value


@solver
def explore(sittings: GlimpseSittings, parser: str = "plain") -> Solver:
    """Play the sample's episode with the model that Inspect was given."""
    reader = functools.partial(
        PARSERS[parser],
        num_classes=sittings.world.env.num_classes,
        moves_allowed=not sittings.protocol.memory.full_image,
    )

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        policy = InspectPolicy(get_model(), reader)
        ledger = Ledger(retries=policy.retries)
        number = int(state.metadata["episode"])
        played = await sit_through(sittings.sit(number), policy, ledger, EpisodeLog(number))
        if policy.messages:
            state.messages = policy.messages
        if policy.output is not None:
            state.output = policy.output
        # Before anything is raised, so that the log knows how far the episode came, and why no further.
        state.metadata[RECORD] = played.record | _fault(ledger)
        _raise_faults(played, ledger)
        return state

    return solve


@scorer(metrics=[accuracy(), stderr()])
def exact() -> Scorer:
    """Whether all digits are right; the answer is kept for votes, coverage and steps for reading."""

    async def score(state: TaskState, target: Target) -> Score:
        record = state.metadata.get(RECORD)
        if record is None or record["correct"] is None:  # a limit of the sample, or --score-on-error
            raise RuntimeError("the episode did not come to its end, so that there is nothing to score")
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
        usage = Usage(told=False)
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


def _fault(ledger: Ledger) -> dict[str, Any]:
    """What the record of an episode says that a failed call cut off; Inspect's limits of a sample cancel it."""
    if ledger.fault is None or isinstance(ledger.fault.__cause__, LimitExceededError):
        return {}
    return {"status": Status.API_ERROR.value, "problem": str(ledger.fault)}


def _raise_faults(played: Played, ledger: Ledger) -> None:
    """What is no outcome becomes an error of the sample, with the error that Inspect knows where there is one."""
    if ledger.fault is not None:
        raise ledger.fault.__cause__ or ledger.fault
    if played.status not in COUNTED:
        raise RuntimeError(f"episode {played.episode}: {played.status}: {played.record['problem']}")
