"""The client of an OpenAI-compatible server: one completion, with retries, learnt parameters and counted tokens.

Only this module imports `openai`, and only when something is asked. Nothing is read from the environment but the proxy
settings that every HTTP client honours.
"""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from heal_core.answer import Answer, Usage, read_answer, told_usage
from heal_core.complaint import Complaint, inside, read
from heal_core.config import LlmConfig
from heal_core.errors import ProviderError
from heal_core.prompt import Message, tokens_of

if TYPE_CHECKING:
    import openai

OPENAI_URL = "https://api.openai.com/v1"
CONNECT_SECONDS = 2.0  # being offline must not cost more
RETRIES = 3  # a rate limit, an overload and a broken upstream in a row are still one answer
RETRY_SECONDS = 0.3  # before the first retry where the server names no time, doubled for each further one
LARGEST_REPLY = 4_000_000  # bytes
PLAIN_HEADERS = ("host", "accept", "accept-encoding", "connection", "user-agent", "content-length", "content-type")
SDK_HEADER = "x-stainless-raw-response"  # tells the SDK itself how to hand over the answer
KEPT_HEADERS = frozenset((*PLAIN_HEADERS, SDK_HEADER))


class OutOfTokens(ProviderError):
    """The next request could pass `llm.max_total_tokens`; it was not sent."""


