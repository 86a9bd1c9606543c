"""Models behind OpenAI's chat completions, by the official SDK: OpenAI itself and every server that speaks like it.

The SDK does what a client has to do: connections, time-outs, and its own retries of what may pass (429 with
Retry-After, 5xx, lost connections). This module only says what a failure that is left means for a run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mnistpro_jax.host.contract import Reader, Status, StopRun, Turn, Usage, sendable
from mnistpro_jax.host.messages import count_pictures
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.models.finish_reasons import meaning
from mnistpro_jax.host.parser import read_glimpse

if TYPE_CHECKING:
    import openai

_EXTRA = 'the models behind an API need the official SDK: pip install "mnistpro_jax[api]"'
_NO_KEY = "none"  # local servers want none, but the SDK wants a text


@dataclasses.dataclass(frozen=True)
class Provider:
    """Where a provider's models are. key: the environment's variable with the key, None where none is needed.

    base_url: None where the user has to say. limit: the name of the field that limits a reply's tokens.
    """

    about: str
    key: str | None
    base_url: str | None
    limit: str = "max_tokens"


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        "OpenAI", "OPENAI_API_KEY", "https://api.openai.com/v1", limit="max_completion_tokens"
    ),
    "openrouter": Provider("OpenRouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1"),
    "gemini": Provider(
        "Google", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai/"
    ),
    "anthropic": Provider("Anthropic", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1/"),
    "ollama": Provider("a local Ollama", None, "http://localhost:11434/v1"),
    "vllm": Provider("a local vLLM", None, "http://localhost:8000/v1"),
    "openai-compatible": Provider("any other server, with --base-url", "MNISTPRO_API_KEY", None),
}
"""By the name that stands before the colon in --model."""


@dataclasses.dataclass(frozen=True)
class ChatSettings:
    """How a model is asked.

    provider: a key of ``PROVIDERS``. model: as the provider names it. base_url: of another server. key_variable: the
    environment's variable with the key, in place of the provider's. temperature, reasoning_effort, max_tokens, seed,
    extra_body: sent where they are given. retries: of the SDK. timeout: seconds a call may take.
    """

    provider: str
    model: str
    base_url: str | None = None
    key_variable: str | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra_body: Mapping[str, Any] | None = None
    retries: int = 5
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            raise ValueError(f"unknown provider {self.provider!r}; expected one of {', '.join(PROVIDERS)}")
        url = self.url
        # It is kept with the run, where no key belongs.
        if "@" in urlsplit(url).netloc or urlsplit(url).query:
            raise ValueError(
                "the base URL holds a user or a query; expected a plain one such as https://api.openai.com/v1, and the "
                "key in the environment"
            )
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ValueError(f"base URL is {url!r}; expected one such as https://api.openai.com/v1")

    @property
    def url(self) -> str:
        """The server's base URL. Raises ValueError where there is none."""
        found = self.base_url or PROVIDERS[self.provider].base_url
        if found is None:
            raise ValueError(
                f"a model of {self.provider!r} needs --base-url, such as http://localhost:8000/v1"
            )
        return found

    @property
    def is_local(self) -> bool:
        """Whether the server is this machine."""
        return urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")

    def key(self) -> str:
        """The key from the environment. Raises ValueError where a key is needed and missing."""
        provider = PROVIDERS[self.provider]
        variable = self.key_variable or provider.key
        found = os.environ.get(variable, "").strip() if variable is not None else ""
        if found and not found.isascii():
            raise ValueError(f"the key in {variable} holds a letter that no key has; set it anew")
        if found:
            return found
        if variable is None or (self.is_local and self.key_variable is None):
            return _NO_KEY
        raise ValueError(
            f"no key: set the environment's variable {variable} to your key for {urlsplit(self.url).hostname} "
            "(or name another variable with --key-variable)"
        )

    def sampling(self) -> dict[str, Any]:
        """The fields of a request beside model and messages."""
        fields = {
            "temperature": self.temperature,
            "reasoning_effort": self.reasoning_effort,
            PROVIDERS[self.provider].limit: self.max_tokens,
            "seed": self.seed,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return {**given, **(self.extra_body or {})}


class OpenAIChatPolicy(TextPolicy):
    """A model behind chat completions."""

    def __init__(self, settings: ChatSettings, reader: Reader = read_glimpse) -> None:
        super().__init__(reader)
        self.settings = settings
        self._key = settings.key()
        self._client: openai.AsyncOpenAI | None = None
        self._answered = False
        sdk()

    def connected(self) -> openai.AsyncOpenAI:
        """The client of the SDK, made on first use."""
        # Made where it is used: connections belong to the loop that they were opened in.
        if self._client is None:
            # The SDK's other transport: with many calls at a time its default one spends most of the processor.
            aiohttp = importlib.util.find_spec("aiohttp") is not None
            self._client = sdk().AsyncOpenAI(
                api_key=self._key,
                base_url=self.settings.url,
                max_retries=self.settings.retries,
                timeout=self.settings.timeout,
                http_client=sdk().DefaultAioHttpClient() if aiohttp else None,
            )
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def reply(self, turn: Turn) -> Reply:
        """One call. Raises StopRun where all further calls would fail as well."""
        try:
            # Not chat.completions.create: it walks through every part of every message and of the reply with its types,
            # which takes several times as long as all the rest of a call. This is the same request with the same
            # retries and errors, and the reply as plain JSON.
            completion = await self.connected().post(
                "/chat/completions",
                cast_to=object,
                body={
                    "model": self.settings.model,
                    "messages": list(turn.messages),
                    **self.settings.sampling(),
                },
            )
        except sdk().OpenAIError as error:
            return self._failure(error, count_pictures(turn.messages))
        except UnicodeEncodeError as error:
            raise StopRun(f"a request cannot be sent: {self._clean(str(error))}") from error
        except ValueError as error:  # a body that is no JSON
            return Reply("", status=Status.API_ERROR, problem=self._clean(f"torn reply: {error}"))
        try:
            found = _read(completion)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            said = self._clean(str(completion))[:200]
            return Reply(
                "", status=Status.API_ERROR, problem=f"the reply is no chat completion ({error}): {said}"
            )
        self._answered = True
        if found.problem is not None:
            found = dataclasses.replace(found, problem=self._clean(found.problem))
        return found

    def _failure(self, error: openai.OpenAIError, pictures: int) -> Reply:
        """What an error that is left after the SDK's retries means."""
        api = sdk()
        said = self._clean(getattr(error, "message", None) or str(error))
        code = str(getattr(error, "code", None) or "")
        status = getattr(error, "status_code", None)
        where, model = self.settings.url, self.settings.model
        if isinstance(error, api.AuthenticationError | api.PermissionDeniedError):
            raise StopRun(f"{where} refused the key or the access to model {model!r} ({status}): {said}")
        if isinstance(error, api.NotFoundError):
            raise StopRun(f"{where} knows no model {model!r}, or no such address ({status}): {said}")
        if "insufficient_quota" in (code, getattr(error, "type", None)) or status == 402:
            raise StopRun(f"the quota at {where} is used up ({status}): {said}")
        if "content_filter" in code or "content_policy" in code or "moderation" in code:
            return Reply("", status=Status.REFUSED, problem=said)
        if code == "context_length_exceeded":
            # Every longer episode would end here, on every try.
            raise StopRun(
                f"a request is longer than {model!r} takes ({status}): {said}. Use a memory or horizon with fewer "
                "pictures"
            )
        if isinstance(status, int) and 400 <= status < 500 and status not in (408, 409, 425, 429):
            about_pictures = any(
                word in said.lower() for word in ("image", "vision", "multimodal", "picture", "modalit")
            )
            if about_pictures:
                raise StopRun(
                    f"{where} does not take the {pictures} picture(s) of a request to {model!r} ({status}): {said}. "
                    "Use a model that sees, or a memory or horizon with fewer pictures"
                )
            if not self._answered:
                raise StopRun(f"{where} refused the request ({status}): {said}")
            return Reply("", status=Status.API_ERROR, problem=f"{status}: {said}")
        if isinstance(error, api.APIConnectionError) and not self._answered:
            cause = error.__cause__
            why = self._clean(f" ({cause})" if cause is not None and str(cause) else "")
            raise StopRun(f"no connection to {where}: {said}{why}")
        return Reply("", status=Status.API_ERROR, problem=said if status is None else f"{status}: {said}")

    def _clean(self, text: str) -> str:
        """Never the key, whatever a server echoes."""
        text = " ".join(text.split())
        return text.replace(self._key, "[key]") if self._key != _NO_KEY else text


def _read(completion: Any) -> Reply:
    """A completion as a reply. Raises what reading a thing of another shape raises."""
    choice = completion["choices"][0]
    message = choice["message"]
    text = sendable(_text_of(message.get("content")))
    used = completion.get("usage") or {}
    asked = _count(used.get("prompt_tokens"))
    # Some servers count what the model thought in the total alone; without the request's part nothing follows from it.
    rest = _count(used.get("total_tokens")) - asked if asked else 0
    usage = Usage(
        asked,
        max(_count(used.get("completion_tokens")), rest),
        _count((used.get("prompt_tokens_details") or {}).get("cached_tokens")),
        _count((used.get("completion_tokens_details") or {}).get("reasoning_tokens")),
    )
    finish = choice.get("finish_reason")
    details = {
        "id": completion.get("id"),
        "model": completion.get("model"),
        "finish": finish,
        # Not in the standard; several servers send what the model thought in one of these.
        "reasoning": message.get("reasoning_content") or message.get("reasoning"),
    }
    kept = {name: value for name, value in details.items() if isinstance(value, str) and value}
    if message.get("refusal"):
        return Reply(text, usage, Status.REFUSED, str(message["refusal"]), kept)
    if choice.get("error") or completion.get("error"):
        said = " ".join(str(choice.get("error") or completion.get("error")).split())[:200]
        return Reply(text, usage, Status.API_ERROR, f"the provider failed within its reply: {said}", kept)
    called = bool(message.get("tool_calls") or message.get("function_call"))
    status, problem = meaning(finish, text or ("called" if called else ""))
    return Reply(text, usage, status, problem, kept)


def _text_of(content: Any) -> str:
    """The text of a message: itself, or its parts of text joined. TypeError for anything else."""
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    if content is not None and not isinstance(content, str):
        raise TypeError(f"content is {content!r:.80}")
    return content or ""


def _count(value: Any) -> int:
    """A number of tokens as a server says it; 0 where it says none."""
    try:
        return max(0, int(value))
    except (TypeError, ValueError, OverflowError):
        return 0


async def served_models(settings: ChatSettings) -> list[str]:
    """The models that a server lists. Raises ValueError where it lists none or cannot be reached."""
    client = sdk().AsyncOpenAI(
        api_key=settings.key(), base_url=settings.url, max_retries=settings.retries, timeout=settings.timeout
    )
    try:
        return [model.id async for model in client.models.list()]
    except sdk().APIConnectionError:
        raise ValueError(f"no connection to {settings.url}; is the server running?") from None
    except sdk().OpenAIError as error:
        said = str(getattr(error, "message", error)).replace(settings.key(), "[key]")
        raise ValueError(f"{settings.url} does not list its models ({said}); name one in --model") from None
    finally:
        with contextlib.suppress(Exception):
            await client.close()


def sdk() -> Any:
    """The official SDK, imported where it is used. Raises ImportError that says how to install it."""
    try:
        import openai
    except ImportError:
        raise ImportError(_EXTRA) from None
    return openai
