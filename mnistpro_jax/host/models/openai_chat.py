"""Models behind OpenAI's chat completions, by the official SDK: OpenAI itself and every server that speaks like it.

The SDK keeps the connections and knows the format. When a call is over, what a failure means and whether it is made
again is ours (``failures``, ``host.retries``): the SDK's retries are off, and its time-outs as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.util
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from mnistpro_jax.host.contract import Reader, Status, StopRun, Turn
from mnistpro_jax.host.messages import count_pictures
from mnistpro_jax.host.models.chat import Reply, TextPolicy
from mnistpro_jax.host.models.chat_settings import NO_KEY, ChatSettings
from mnistpro_jax.host.models.completion import error_within, facts_of, read_completion
from mnistpro_jax.host.models.failures import Asked, Fault, failed, judged, seconds_asked
from mnistpro_jax.host.parser import read_glimpse

if TYPE_CHECKING:
    import openai

_EXTRA = 'the models behind an API need the official SDK: pip install "mnistpro_jax[api]"'


class OpenAIChatPolicy(TextPolicy):
    """A model behind chat completions."""

    def __init__(self, settings: ChatSettings, reader: Reader = read_glimpse) -> None:
        super().__init__(reader)
        self.settings = settings
        self._key = settings.key()
        self._headers = settings.header_values()
        self._client: openai.AsyncOpenAI | None = None
        sdk()

    def connected(self) -> openai.AsyncOpenAI:
        """The client of the SDK, made on first use."""
        # Made where it is used: connections belong to the loop that they were opened in.
        if self._client is None:
            self._client = client(self.settings, self._key, self._headers)
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def reply(self, turn: Turn) -> Reply:
        """One call. Raises StopRun where all further calls would fail as well."""
        return (await self.ask(turn, {}))[0]

    async def ask(self, turn: Turn, extra: Mapping[str, Any]) -> tuple[Reply, dict[str, Any] | None]:
        """One call with further fields: the reply, and the message as it came where it is a reply. Raises StopRun."""
        message: dict[str, Any] | None = None
        try:
            # Of the whole call: a server that sends a space now and then would never run into a limit of reading.
            async with asyncio.timeout(self.settings.timeout):
                completion = await self._completion(turn, extra)
            reply = self._reply_of(completion, turn)
            if reply.status == Status.OK:
                message = completion["choices"][0]["message"]
            return reply, message
        except TimeoutError:
            reply = failed(f"no whole reply within {self.settings.timeout:g} s (--timeout)", general=True)
        except sdk().APIStatusError as error:
            reply = judged(self._fault(error), self._asked(turn))
        except sdk().OpenAIError as error:
            reply = failed(self._no_connection(error), general=True)
        except UnicodeEncodeError as error:
            raise StopRun(f"a request cannot be sent: {self._without_secrets(str(error))}") from error
        except ValueError as error:  # a body that is no JSON
            reply = self._clean(failed(f"torn reply: {error}"))
        return reply, message

    async def _completion(self, turn: Turn, extra: Mapping[str, Any]) -> Any:
        # Not chat.completions.create: it walks through every part of every message and of the reply with its types,
        # which takes several times as long as all the rest of a call. This is the same request with the same errors,
        # and the reply as plain JSON.
        return await self.connected().post(
            "/chat/completions",
            cast_to=object,
            options={"headers": left_out(self._key, self._headers)},
            body={
                "model": self.settings.model,
                "messages": list(turn.messages),
                **self.settings.sampling(),
                **extra,
            },
        )

    def _reply_of(self, completion: Any, turn: Turn) -> Reply:
        try:
            fault = error_within(completion)
            if fault is not None:
                fault = dataclasses.replace(fault, said=self._without_secrets(fault.said))
                return dataclasses.replace(judged(fault, self._asked(turn)), **facts_of(completion))
            return self._clean(read_completion(completion))
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            said = self._without_secrets(str(completion))[:200]
            return failed(f"the reply is no chat completion ({error}): {said}")

    def _asked(self, turn: Turn) -> Asked:
        return Asked(self.settings.url, self.settings.model, count_pictures(turn.messages))

    def _fault(self, error: openai.APIStatusError) -> Fault:
        headers = error.response.headers
        again = headers.get("x-should-retry")
        return Fault(
            error.status_code,
            self._without_secrets(error.message) + proxy_hint(self.settings),
            str(error.code or ""),
            str(error.type or ""),
            seconds_asked(headers),
            again == "true" if again in ("true", "false") else None,
        )

    def _no_connection(self, error: openai.OpenAIError) -> str:
        cause = error.__cause__
        why = f" ({cause})" if cause is not None and str(cause) else ""
        said = self._without_secrets(f"{error}{why}")
        return f"no connection to {self.settings.url}: {said}{proxy_hint(self.settings)}"

    def _clean(self, reply: Reply) -> Reply:
        if reply.problem is None:
            return reply
        return dataclasses.replace(reply, problem=self._without_secrets(reply.problem))

    def _without_secrets(self, text: str) -> str:
        """Whatever a server echoes, without the key and the values of headers."""
        text = " ".join(text.split())
        for secret in (self._key, *self._headers.values()):
            if secret != NO_KEY:
                text = text.replace(secret, "[key]")
        return text


async def served_models(settings: ChatSettings) -> list[str]:
    """The models that a server lists. Raises ValueError where it lists none or cannot be reached."""
    key, headers = settings.key(), settings.header_values()
    connected = client(settings, key, headers)
    try:
        async with asyncio.timeout(settings.timeout):
            listed = connected.models.list(extra_headers=left_out(key, headers))
            return [model.id async for model in listed]
    except (sdk().APIConnectionError, TimeoutError):
        raise ValueError(
            f"no connection to {settings.url}; is the server running?{proxy_hint(settings)}"
        ) from None
    except sdk().OpenAIError as error:
        said = str(getattr(error, "message", error))
        for secret in (key, *headers.values()):
            said = said.replace(secret, "[key]") if secret != NO_KEY else said
        raise ValueError(f"{settings.url} does not list its models ({said}); name one in --model") from None
    finally:
        with contextlib.suppress(Exception):
            await connected.close()


def client(settings: ChatSettings, key: str, headers: Mapping[str, str]) -> openai.AsyncOpenAI:
    """A client of the SDK that does what it is told once. headers: with their values."""
    # The SDK's other transport: with many calls at a time its default one spends most of the processor.
    aiohttp = importlib.util.find_spec("aiohttp") is not None
    made: openai.AsyncOpenAI = sdk().AsyncOpenAI(
        api_key=key,
        base_url=settings.url,
        max_retries=0,
        timeout=None,
        default_headers=dict(headers) or None,
        default_query=dict(settings.query or {}) or None,
        http_client=sdk().DefaultAioHttpClient() if aiohttp else None,
    )
    return made


def left_out(key: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """The header that the SDK would send without a key: where others are given, it would be taken for a wrong one."""
    given = {name.lower() for name in headers}
    return {"Authorization": sdk().Omit()} if key == NO_KEY and given and "authorization" not in given else {}


def proxy_hint(settings: ChatSettings) -> str:
    """A word where a proxy of the environment stands between us and a server on this machine; "" elsewhere."""
    scheme, host = urlsplit(settings.url).scheme, urlsplit(settings.url).hostname or ""
    proxies = urllib.request.getproxies()
    found = proxies.get(scheme) or proxies.get("all")
    if not settings.is_local or not found or urllib.request.proxy_bypass(host):
        return ""
    return f". The environment sends requests to {host} through a proxy: set NO_PROXY={host}"


def sdk() -> Any:
    """The official SDK, imported where it is used. Raises ImportError that says how to install it."""
    try:
        import openai
    except ImportError:
        raise ImportError(_EXTRA) from None
    return openai
