"""The order of events from a staged change to an outcome, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice

from heal_core import diagnose, policy
from heal_core.config import Config
from heal_core.engines import Attempt, Engine
from heal_core.errors import ProviderError
from heal_core.failure import Failure
from heal_core.imports import imported_modules
from heal_core.interpreter import Interpreter
from heal_core.lab import Lab
from heal_core.localize import Case, localize
from heal_core.patch import Patch, Refusal
from heal_core.pytest_settings import Settings, read_settings
from heal_core.repo import Snapshot
from heal_core.sandbox import Choice, Limits
from heal_core.selection import Selection, select
from heal_core.source import Source
from heal_core.suite import Result, Run, Status
from heal_core.verify import verify
from heal_core.workspace import Workspace, checked_out

# How many of the repository's files are read for the names of the modules that they import.
MAX_READ_FILES = 300


class Outcome(Enum):
    """How judging and healing a commit ended; their names are the words of `--format json`."""

    NOTHING_STAGED = "nothing-staged"
    NO_TESTS = "no-tests"
    PASSED = "passed"
    FLAKY = "flaky"
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
        lab = Lab(bench.snapshot, choice.sandbox, _runs(bench, selection, interpreter, workspace))
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
    began = time.monotonic()
    baseline = so_far.baseline
    assert baseline is not None
    _check_environment(bench, baseline.failures, so_far.interpreter)
    again = _again(lab, baseline)
    if again is None:
        return replace(so_far, outcome=Outcome.TOO_SLOW, failures=baseline.failures)
    if not again:
        return replace(so_far, outcome=Outcome.FLAKY, failures=baseline.failures)
    case, notes = _case(bench, again, settings, files)
    so_far = replace(so_far, failures=again, notes=notes)
    if not choice.heals:
        return replace(so_far, outcome=Outcome.UNHEALED, problem=choice.reason)
    if not case.editable:
        return replace(so_far, outcome=Outcome.UNHEALED, problem=_nothing_editable(bench, settings))
    return _try_engines(bench, lab, case, so_far, began + bench.config.heal.max_seconds)


def _try_engines(bench: Bench, lab: Lab, case: Case, so_far: Healing, deadline: float) -> Healing:
    """Each engine in turn, each proposal of it, until one is plausible or the time is over."""
    attempts: list[Attempt] = []
    baseline = so_far.baseline
    assert baseline is not None
    problem = ""
    failing = _failing_ids(case.failures)
    try:
        for engine, seconds in bench.engines():
            for proposal in _within(engine.propose(case, attempts), min(deadline, time.monotonic() + seconds)):
                attempt = _attempt(bench, lab, case, baseline, failing, engine.name, proposal)
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
    baseline: Result,
    failing: Sequence[str],
    engine: str,
    proposal: Patch | Refusal,
) -> Attempt:
    """What becomes of one proposal: refused, or run against the tests; no `reason` means that it is plausible."""
    if isinstance(proposal, Refusal):
        return Attempt(engine, None, proposal.reason, reply=proposal.reply)
    editable = [source.path for source in case.editable]
    if refusal := policy.refuse(proposal, editable, bench.config.heal.max_changed_lines):
        return Attempt(engine, proposal, refusal)
    verdict = verify(proposal, lab, baseline, failing)
    return Attempt(engine, proposal, verdict.reason, verdict.failures)


def _nothing_editable(bench: Bench, settings: Settings) -> str:
    """Why none of the staged files may be changed, in a sentence."""
    reasons = (policy.may_edit(path, settings.is_test_file(path)) for path in bench.snapshot.change.changed)
    first = next((reason for reason in reasons if reason), "they are no text files that are there after the change")
    return f"No staged file may be edited to heal this: {first}."


def _runs(bench: Bench, selection: Selection, interpreter: Interpreter, workspace: Workspace) -> tuple[Run, ...]:
    """One run for each folder with pytest settings of its own."""
    tests, sandbox = bench.config.tests, bench.config.sandbox
    environ = tuple((name, bench.environ[name]) for name in tests.env if name in bench.environ)
    rootdirs = dict.fromkeys(chosen.rootdir for chosen in selection.tests)
    return tuple(
        Run(
            interpreter=interpreter,
            rootdir=rootdir,
            files=tuple(chosen.path for chosen in selection.tests if chosen.rootdir == rootdir),
            args=tests.args,
            environ=environ,
            roots=_roots(rootdir, workspace),
            limits=Limits(tests.timeout_seconds, sandbox.memory_mb, sandbox.processes),
        )
        for rootdir in rootdirs
    )


def _roots(rootdir: str, workspace: Workspace) -> tuple[str, ...]:
    """The folders that a project's own modules are imported from when it is not installed: its root and its `src`."""
    base = f"{rootdir}/" if rootdir else ""
    return tuple(root for root in (rootdir, f"{base}src") if (workspace.folder / root).is_dir())


