"""Which concrete classes exist, and which of them a run gets: the sandbox, the interpreter, the engines."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from heal_core import ancestry
from heal_core.config import Config, LlmConfig, SandboxConfig
from heal_core.errors import SandboxError
from heal_core.sandbox import Choice
from heal_core.sandbox.process import ProcessSandbox

if TYPE_CHECKING:
    from heal_core.engines import Engine
    from heal_core.engines.llm import LlmEngine
    from heal_core.healing import Healing
    from heal_core.interpreter import Interpreter
    from heal_core.localize import Case
    from heal_core.patch import Patch
    from heal_core.placing import Story
    from heal_core.redact import Redactor
    from heal_core.repo import Repository, Snapshot

ASK_A_MODEL = "mend it; or, to ask a model too, write into .selfheal.yaml: llm: {model: NAME}"
SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


def choose_sandbox(wanted: SandboxConfig) -> Choice:
    """The sandbox for this run; patched code runs only in one that was seen to isolate, or in the user's own choice.

    Raises SandboxError when a backend was asked for by name and does not work here.
    """
    if wanted.backend == "process":
        return Choice(ProcessSandbox(), heals=True)
    why_not = _linux_only()
    if not why_not:
        from heal_core.sandbox import bubblewrap

        program = bubblewrap.find()
        if program is None:
            why_not = "bubblewrap is not installed"
        else:
            sandbox = bubblewrap.Bubblewrap(program)
            reason = sandbox.isolated()
            if not reason:
                return Choice(sandbox, heals=True)
            why_not = f"{program} does not isolate here ({reason})"
    if wanted.backend != "auto":
        raise SandboxError(f"The sandbox {wanted.backend} cannot be used: {why_not}.", SANDBOX_ADVICE)
    return Choice(ProcessSandbox(), heals=False, reason=f"Healing is off, because {why_not}.")


SANDBOX_ADVICE = "apt-get install bubblewrap, or pip install 'pre-commit-selfheal[bwrap]'"


def _linux_only() -> str:
    return "" if sys.platform == "linux" else f"no sandbox is known for {sys.platform}"


def find_interpreter(config: Config, environ: Mapping[str, str], snapshot: Snapshot) -> Interpreter:
    """The project's interpreter."""
    from heal_core import interpreter

    def tracked(path: str) -> bool:
        return any(name == path or name.startswith(f"{path}/") for name in snapshot.paths())

    return interpreter.find(config.tests.python, environ, snapshot.repo.toplevel, Path(sys.prefix), tracked)


class Placing:
    """Places a patch on the state that `snapshot` holds; the git commit that it is for is noted when this is made."""

    def __init__(self, snapshot: Snapshot, environ: Mapping[str, str], until_placed: ExitStack) -> None:
        """`until_placed` ends when all is placed: until then no second selfheal heals in the repository."""
        self.snapshot, self.environ, self.until_placed = snapshot, environ, until_placed
        self.commit = ancestry.commit_above() if snapshot.repo.in_commit else None

    def __call__(self, patch: Patch, story: Story) -> str:
        """Place the patch; the id of its record. Raises NotPlaced."""
        from heal_core.placing import place

        return place(self.snapshot, patch, self.environ, story, self.commit)

    def forbidden(self, case: Case) -> str:
        """Why no fix for `case` would be placed, asked before one is looked for; "" where one may be."""
        from heal_core import recovery
        from heal_core.errors import NotPlaced
        from heal_core.placing import foresee

        try:
            if not self.until_placed.enter_context(recovery.only_one(self.snapshot.repo.records)):
                return "another selfheal is at work in this repository, so this one only reports."
            foresee(self.snapshot, [(suspect.path, suspect.lineno) for suspect in case.suspects], self.environ)
        except NotPlaced as error:
            return error.problem
        except OSError:  # what cannot be written will not be placed, but it can be shown
            return ""
        return ""


def interrupted_heals(repository: Repository) -> Iterator[str]:
    """A sentence on every heal whose placing a crash ended."""
    from heal_core import recovery

    if (repository.records / "heals").is_dir():
        for identity in recovery.interrupted(repository.records):
            yield f"the heal {identity} was interrupted while it was placed; `selfheal undo {identity}` puts all back."


class Engines:
    """The engines that the configuration asks for, each made when its turn comes."""

    def __init__(self, config: Config, environ: Mapping[str, str]) -> None:
        self.config, self.environ = config, environ
        self.no_model = False
        self.llm: LlmEngine | None = None

    @cached_property
    def redactor(self) -> Redactor:
        """Masks the user's secrets, in prompts and in what is printed."""
        from heal_core.redact import Redactor

        values = [value for name, value in self.environ.items() if _is_secret(name, value)]
        key = self.environ.get(self.config.llm.api_key_env) if self.config.llm else None
        return Redactor([*values, key] if key else values)

    def make(self) -> Iterator[tuple[Engine, float]]:
        """Each engine with the seconds that it may use. Raises ProviderError when the model's server cannot be used."""
        heal = self.config.heal
        for name in dict.fromkeys(heal.engines):
            if name == "search":
                from heal_core.engines.search import SearchEngine

                yield SearchEngine(), heal.search_seconds
            elif self.config.llm is not None:
                self.llm = self._model(self.config.llm, heal.max_seconds)
                yield self.llm, heal.max_seconds
            else:
                self.no_model = True

    def story(self, healing: Healing) -> Story:
        """How the patch of `healing` came about, for its record."""
        from heal_core.placing import Story

        asked = self.llm is not None and healing.patch is not None and healing.patch.engine == self.llm.name
        return Story(
            model=self.config.llm.model if asked and self.config.llm else "",
            attempts=sum(attempt.engine == healing.patch.engine for attempt in healing.attempts)
            if healing.patch
            else 0,
            tokens=self.llm.usage.total_tokens if self.llm else 0,
            seconds=healing.seconds,
        )

    def _model(self, llm: LlmConfig, max_seconds: float) -> LlmEngine:
        from heal_core.engines.llm import LlmEngine
        from heal_core.provider import Provider

        address = llm.base_url or self.environ.get("OPENAI_BASE_URL") or None
        provider = Provider(llm, address, self.environ.get(llm.api_key_env) or None)
        deadline = time.monotonic() + max_seconds
        return LlmEngine(
            provider,
            llm.instructions,
            self.config.heal.max_attempts,
            llm.context_tokens,
            self.redactor,
            lambda: deadline - time.monotonic(),
        )


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable's name speaks of a secret; a path, such as an agent's socket, is none."""
    return bool(SECRET_NAMES.search(name)) and not value.startswith("/")
