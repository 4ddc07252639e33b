"""The configuration: its keys, their defaults, and clear words for whatever does not fit.

Files are `.selfheal.yaml` at the repository's root and `selfheal.yaml` in the user's configuration folder; the
repository's file goes over the user's, command-line `KEY=VALUE` settings over both. PyYAML and msgspec are imported only
when there is something to read.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from heal_core.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TestsConfig:
    """How the project's tests are run."""

    __test__ = False  # the key in the file is `tests`; pytest must not collect the class

    python: str | None = None
    args: tuple[str, ...] = ()
    timeout_seconds: float = 300
    env: tuple[str, ...] = ()
    on_none: Literal["allow", "block"] = "allow"


@dataclass(frozen=True, slots=True)
class HealConfig:
    """How far healing may go."""

    engines: tuple[Literal["search", "llm"], ...] = ("search", "llm")
    max_attempts: int = 3
    max_seconds: float = 180
    search_seconds: float = 20
    max_changed_lines: int = 40


@dataclass(frozen=True, slots=True)
class LlmConfig:
    """The model and its server. That the block is there at all is the consent to ask it."""

    model: str = "gpt-5-mini"
    base_url: str | None = None
    api_key_env: str = "OPENAI_API_KEY"
    timeout_seconds: float = 60
    context_tokens: int = 24000
    max_total_tokens: int = 60000
    temperature: float | None = None
    instructions: str = ""


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Where tests run, and with how much."""

    backend: Literal["auto", "bubblewrap", "process"] = "auto"
    memory_mb: int = 4096
    processes: int = 256


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration; `llm` is None where neither a file nor the command line has an `llm` block."""

    tests: TestsConfig = field(default_factory=TestsConfig)
    heal: HealConfig = field(default_factory=HealConfig)
    llm: LlmConfig | None = None
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
