"""How a model behind an API is asked: whose server, with which key, and what every request holds."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

NO_KEY = "none"
"""In the place of a key: local servers want none, but the SDK wants a text."""

_NOT_EXTRA = {
    "n": "further choices are billed and not read (see --repeats)",
    "stream": "replies are read as a whole",
    "model": "--model names it",
    "messages": "the protocol says what is asked",
}


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
    environment's variable with the key, in place of the provider's. headers: the environment's variable with the value
    of each further header. query: further parameters of the address, such as Azure's ``api-version``. temperature,
    reasoning_effort, max_tokens, seed, extra_body: sent where they are given. timeout: seconds a whole call may take.
    """

    provider: str
    model: str
    base_url: str | None = None
    key_variable: str | None = None
    headers: Mapping[str, str] | None = None
    query: Mapping[str, str] | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None
    max_tokens: int | None = None
    seed: int | None = None
    extra_body: Mapping[str, Any] | None = None
    timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.provider not in PROVIDERS:
            raise ValueError(f"unknown provider {self.provider!r}; expected one of {', '.join(PROVIDERS)}")
        if not self.timeout > 0:
            raise ValueError(f"timeout is {self.timeout:g} s; expected more than 0")
        for name in sorted(set(self.extra_body or {}) & set(_NOT_EXTRA)):
            raise ValueError(f"extra body has {name!r}: {_NOT_EXTRA[name]}; leave it out")
        url = self.url
        # It is kept with the run, where no key belongs.
        if "@" in urlsplit(url).netloc or urlsplit(url).query:
            raise ValueError(
                "the base URL holds a user or a query; expected a plain one such as https://api.openai.com/v1, the key "
                "in the environment, and parameters as --query NAME=VALUE"
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
        found = _secret(variable) if variable is not None else ""
        if found:
            return found
        if variable is None or ((self.is_local or self.headers) and self.key_variable is None):
            return NO_KEY
        raise ValueError(
            f"no key: set the environment's variable {variable} to your key for {urlsplit(self.url).hostname} "
            "(or name another variable with --key-variable)"
        )

    def header_values(self) -> dict[str, str]:
        """The further headers, with their values from the environment. Raises ValueError for one that is not set."""
        found = {name: _secret(variable) for name, variable in (self.headers or {}).items()}
        for name, variable in (self.headers or {}).items():
            if not found[name]:
                raise ValueError(f"no value for the header {name}: set the environment's variable {variable}")
        return found

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


def _secret(variable: str) -> str:
    """A value from the environment, "" where it is not set. Raises ValueError for one that no header can hold."""
    found = os.environ.get(variable, "").strip()
    if found and not (found.isascii() and found.isprintable()):
        raise ValueError(
            f"the value of {variable} holds a letter or a line break that no key has; set it anew"
        )
    return found