def _check_environment(bench: Bench, failures: Sequence[Failure], python: str) -> None:
    snapshot = bench.snapshot
    tops = {path.partition("/")[0] for path in snapshot.paths()}
    inner = {path.split("/")[1] for path in snapshot.paths() if path.startswith("src/") and "/" in path}
    diagnose.check(
        failures,
        staged=lambda path: path in snapshot.paths(),
        project_modules={name.removesuffix(".py") for name in tops | inner},
        in_working_tree=lambda path: (snapshot.repo.toplevel / path).is_file(),
        python=python,
    )


def _again(lab: Lab, baseline: Result) -> tuple[Failure, ...] | None:
    """The failures of `baseline` that a second run shows too, in the same selection and order.

    A run that the time limit ended is judged by the test that was running, alone: where that ends well the selection as
    a whole is too slow, and None is returned.
    """
    if baseline.status is Status.TIMED_OUT:
        hanging = [failure for failure in baseline.failures if failure.when == "timeout" and failure.nodeid]
        alone = lab.run(only=[failure.nodeid for failure in hanging]) if hanging else baseline
        return None if alone.status is Status.PASSED else alone.failures
    again = lab.run()
    seen = {failure.nodeid for failure in baseline.failures}
    return tuple(failure for failure in again.failures if failure.nodeid in seen)


def _failing_ids(failures: Sequence[Failure]) -> tuple[str, ...]:
    """The ids of the failing tests, none where a failure is not one test's."""
    if any(failure.when in ("collect", "crash", "timeout") for failure in failures):
        return ()
    return tuple(dict.fromkeys(failure.nodeid for failure in failures))


def _case(
    bench: Bench, failures: tuple[Failure, ...], settings: Settings, files: Mapping[str, bytes]
) -> tuple[Case, tuple[str, ...]]:
    """All that an engine is told of `failures`, and notes on staged files that must be left alone."""
    snapshot = bench.snapshot
    editable, notes = [], []
    for path in snapshot.change.changed:
        if not path.endswith(".py") or policy.may_edit(path, settings.is_test_file(path)) is not None:
            continue
        source = Source.read(path, snapshot.read(path) or b"")
        if source is None:
            notes.append(
                f"{path} is not text in its declared encoding (UTF-8 where none is declared); it is left alone."
            )
        else:
            editable.append(source)
    tests = dict.fromkeys(failure.nodeid.partition("::")[0] for failure in failures)
    sources = (Source.read(path, snapshot.read(path) or b"") for path in tests if path.endswith(".py"))
    diff = snapshot.diff([source.path for source in editable])
    case = Case(
        failures=failures,
        suspects=localize(failures, editable, diff),
        editable=tuple(editable),
        tests=tuple(source for source in sources if source is not None),
        diff=diff,
        modules=imported_modules(files, list(islice((path for path in files if path.endswith(".py")), MAX_READ_FILES))),
    )
    return case, tuple(notes)
