"""The order of events from a staged change to an outcome, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from heal_core import policy
from heal_core.attempt import Attempt
from heal_core.attribution import Attribution, attribute, wording
from heal_core.case import check_environment, make_case, nothing_editable
from heal_core.config import Config
from heal_core.engines import Engine
from heal_core.errors import ProviderError
from heal_core.failure import Failure
from heal_core.interpreter import Interpreter
from heal_core.lab import Lab, plan
from heal_core.localize import Case
from heal_core.patch import Patch, Refusal
from heal_core.pytest_settings import Settings, read_settings
from heal_core.repo import Snapshot
from heal_core.sandbox import Choice
from heal_core.selection import Selection, select
from heal_core.suite import Result, Status
from heal_core.verify import verify
from heal_core.workspace import checked_out


class Outcome(Enum):
    """How judging and healing a commit ended; their names are the words of `--format json`."""

    NOTHING_STAGED = "nothing-staged"
    NO_TESTS = "no-tests"
    PASSED = "passed"
    FLAKY = "flaky"
    PREEXISTING = "preexisting"
    HEALED = "healed"
    NOT_PLACED = "not-placed"
    UNHEALED = "unhealed"
    BROKEN = "broken"
    TOO_SLOW = "too-slow"

    @property
    def exit_status(self) -> int:
        """0 when the commit may go on, 1 when tests fail and no fix was staged, 2 when it could not be judged."""
        if self in (Outcome.NOT_PLACED, Outcome.UNHEALED):
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
    """What `heal` works with. What costs time is a function, called only when it is needed: the interpreter and the
    sandbox once there are tests, the engines (each with the seconds it may use) once a test has failed."""

    snapshot: Snapshot
    config: Config
    environ: Mapping[str, str]
    interpreter: Callable[[], Interpreter]
    sandbox: Callable[[], Choice]
    engines: Callable[[], Iterator[tuple[Engine, float]]]


def heal(bench: Bench) -> Healing:
    """Judge what is staged, and look for a patch that heals it.

    Raises HealError for what keeps it from being judged at all.
    """
    change = bench.snapshot.change
    if not change.files:
        return Healing(Outcome.NOTHING_STAGED)
    with checked_out(bench.snapshot) as workspace:
        files = workspace.files()
        settings = read_settings(files)
        # A link to a changed file is another name by which tests import it.
        linked = [link for link, target in workspace.links().items() if target in change.changed]
        selection = select((*change.changed, *linked), change.removed, files, settings)
        if not selection.tests:
            return Healing(Outcome.NO_TESTS, selection)
        choice, interpreter = bench.sandbox(), bench.interpreter()
        config = bench.config
        runs = plan(selection, interpreter, workspace, config.tests, config.sandbox, bench.environ)
        lab = Lab(bench.snapshot, choice.sandbox, runs)
        baseline = lab.run_in(workspace)
        so_far = Healing(
            Outcome.PASSED, selection, baseline, sandbox=choice.sandbox.name, interpreter=str(interpreter.program)
        )
        if baseline.status is Status.PASSED:
            return so_far
        if baseline.status is Status.NO_TESTS:
            return replace(so_far, outcome=Outcome.NO_TESTS)
        if baseline.status in (Status.BROKEN, Status.TAMPERED):
            return replace(so_far, outcome=Outcome.BROKEN, problem=baseline.problem)
        return _heal_failures(bench, lab, choice, settings, files, so_far)


def _heal_failures(
    bench: Bench, lab: Lab, choice: Choice, settings: Settings, files: Mapping[str, bytes], so_far: Healing
) -> Healing:
    """The part after the first failure: is it the change's own, and does any proposal mend it?"""
    deadline = time.monotonic() + bench.config.heal.max_seconds
    baseline = so_far.baseline
    assert baseline is not None
    check_environment(bench.snapshot, baseline.failures, so_far.interpreter)
    found = attribute(lab, baseline, bench.config.heal.preexisting)
    if ended := _not_the_changes_own(bench, lab, found, so_far):
        return ended
    case, notes = make_case(bench.snapshot, found.own, settings, files)
    so_far = replace(so_far, failures=found.own, notes=(*_excuses(lab, found), *notes))
    if not choice.heals:
        return replace(so_far, outcome=Outcome.UNHEALED, problem=choice.reason)
    if not case.editable:
        return replace(so_far, outcome=Outcome.UNHEALED, problem=nothing_editable(bench.snapshot, settings))
    return _try_engines(bench, lab, case, found, so_far, deadline)


def _not_the_changes_own(bench: Bench, lab: Lab, found: Attribution, so_far: Healing) -> Healing | None:
    """The end of a run whose failures are not for healing, None where the change has failures of its own."""
    if found.too_slow:
        return replace(so_far, outcome=Outcome.TOO_SLOW)
    if found.old and bench.config.heal.preexisting == "block":
        words = "These tests fail at HEAD too, and heal.preexisting is block."
        return replace(so_far, outcome=Outcome.UNHEALED, failures=found.old, problem=words)
    if found.own:
        return None
    outcome = Outcome.PREEXISTING if found.old else Outcome.FLAKY
    return replace(so_far, outcome=outcome, failures=found.old or found.flaky, notes=_excuses(lab, found))


def _excuses(lab: Lab, found: Attribution) -> tuple[str, ...]:
    """A sentence on every failure that is not the change's own."""
    flaky = (f"{failure.nodeid} failed once and not again: flaky." for failure in found.flaky)
    return (*flaky, *(wording(lab, failure) for failure in found.old))


def _try_engines(bench: Bench, lab: Lab, case: Case, found: Attribution, so_far: Healing, deadline: float) -> Healing:
    """Each engine in turn, each proposal of it, until one is plausible or the time is over."""
    attempts: list[Attempt] = []
    problem = ""
    try:
        for engine, seconds in bench.engines():
            until = min(deadline, time.monotonic() + seconds)
            for proposal in _within(engine.propose(case, attempts), until):
                attempt = _attempt(bench, lab, case, found, so_far.baseline, engine.name, proposal)
                attempts.append(attempt)
                if not attempt.reason:
                    return replace(so_far, outcome=Outcome.HEALED, patch=attempt.patch, attempts=tuple(attempts))
    except ProviderError as error:
        problem = f"The model could not be asked: {error.problem}"
        so_far = replace(so_far, advice=error.advice)
    return replace(so_far, outcome=Outcome.UNHEALED, attempts=tuple(attempts), problem=problem)


def _within(proposals: Iterator[Patch | Refusal], deadline: float) -> Iterator[Patch | Refusal]:
    """The proposals until `deadline`; none is asked for after it."""
    while time.monotonic() < deadline:
        try:
            yield next(proposals)
        except StopIteration:
            return


def _attempt(
    bench: Bench,
    lab: Lab,
    case: Case,
    found: Attribution,
    baseline: Result | None,
    engine: str,
    proposal: Patch | Refusal,
) -> Attempt:
    """What becomes of one proposal: refused, or run against the tests; no `reason` means that it is plausible."""
    assert baseline is not None
    if isinstance(proposal, Refusal):
        return Attempt(engine, None, proposal.reason, reply=proposal.reply)
    editable = [source.path for source in case.editable]
    if refusal := policy.refuse(proposal, editable, bench.config.heal.max_changed_lines):
        return Attempt(engine, proposal, refusal)
    verdict = verify(proposal, lab, baseline, case.failures, excused=frozenset(old.nodeid for old in found.old))
    return Attempt(engine, proposal, verdict.reason, verdict.failures)
