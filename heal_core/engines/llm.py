"""The engine that asks a model: one prompt, one reply and one proposal a round."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from heal_core.answer import Answer, Usage
from heal_core.attempt import Attempt
from heal_core.edits import parse, read_patch
from heal_core.errors import ProviderError
from heal_core.localize import Case
from heal_core.patch import Patch, Refusal
from heal_core.prompt import Message, build
from heal_core.provider import OutOfTokens, Provider
from heal_core.redact import Redactor

SEEN_BEFORE = "the model proposes a patch again that was tried already"
UNUSABLE = {
    "length": "the reply was cut at the server's token limit; write two sentences at most, then only the blocks",
    "content_filter": "the server's content filter stopped the reply",
    "refusal": "the model declined",
}


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request as it was sent, secrets masked, with the reply ("" when none came) and what it cost."""

    messages: tuple[Message, ...]
    reply: str
    finish_reason: str
    usage: Usage


class LlmEngine:
    """Proposes what a model writes, in at most `max_attempts` rounds.

    `exchanges` holds what was sent and what came back; `ended` says in one sentence why no further round came, "" while
    rounds are left.
    """

    name = "llm"

    def __init__(
        self,
        provider: Provider,
        instructions: str,
        max_attempts: int,
        context_tokens: int,
        redactor: Redactor,
        seconds_left: Callable[[], float] = lambda: math.inf,
    ) -> None:
        """`context_tokens` bound one prompt; `seconds_left` tells how long a round may still take."""
        self.exchanges: list[Exchange] = []
        self.ended = ""
        self._provider = provider
        self._instructions = instructions
        self._max_attempts = max_attempts
        self._context_tokens = context_tokens
        self._redactor = redactor
        self._seconds_left = seconds_left

    @property
    def usage(self) -> Usage:
        """All requests and tokens of the provider so far."""
        return self._provider.usage

    def propose(self, case: Case, attempts: Sequence[Attempt]) -> Iterator[Patch | Refusal]:
        """One proposal a round; raises ProviderError when the server cannot be used."""
        tried: list[Patch] = []
        for _ in range(self._max_attempts):
            try:
                answer = self._ask(case, attempts)
            except OutOfTokens as limit:
                self.ended = limit.problem
                return
            proposal = self._read(answer, case)
            self.ended = _end(answer, proposal, tried)
            if isinstance(proposal, Patch):
                tried.append(proposal)
            yield Refusal(self.name, self.ended, answer.text) if self.ended else proposal
            if self.ended:
                return
        self.ended = f"{self._max_attempts} attempts were made (heal.max_attempts)"

    def _ask(self, case: Case, attempts: Sequence[Attempt]) -> Answer:
        own = [attempt for attempt in attempts if attempt.engine == self.name]
        fence = f"[{secrets.token_hex(4)}]"
        messages = build(case, own, self._instructions, self._context_tokens, self._redactor, fence)
        before = self._provider.usage
        try:
            answer = self._provider.complete(messages, self._seconds_left())
        except OutOfTokens:
            raise
        except ProviderError as error:
            usage = self._provider.usage - before
            self.exchanges.append(Exchange(messages, "", self._redactor.mask(error.problem), usage))
            raise
        self.exchanges.append(Exchange(messages, self._redactor.mask(answer.text), answer.finish_reason, answer.usage))
        return answer

    def _read(self, answer: Answer, case: Case) -> Patch | Refusal:
        reason = _unusable(answer)
        if reason:
            return Refusal(self.name, reason, answer.text)
        proposal = read_patch(self.name, answer.text, case.editable)
        if isinstance(proposal, Refusal):
            masked = self._redactor.holds_placeholder(answer.text)
            hint = "; <secret-...> stands for a masked value: leave lines that hold one as they are" if masked else ""
            return Refusal(self.name, proposal.reason + hint, answer.text)
        if any(
            self._redactor.holds_placeholder(rewrite.after.decode("utf-8", "replace")) for rewrite in proposal.files
        ):
            reason = "the new lines hold a <secret-...>, which stands for a masked value; leave lines that hold one out"
            return Refusal(self.name, reason, answer.text)
        return proposal


def _unusable(answer: Answer) -> str:
    """Why a reply is not even read, "" when it is."""
    if answer.finish_reason in UNUSABLE:
        said = f": {answer.text[:200]}" if answer.finish_reason == "refusal" else ""
        return UNUSABLE[answer.finish_reason] + said
    if not answer.text:
        return "the model only thought and wrote no answer" if answer.thought else "the reply was empty"
    return ""


def _end(answer: Answer, proposal: Patch | Refusal, tried: Sequence[Patch]) -> str:
    """Why this proposal is the last one, "" when it is not: the model gives up, or repeats itself."""
    if isinstance(proposal, Patch):
        return SEEN_BEFORE if any(proposal.files == patch.files for patch in tried) else ""
    reason = parse(answer.text).cannot_fix
    return f"the model gives up: {reason[:300]}" if reason else ""
