"""What healing starts from and what it ends in: the bench, the outcome, and all that the report tells of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from heal_core.attempt import Attempt
from heal_core.config import Config
from heal_core.engines import Engine
from heal_core.failure import Failure
from heal_core.interpreter import Interpreter
from heal_core.localize import Case
from heal_core.patch import Patch
from heal_core.repo import Snapshot
from heal_core.sandbox import Choice
from heal_core.selection import Selection
from heal_core.suite import Result


class Outcome(Enum):
    """How judging and healing a commit ended; their names are the words of `--format json`."""

    NOTHING_STAGED = "nothing-staged"
    NO_TESTS = "no-tests"
    PASSED = "passed"
    FLAKY = "flaky"
    PREEXISTING = "preexisting"
    HEALED = "healed"
    REVIEW = "review"
    PROPOSED = "proposed"
    NOT_PLACED = "not-placed"
    UNHEALED = "unhealed"
    BROKEN = "broken"
    TOO_SLOW = "too-slow"

    @property
    def exit_status(self) -> int:
        """0 when the commit may go on, 1 when tests fail and no fix was staged, 2 when it could not be judged."""
        if self in (Outcome.REVIEW, Outcome.PROPOSED, Outcome.NOT_PLACED, Outcome.UNHEALED):
            return 1
        return 2 if self in (Outcome.BROKEN, Outcome.TOO_SLOW) else 0


@dataclass(frozen=True, slots=True)
class Healing:
    """What happened: the outcome, the tests chosen and how they ended, the failures and what was tried on them, the
    patch of a healed commit, the sandbox, and sentences for the user (`problem` is why it could not be judged)."""

    outcome: Outcome
    selection: Selection = field(default_factory=lambda: Selection((), ()))
    baseline: Result | None = None
    failures: tuple[Failure, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    patch: Patch | None = None
    sandbox: str = ""
    interpreter: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""
    advice: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Bench:
    """What `heal` works with. What costs time is a function, called only when it is needed.

    The interpreter and the sandbox are asked for once there are tests; the engines, each with the seconds that it may
    use, once a test has failed, and before them why no fix would be placed ("" where one may be).
    """

    snapshot: Snapshot
    config: Config
    environ: Mapping[str, str]
    interpreter: Callable[[], Interpreter]
    sandbox: Callable[[], Choice]
    engines: Callable[[], Iterator[tuple[Engine, float]]]
    not_placeable: Callable[[Case], str]
