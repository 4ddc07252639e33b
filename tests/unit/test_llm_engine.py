from __future__ import annotations

from collections.abc import Sequence

import pytest
from scripted_server import ScriptedServer, Step, failing, reply, serving

from heal_core.attempt import Attempt
from heal_core.config import LlmConfig
from heal_core.engines import Engine
from heal_core.engines.llm import LlmEngine
from heal_core.errors import ProviderError
from heal_core.failure import Failure, Raised
from heal_core.localize import Case, Suspect
from heal_core.patch import Patch, Refusal
from heal_core.provider import Provider
from heal_core.redact import Redactor
from heal_core.source import Source

KEY = "demo-not-a-real-key-7f3a9c51e2b84d60"
CASE = Case(
    (Failure("tests/test_due.py::test_due", "call", Raised("AssertionError", f"assert 1 == 3 {KEY}"), ""),),
    (Suspect("due.py", 2, "changed"),),
    (Source("due.py", "def due(day, terms):\n    return day - terms\n", "utf-8"),),
    (Source("tests/test_due.py", "def test_due():\n    assert due(1, 2) == 3\n", "utf-8"),),
    "",
    frozenset(),
)


def block(new: str, old: str = "    return day - terms", path: str = "due.py") -> str:
    return f"Wrong.\n\n{path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"


def engine(server: ScriptedServer, attempts: int = 3, **settings: int) -> LlmEngine:
    provider = Provider(LlmConfig(model="small", **settings), server.url, None)  # type: ignore[arg-type]
    return LlmEngine(provider, "Use tabs.", attempts, 24_000, Redactor([KEY]))


def rounds(llm: LlmEngine, reasons: Sequence[str] = ()) -> list[Patch | Refusal]:
    """All proposals, each of which is told to be no fix for the reason in its place."""
    attempts: list[Attempt] = []
    proposals = []
    for number, proposal in enumerate(llm.propose(CASE, attempts)):
        proposals.append(proposal)
        if isinstance(proposal, Patch):
            reason = reasons[number] if number < len(reasons) else "the failing test still fails"
            attempts.append(Attempt("llm", proposal, reason))
        else:
            attempts.append(Attempt("llm", None, proposal.reason, reply=proposal.reply))
    return proposals


def run(*steps: Step, attempts: int = 3, **settings: int) -> tuple[list[Patch | Refusal], LlmEngine, ScriptedServer]:
    with serving(*steps) as server:
        llm = engine(server, attempts, **settings)
        return rounds(llm), llm, server


def test_it_is_an_engine() -> None:
    with serving() as server:
        known: Engine = engine(server)
    assert known.name == "llm"


def test_a_good_reply_becomes_a_patch_with_its_diagnosis() -> None:
    (patch, *_), _, server = run(reply(block("    return day + terms")), reply("CANNOT FIX: enough"))
    assert isinstance(patch, Patch)
    assert patch.engine == "llm" and patch.diagnosis == "Wrong."
    assert patch.files[0].after == b"def due(day, terms):\n    return day + terms\n"
    assert "House rules:\nUse tabs." in server.requests[0].text()


def test_each_round_tells_the_model_what_became_of_the_earlier_ones() -> None:
    proposals, llm, server = run(
        reply(block("    return day * terms")),
        reply(block("x", old="no such line")),
        reply(block("    return day + terms")),
    )
    assert [type(proposal) for proposal in proposals] == [Patch, Refusal, Patch]
    assert "Attempt 1" not in server.requests[0].text()
    assert "Attempt 1: the failing test still fails" in server.requests[1].text()
    assert "+    return day * terms" in server.requests[1].text()
    assert f"Attempt 2: {proposals[1].reason[:30]}" in server.requests[2].text()  # type: ignore[union-attr]
    assert llm.ended == "3 attempts were made (heal.max_attempts)"


def test_attempts_of_another_engine_are_not_told() -> None:
    with serving(reply("CANNOT FIX: no")) as server:
        list(engine(server).propose(CASE, [Attempt("search", None, "a thousand tries")]))
    assert "a thousand tries" not in server.requests[0].text()


def test_a_patch_seen_before_ends_it_even_when_it_is_worded_otherwise() -> None:
    again = block("    return day * terms").replace("Wrong.", "Surely this.")
    proposals, llm, server = run(
        reply(block("    return day * terms")),
        reply(block("    return day / terms")),
        reply(again),
        reply("-"),
        attempts=9,
    )
    assert [type(proposal) for proposal in proposals] == [Patch, Patch, Refusal]
    assert "tried already" in llm.ended and len(server.requests) == 3


