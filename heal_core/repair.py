"""The order of events after the first failure: whose it is, the case, the engines, the first patch that is proved."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from heal_core import policy
from heal_core.attempt import Attempt
from heal_core.attribution import Attribution, attribute, wording
from heal_core.case import check_environment, make_case, nothing_editable
from heal_core.errors import ProviderError
from heal_core.healing import Bench, Healing, Outcome
from heal_core.lab import Lab
from heal_core.localize import Case
from heal_core.patch import Patch, Refusal
from heal_core.pytest_settings import Settings
from heal_core.sandbox import Choice
from heal_core.suite import Result
from heal_core.verify import verify


def repair(
    bench: Bench, lab: Lab, choice: Choice, settings: Settings, files: Mapping[str, bytes], so_far: Healing
) -> Healing:
    """What becomes of a change whose tests fail: is the failure its own, and does any proposal mend it?

    `so_far` holds the selection and the failing run, `files` is the staged tree.
    """
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
    if reason := bench.not_placeable(case):
        return replace(so_far, outcome=Outcome.NOT_PLACED, problem=reason)
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
