from __future__ import annotations

import email.utils
import math
import re
import socket
import subprocess
import sys
import time

import pytest
from scripted_server import ScriptedServer, Step, failing, raw, reply, serving

from heal_core.answer import Answer, Usage
from heal_core.config import LlmConfig
from heal_core.errors import ProviderError
from heal_core.prompt import Message
from heal_core.provider import OutOfTokens, Provider

ASKED = (Message("system", "rules"), Message("user", "please repair"))
HTML = Step(b"<html><body>It works!</body></html>", 200, {"Content-Type": "text/html"})


def provider(server: ScriptedServer, key: str | None = "key-for-tests-1", **settings: object) -> Provider:
    return Provider(LlmConfig(**{"model": "small", "timeout_seconds": 5, **settings}), server.url, key)  # type: ignore[arg-type]


def asked(*steps: Step, seconds: float = 20, **settings: object) -> tuple[Answer | ProviderError, int]:
    """What comes of one question to a server with these steps, and how many requests it took."""
    with serving(*steps) as server:
        try:
            return provider(server, **settings).complete(ASKED, seconds), len(server.requests)  # type: ignore[arg-type]
        except ProviderError as error:
            return error, len(server.requests)


def test_the_first_request_holds_nothing_but_model_and_messages() -> None:
    with serving(reply("fine")) as server:
        answer = provider(server).complete(ASKED, math.inf)
    assert answer == Answer("fine", "stop", Usage(1, 900, 120))
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].body == {
        "model": "small",
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "please repair"}],
    }


def test_nothing_of_another_servers_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET"):
        monkeypatch.setenv(f"OPENAI_{name}", "meant-for-elsewhere")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: meant-for-elsewhere\nX-Team: meant-for-elsewhere")
    with serving(reply("fine"), reply("fine")) as server:
        provider(server).complete(ASKED, 9)
        provider(server, key=None).complete(ASKED, 9)
    assert "meant-for-elsewhere" not in str(server.requests)
    assert "x-stainless-os" not in str(server.requests)
    assert server.requests[0].headers["authorization"] == "Bearer key-for-tests-1"


@pytest.mark.parametrize(
    "refusal",
    [
        failing(400, "Only the default is supported.", param="temperature", code="unsupported_value"),
        raw({"error": "'temperature' is not known here"}, 400),
        raw({"detail": "extra field temperature"}, 422),
    ],
    ids=["named", "bare-string", "422"],
)
def test_a_refused_parameter_is_left_out_from_then_on(refusal: Step) -> None:
    with serving(reply("one"), reply("two"), reject={"temperature": refusal}) as server:
        model = provider(server, temperature=0.2)
        assert [model.complete(ASKED, 9).text, model.complete(ASKED, 9).text] == ["one", "two"]
    assert ["temperature" in request.body for request in server.requests] == [True, False, False]


def test_a_400_that_names_no_parameter_of_ours_ends_at_once() -> None:
    error, requests = asked(failing(400, "messages must not be empty"), temperature=0.5)
    assert isinstance(error, ProviderError) and "messages must not be empty" in error.problem
    assert requests == 1


def test_rate_limit_overload_reset_and_a_wrapped_upstream_error_are_retried() -> None:
    started = time.monotonic()
    answer, requests = asked(
        failing(429, "Slow down", {"Retry-After": "0.1"}, code="rate_limit_exceeded"),
        Step(drop=True),
        raw({"id": None, "choices": None, "error": {"code": 502, "message": "upstream provider failed"}}),
        reply("fine"),
    )
    assert isinstance(answer, Answer) and answer.text == "fine"
    assert requests == 4 == answer.usage.requests
    assert time.monotonic() - started > 0.1


def test_the_servers_own_waiting_time_is_kept_as_number_and_as_date() -> None:
    for header in ("1", email.utils.formatdate(time.time() + 600, usegmt=True)):
        started = time.monotonic()
        result, requests = asked(failing(503, "Overloaded", {"Retry-After": header}), reply("fine"))
        if isinstance(result, Answer):
            assert (header, requests) == ("1", 2) and time.monotonic() - started >= 1
        else:
            assert requests == 1 and re.search(r"in (59\d|600) seconds", result.advice)


def test_a_wait_longer_than_the_time_left_is_not_begun() -> None:
    error, requests = asked(failing(429, "Slow down", {"Retry-After": "3600"}), seconds=5)
    assert isinstance(error, ProviderError) and "Slow down" in error.problem and "3600 seconds" in error.advice
    assert requests == 1


def test_retries_are_bounded() -> None:
    error, requests = asked(*[failing(500, "no", {"Retry-After": "0"})] * 9)
    assert isinstance(error, ProviderError) and "500" in error.problem
    assert requests == 4


@pytest.mark.parametrize(
    ("step", "problem", "advice"),
    [
        (failing(429, "check your plan", code="insufficient_quota"), "quota", "credit"),
        (failing(429, "check your plan", type="insufficient_quota"), "quota", "credit"),
        (failing(402, "Insufficient credits", code=402), "quota", "credit"),
        (failing(401, "Incorrect API key provided"), "MODEL_KEY", "export a valid MODEL_KEY"),
        (failing(403, "no access"), "small", "MODEL_KEY"),
        (failing(404, "no such model", code="model_not_found"), "small", "llm.model"),
        (Step(b"404 page not found", 404, {"Content-Type": "text/plain"}), "404 page not found", "/v1"),
        (failing(400, "This is over 4096", code="context_length_exceeded"), "too long", "llm.context_tokens"),
        (raw({}, 307, {"Location": "http://127.0.0.2:1/v1/chat/completions"}), "another address", "llm.base_url"),
        (HTML, "JSON", "llm.base_url"),
        (Step(b"", 200), "JSON", "llm.base_url"),
        (Step(b"[1]", 200, {"Content-Type": "application/json"}), "JSON", "llm.base_url"),
        (raw({"choices": []}), "without a choice", "llm.base_url"),
        (raw({"choices": [{}]}), "without a choice", "llm.base_url"),
        (raw({"choices": None, "error": {"code": 401, "message": "no"}}), "MODEL_KEY", "MODEL_KEY"),
    ],
)
def test_what_no_retry_mends_is_one_request_one_sentence_and_advice(step: Step, problem: str, advice: str) -> None:
    error, requests = asked(step, api_key_env="MODEL_KEY")
    assert isinstance(error, ProviderError)
    assert problem in error.problem and advice in error.advice
    assert requests == 1


