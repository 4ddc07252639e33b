"""What a model's server answers: the text of one completion, why it ended, and what it cost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heal_core.complaint import whole_number
from heal_core.prompt import tokens_of

THOUGHT = re.compile(r"\A(?:\s*<(think(?:ing)?)>.*?(?:</\1>|\Z))+|\A(?:(?!<think).)*?</think(?:ing)?>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent: HTTP requests sent, and tokens as the server counts them (estimated where it does not say)."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Prompt and completion together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.requests - other.requests,
            self.prompt_tokens - other.prompt_tokens,
            self.completion_tokens - other.completion_tokens,
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """One completion.

    `text` is the content without the model's thinking; `finish_reason` is the server's word ("stop", "length",
    "content_filter"), or "refusal" when the model declined in a field of its own, whose words are then the text;
    `usage` is what this answer cost, its failed tries included; `thought` tells that the server sent reasoning too.
    """

    text: str
    finish_reason: str
    usage: Usage
    thought: bool = False


def read_answer(body: Mapping[str, Any], usage: Usage) -> Answer | None:
    """The completion in the body of an answer, whatever else it holds; None where it has no choice."""
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    thought = any(message.get(name) for name in ("reasoning_content", "reasoning", "thinking"))
    text = _content(message.get("content"))
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal.strip() and not text.strip():
        return Answer(refusal.strip(), "refusal", usage, thought)
    plain = THOUGHT.sub("", text, count=1).strip()
    return Answer(plain, str(choice.get("finish_reason") or "stop"), usage, thought or plain != text.strip())


def told_usage(body: Mapping[str, Any], prompt_estimate: int) -> Usage:
    """The tokens that the body of an answer reports, estimated where it does not."""
    told = body.get("usage")
    told = told if isinstance(told, dict) else {}
    prompt, completion = whole_number(told.get("prompt_tokens")), whole_number(told.get("completion_tokens"))
    if completion is None:
        completion = tokens_of(json.dumps(body["choices"], ensure_ascii=False)) if body.get("choices") else 0
    return Usage(0, prompt_estimate if prompt is None else prompt, completion)


def _content(content: object) -> str:
    """Text of a message's content, which some servers send as a list of parts."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