def test_a_refused_reply_that_comes_again_does_not_end_it() -> None:
    unreadable = reply(block("x", old="no such line"))
    proposals, _, _ = run(unreadable, unreadable, reply(block("    return day + terms")))
    assert [type(proposal) for proposal in proposals] == [Refusal, Refusal, Patch]


def test_giving_up_ends_it_with_the_models_reason() -> None:
    proposals, llm, server = run(reply("The test is wrong.\n\nCANNOT FIX: due() is right as it is"), attempts=9)
    assert len(server.requests) == 1 and len(proposals) == 1
    assert isinstance(proposals[0], Refusal) and "due() is right as it is" in proposals[0].reason == llm.ended


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (reply(block("    return day + terms")[:-9], "length"), "token limit"),
        (reply("", "content_filter"), "content filter"),
        (reply(None, message={"refusal": "I must not."}), "declined: I must not."),
        (reply(None), "empty"),
        (reply("<think>so</think>"), "only thought"),
        (reply(block("x", path="tests/test_due.py", old="    assert due(1, 2) == 3")), "tests/test_due.py"),
    ],
)
def test_a_reply_that_cannot_be_used_is_a_refusal_and_its_tokens_count(step: Step, words: str) -> None:
    proposals, llm, _ = run(step, attempts=1)
    assert isinstance(proposals[0], Refusal) and words in proposals[0].reason
    assert llm.usage.total_tokens == 1_020


def test_the_token_limit_ends_it_before_a_request() -> None:
    changes = ("*", "/", "%", "//")
    steps = [reply(block(f"    return day {sign} terms"), usage=(44_000, 1_000)) for sign in changes]
    proposals, llm, server = run(*steps, attempts=9, max_total_tokens=90_500)
    assert len(proposals) == len(server.requests) == 2
    assert "over the limit of 90,500" in llm.ended


def test_a_server_that_cannot_be_used_is_the_callers_to_report_and_the_request_is_kept() -> None:
    with serving(failing(401, "no")) as server:
        llm = engine(server)
        with pytest.raises(ProviderError, match="OPENAI_API_KEY"):
            rounds(llm)
    assert len(llm.exchanges) == 1 and llm.exchanges[0].usage.requests == 1 and llm.exchanges[0].reply == ""


def test_what_was_sent_and_what_came_back_is_kept_masked_with_its_cost() -> None:
    _, llm, server = run(reply(f"Because of {KEY}.\n" + block("    return day + terms")), attempts=1)
    (exchange,) = llm.exchanges
    assert [message.text for message in exchange.messages] == [
        m["content"] for m in server.requests[0].body["messages"]
    ]
    assert KEY not in str(server.requests) + str(exchange) and "<secret-1>" in exchange.reply
    assert (exchange.usage.requests, exchange.usage.total_tokens) == (1, 1_020)


@pytest.mark.parametrize("old", ["    return day - terms", "    call('<secret-1>')"])
def test_a_patch_that_would_write_a_masked_value_is_refused(old: str) -> None:
    proposals, _, _ = run(reply(block("    return '<secret-1>'", old=old)), attempts=1)
    assert isinstance(proposals[0], Refusal) and "masked value" in proposals[0].reason


def test_a_diagnosis_may_name_a_masked_value() -> None:
    proposals, _, _ = run(reply("The header holds <secret-1>.\n" + block("    return day + terms")), attempts=1)
    assert isinstance(proposals[0], Patch)


def test_every_round_has_a_fence_of_its_own() -> None:
    _, _, server = run(reply("a"), reply("b"), attempts=2)
    fences = [request.body["messages"][1]["content"].partition(" ")[0] for request in server.requests]
    assert fences[0] != fences[1] and all(
        fence in request.text() for fence, request in zip(fences, server.requests, strict=True)
    )


def test_the_time_left_bounds_a_round() -> None:
    with serving(reply("late", delay=1)) as server:
        provider = Provider(LlmConfig(), server.url, None)
        llm = LlmEngine(provider, "", 3, 24_000, Redactor(), seconds_left=lambda: 0.2)
        with pytest.raises(ProviderError):
            rounds(llm)