class _Passing(Exception):
    """A try that failed in a way that a retry may mend; `wait` are the seconds that the server asks for."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.wait = wait


class Provider:
    """One model behind one OpenAI-compatible endpoint; `usage` is all that it has cost so far."""

    def __init__(self, config: LlmConfig, base_url: str | None, api_key: str | None) -> None:
        """`base_url` None is OpenAI's; `api_key` None is fine for a server on this machine.

        Raises ProviderError when the address is none, or the key is missing or cannot be a header.
        """
        self.usage = Usage()
        self._config = config
        self._url = base_url or OPENAI_URL
        self._host = _host(self._url)
        self._key = _usable_key(api_key, self._host, config.api_key_env)
        self._parameters: dict[str, Any] = {} if config.temperature is None else {"temperature": config.temperature}

    def complete(self, messages: Sequence[Message], seconds: float) -> Answer:
        """The model's answer to `messages`, got within `seconds` (retries and their waits included).

        Raises OutOfTokens instead of passing `llm.max_total_tokens`, ProviderError when the server cannot be used.
        """
        before, end = self.usage, time.monotonic() + seconds
        for number in range(RETRIES + 1):
            self._check_tokens(messages)
            try:
                body = self._ask(messages, end)
                answer = read_answer(body, self.usage - before)
                if answer is None:
                    raise self._error(f"{self._host} answered without a choice", _check_url(self._url))
                return answer
            except _Passing as failed:
                wait = RETRY_SECONDS * 2**number if failed.wait is None else failed.wait
                if number == RETRIES or wait >= end - time.monotonic():
                    raise self._error(failed.problem, _later(failed.wait)) from None
                time.sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _check_tokens(self, messages: Sequence[Message]) -> None:
        needed, limit = self.usage.total_tokens + _estimate(messages), self._config.max_total_tokens
        if needed > limit:
            raise OutOfTokens(
                f"the next request would bring the tokens to about {needed:,}, over the limit of {limit:,}",
                "raise llm.max_total_tokens to allow more",
            )

    def _ask(self, messages: Sequence[Message], end: float) -> Mapping[str, Any]:
        """The body of a good answer; a refused optional parameter is left out from then on."""
        while True:
            try:
                body = self._send(messages, end)
                complaint = inside(body)
            except _Refused as refused:
                complaint = refused.complaint
            if complaint is None:
                return body
            refused_name = self._refused_parameter(complaint)
            if refused_name is None:
                raise self._failure(complaint)
            del self._parameters[refused_name]

    def _refused_parameter(self, complaint: Complaint) -> str | None:
        if complaint.status not in (400, 422):
            return None
        named = (name for name in self._parameters if name == complaint.param or name in complaint.message)
        return next(named, None)

    def _send(self, messages: Sequence[Message], end: float) -> Mapping[str, Any]:
        """One HTTP request and the JSON object that came back; its tokens are counted, whatever it was."""
        self.usage += Usage(requests=1)
        left = end - time.monotonic()
        if left <= 0:
            raise self._error("no time is left to ask the model", "raise heal.max_seconds")
        wait = min(left, self._config.timeout_seconds)
        with self._wire_errors(messages, wait):
            text = self._exchange(messages, wait, end)
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.usage += Usage(prompt_tokens=_estimate(messages))
            raise self._error(f"{self._host} did not answer with a JSON object: {text}", _check_url(self._url))
        self.usage += told_usage(body, _estimate(messages))
        return body

    def _exchange(self, messages: Sequence[Message], wait: float, end: float) -> str:
        """The raw text of an answer whose status is good; raises what `openai` raises, and TimeoutError at `end`."""
        import openai

        plain: Any = [{"role": message.role, "content": message.text} for message in messages]
        timeout = openai.Timeout(wait, connect=min(wait, CONNECT_SECONDS))
        with (
            self._connect() as client,
            client.chat.completions.with_streaming_response.create(
                model=self._config.model, messages=plain, timeout=timeout, **self._parameters
            ) as response,
        ):
            return self._received(response.iter_bytes(), end)

    def _received(self, chunks: Iterator[bytes], end: float) -> str:
        data = b""
        for chunk in chunks:
            data += chunk
            if time.monotonic() > end:
                raise TimeoutError
            if len(data) > LARGEST_REPLY:
                raise self._error(f"the answer of {self._host} is over {LARGEST_REPLY:,} bytes", _check_url(self._url))
        return data.decode("utf-8", "replace")

    def _connect(self) -> openai.OpenAI:
        import openai

        key = self._key

        def only_ours(request: Any) -> None:
            """The SDK adds headers from OPENAI_* variables, meant for another server, and a profile of this machine."""
            for name in set(request.headers) - KEPT_HEADERS:
                del request.headers[name]
            request.headers["Authorization"] = f"Bearer {key}"

        http = openai.DefaultHttpxClient(follow_redirects=False, event_hooks={"request": [only_ours]})
        return openai.OpenAI(
            api_key=key,
            admin_api_key="",
            organization="",
            project="",
            webhook_secret="",
            base_url=self._url,
            max_retries=0,
            http_client=http,
        )

    @contextmanager
    def _wire_errors(self, messages: Sequence[Message], wait: float) -> Iterator[None]:
        """Turns what `openai` raises into ProviderError, _Refused or _Passing; imports nothing when all is well."""
        try:
            yield
        except TimeoutError:
            raise self._late(messages, wait) from None
        except (ProviderError, KeyboardInterrupt):
            raise
        except Exception as error:
            import openai

            if isinstance(error, openai.APIStatusError):
                raise _Refused(read(error.response)) from None
            if isinstance(error, openai.APIConnectionError):
                raise self._unreachable(error, messages, wait) from None
            if isinstance(error, openai.OpenAIError):
                raise self._error(str(error), _check_url(self._url)) from None
            raise

    def _late(self, messages: Sequence[Message], wait: float) -> ProviderError:
        """The answer did not come in time; the server counts its tokens all the same."""
        self.usage += Usage(prompt_tokens=_estimate(messages))
        longer = "llm.timeout_seconds" if wait >= self._config.timeout_seconds else "heal.max_seconds"
        return self._error(
            f"{self._host} did not answer within {wait:.3g} seconds", f"raise {longer}, or take a faster model"
        )

    def _unreachable(self, error: Exception, messages: Sequence[Message], wait: float) -> Exception:
        """What a failed connection means: none made, none in time, or one that broke off."""
        cause = error.__cause__ or error
        kind, words = type(cause).__name__, _root_words(cause)
        if kind in ("ReadTimeout", "WriteTimeout", "PoolTimeout"):
            return self._late(messages, wait)
        if kind == "ConnectTimeout":
            words = f"no connection within {CONNECT_SECONDS:g} seconds"
        elif kind in ("ReadError", "WriteError", "RemoteProtocolError"):
            return _Passing(f"{self._host} broke off the connection ({words})")
        elif "CERTIFICATE" in words:
            return self._error(
                f"the certificate of {self._host} is not trusted: {words}", "set SSL_CERT_FILE to its CA"
            )
        advice = "start the model's server" if _on_this_machine(self._host) else "check the network"
        return self._error(f"{self._host} cannot be reached: {words}", f"{advice}, or correct llm.base_url")

    def _failure(self, complaint: Complaint) -> Exception:
        """What a complaint of the server means: worth a retry, or a sentence and what to do."""
        said = f": {complaint.message}" if complaint.message else ""
        if complaint.passing:
            return _Passing(f"{self._host} answered {complaint.status}{said}", complaint.retry_after)
        if complaint.used_up:
            return self._error(
                f"the quota at {self._host} is used up ({complaint.code or complaint.status}){said}", "add credit"
            )
        if "context" in complaint.code or "context length" in complaint.message.lower():
            return self._error(f"the prompt is too long for {self._config.model}{said}", "lower llm.context_tokens")
        problem, advice = _WORDS.get(complaint.status, ("{host} refused the request ({status})", "check the llm block"))
        names = {
            "host": self._host,
            "status": complaint.status,
            "model": self._config.model,
            "variable": self._config.api_key_env,
        }
        return self._error(problem.format(**names) + said, advice.format(**names))

    def _error(self, problem: str, advice: str) -> ProviderError:
        """The error in one line of at most 400 letters, without the key, which some servers echo."""
        line = " ".join(re.sub(r"[^\x20-\x7e\xa0-\uffff]", " ", problem.replace(self._key, "***")).split())
        return ProviderError(line if len(line) <= 400 else line[:397] + "...", advice)


_WORDS = {
    401: ("{host} does not accept the key in {variable}", "export a valid {variable}"),
    403: (
        "{host} does not allow this key to use {model}",
        "check the rights of the key in {variable}, or set llm.model",
    ),
    404: (
        "{host} knows no model {model}, or its address is another",
        "set llm.model and llm.base_url (it often ends in /v1)",
    ),
    **dict.fromkeys(
        (301, 302, 303, 307, 308),
        (
            "{host} sends the request on to another address, which is not followed ({status})",
            "set llm.base_url to that address",
        ),
    ),
}


class _Refused(Exception):
    """The server answered with an error status."""

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.message)
        self.complaint = complaint


def _host(url: str) -> str:
    """Host and port of an address, which is all of it that may be shown (it may hold a password)."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host:
        raise ProviderError("llm.base_url is not an http address", "write it as http://HOST:PORT/v1")
    return f"{host}:{port}" if port else host


def _on_this_machine(host: str) -> bool:
    name = host.rpartition(":")[0] if host.count(":") in (1, 8) or host.startswith("::1:") else host
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def _usable_key(key: str | None, host: str, variable: str) -> str:
    key = (key or "").strip()
    if not key and not _on_this_machine(host):
        raise ProviderError(
            f"no key for {host}: {variable} is not set", f"export {variable}=... (or name another in llm.api_key_env)"
        )
    if not key.isascii() or not key.isprintable():
        raise ProviderError(f"the key in {variable} has letters that no key has", f"export {variable} again")
    return key or "not-needed"


def _check_url(url: str) -> str:
    return "check llm.base_url" + ("" if urlsplit(url).path.strip("/") else ": it often ends in /v1")


def _later(wait: float | None) -> str:
    return "commit again a little later" if wait is None else f"commit again in {wait:.0f} seconds"


def _estimate(messages: Sequence[Message]) -> int:
    return sum(tokens_of(message.text) for message in messages)


def _root_words(error: BaseException) -> str:
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__ or error
    return str(error) or type(error).__name__