def test_the_key_is_never_in_the_words_of_an_error() -> None:
    error, _ = asked(failing(401, "Incorrect key provided: key-for-tests-1\n\x1b[31m"))
    assert isinstance(error, ProviderError)
    assert "key-for-tests-1" not in error.problem and "\x1b" not in error.problem and "\n" not in error.problem


def test_a_closed_port_and_an_unknown_host_end_at_once() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        started = time.monotonic()
        with pytest.raises(ProviderError, match="cannot be reached") as refused:
            Provider(LlmConfig(), closed, None).complete(ASKED, 60)
    assert "start the model's server" in refused.value.advice
    with pytest.raises(ProviderError, match=r"no-such-host\.invalid cannot be reached"):
        Provider(LlmConfig(), "http://no-such-host.invalid/v1", "key-for-tests-1").complete(ASKED, 60)
    assert time.monotonic() - started < 10


def test_a_silent_server_is_given_up_after_the_time_limit_and_its_tokens_count() -> None:
    with serving(reply("late", delay=1.5)) as server:
        model = provider(server, timeout_seconds=0.3)
        with pytest.raises(ProviderError, match=r"within 0\.3 seconds") as late:
            model.complete(ASKED, 60)
    assert "llm.timeout_seconds" in late.value.advice
    assert len(server.requests) == 1 and model.usage.prompt_tokens > 0


def test_a_server_that_keeps_sending_does_not_stretch_the_time() -> None:
    with serving(reply("slow", trickle=0.02)) as server:
        started = time.monotonic()
        with pytest.raises(ProviderError, match=r"within 0\.5 seconds") as late:
            provider(server).complete(ASKED, 0.5)
    assert "heal.max_seconds" in late.value.advice
    assert time.monotonic() - started < 2


def test_only_a_server_on_this_machine_needs_no_key() -> None:
    for url in (None, "https://api.example.com/v1"):
        with pytest.raises(ProviderError, match="MODEL_KEY is not set") as missing:
            Provider(LlmConfig(api_key_env="MODEL_KEY"), url, None)
        assert "export MODEL_KEY=" in missing.value.advice
    for url in ("http://localhost:1/v1", "http://127.0.0.1:1/v1", "http://[::1]:1/v1", "http://[::1]/v1"):
        Provider(LlmConfig(), url, None)


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x/v1", "http://", "http://x:port/v1", "http://[::1/v1"])
def test_an_address_that_is_none_is_named_without_being_shown(url: str) -> None:
    with pytest.raises(ProviderError, match=r"llm\.base_url"):
        Provider(LlmConfig(), url, "key-for-tests-1")


def test_a_key_that_cannot_be_a_header_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ProviderError, match="letters that no key has"):
        Provider(LlmConfig(), "http://127.0.0.1:1/v1", "key\nwith a break")


@pytest.mark.parametrize(
    ("step", "text", "finish_reason", "thought"),
    [
        (reply("<think>\nhm\n</think>\n\nthe fix"), "the fix", "stop", True),
        (reply("hm, so\n</think>the fix"), "the fix", "stop", True),
        (reply("<think>never ending", "length"), "", "length", True),
        (reply("x = '<think>'"), "x = '<think>'", "stop", False),
        (reply("", message={"reasoning_content": "hm"}), "", "stop", True),
        (reply(None, "length"), "", "length", False),
        (reply("half a bl", "length"), "half a bl", "length", False),
        (reply("", "content_filter"), "", "content_filter", False),
        (reply(None, message={"refusal": "I must not."}), "I must not.", "refusal", False),
        (reply([{"type": "text", "text": "the "}, {"type": "text", "text": "fix"}]), "the fix", "stop", False),
        (reply("the fix", finish_reason=None), "the fix", "stop", False),  # type: ignore[arg-type]
    ],
)
def test_odd_but_whole_answers_are_read(step: Step, text: str, finish_reason: str, thought: bool) -> None:
    answer, requests = asked(step)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.finish_reason, answer.thought, requests) == (text, finish_reason, thought, 1)


def test_tokens_are_estimated_where_the_server_does_not_count() -> None:
    answer, _ = asked(reply("x" * 400, usage=None))
    assert isinstance(answer, Answer)
    assert 100 <= answer.usage.completion_tokens <= 150
    assert answer.usage.prompt_tokens == 6


def test_no_request_is_sent_that_could_pass_the_token_limit() -> None:
    with serving(reply("one", usage=(80, 15)), repeat_last=True) as server:
        model = provider(server, max_total_tokens=100)
        model.complete(ASKED, 9)
        with pytest.raises(OutOfTokens, match="101, over the limit of 100"):
            model.complete(ASKED, 9)
    assert len(server.requests) == 1
    assert model.usage == Usage(1, 80, 15)


def test_importing_the_module_does_not_import_the_client() -> None:
    code = "import sys, heal_core.provider; sys.exit('openai' in sys.modules or 'httpx2' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}, check=True)
