"""The ladder that a patch climbs: the failing tests must pass, then every other selected test be as it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heal_core.failure import Failure
from heal_core.lab import Lab
from heal_core.patch import Patch
from heal_core.suite import Result, Status


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a patch is plausible (passes the tests); if not, why, and the failures that it left."""

    plausible: bool
    reason: str = ""
    failures: tuple[Failure, ...] = ()


def verify(
    patch: Patch, lab: Lab, baseline: Result, failures: Sequence[Failure], excused: frozenset[str] = frozenset()
) -> Verdict:
    """Run `patch` against the tests: first the failing ones alone, then the whole selection, each in a fresh copy.

    `baseline` is the run of the unpatched tree, `failures` those to be healed; the ids in `excused` fail at HEAD too,
    and may go on failing.
    """
    failing = _failing_ids(failures)
    rungs = [failing, None] if failing and len(failing) < len(baseline.outcomes) else [None]
    for only in rungs:
        result = lab.run(patch.files, only)
        if objection := next(_objections(result, baseline, only, excused), ""):
            return Verdict(False, objection, result.failures)
    return Verdict(True)


def _failing_ids(failures: Sequence[Failure]) -> tuple[str, ...]:
    """The ids of the failing tests, none where a failure is not a single test's (a module that does not import)."""
    if any(failure.when in ("collect", "crash", "timeout") for failure in failures):
        return ()
    return tuple(dict.fromkeys(failure.nodeid for failure in failures))


def _objections(result: Result, baseline: Result, only: Sequence[str] | None, excused: frozenset[str]) -> Iterator[str]:
    """What is wrong with a run of a patched tree, by comparison with the unpatched one."""
    excused_only = result.status is Status.FAILED and {failure.nodeid for failure in result.failures} <= excused
    if result.status is not Status.PASSED and not excused_only:
        yield _words(result)
    expected = baseline.outcomes if only is None else {nodeid: baseline.outcomes[nodeid] for nodeid in only}
    for nodeid, before in expected.items():
        after = result.outcomes.get(nodeid, "missing")
        if after not in _allowed(before, nodeid in excused):
            yield f"with the patch {nodeid} is {after or 'not run'}; before it was {before or 'not run'}"
    known_in_full = all(failure.when not in ("collect", "crash") for failure in baseline.failures)
    if known_in_full and result.outcomes.keys() - expected.keys():
        yield "with the patch there are tests that were not there before"
    if "passed" not in result.outcomes.values():
        yield "with the patch no test passes"


def _allowed(before: str, excused: bool) -> tuple[str, ...]:
    """The outcomes that a test may have with the patch, by the one it had without; "" is one that did not run."""
    if before in ("skipped", "xfailed", ""):
        return ("skipped", "xfailed", "passed")
    return ("passed", "failed") if excused else ("passed",)


def _words(result: Result) -> str:
    """How a run that did not pass ended, in words for the next attempt and for the report."""
    if result.status is Status.FAILED:
        ids = [failure.nodeid or "the run" for failure in result.failures]
        more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
        return f"with the patch {ids[0]}{more} still fails: {result.failures[0].headline()}"
    if result.status is Status.TIMED_OUT:
        return "with the patch the tests did not end within the time limit"
    return f"with the patch the tests could not be judged ({result.status.value}): {result.problem}"
