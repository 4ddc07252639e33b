"""What the user reads: an outcome as text for a terminal of 80 columns, or as one JSON object.

No meaning is carried by colour. The last line of anything but success is what to type next.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from heal_core.attempt import Attempt
from heal_core.failure import Failure, Raised
from heal_core.healing import Healing, Outcome
from heal_core.patch import Patch
from heal_core.record import Saved

COLUMNS = 80
MAX_GROUPS = 6
MAX_MESSAGE_LINES = 8
MAX_FRAMES = 8
MAX_OUTPUT_LINES = 15
MAX_REASON_LINES = 4
MAX_ATTEMPTS_TOLD = 6


@dataclass(frozen=True, slots=True)
class Report:
    """A healing, with what became of its patch.

    `staged` tells whether the patch was placed, `record` the id for `selfheal undo`; `why_not` why it was not ("" when
    nothing was to be placed), `saved` where it was saved instead. `in_commit` is that a `git commit` is under way,
    `requests` and `tokens` are what the model cost, `exit_status` is selfheal's own.
    """

    healing: Healing
    exit_status: int
    staged: bool = False
    record: str = ""
    in_commit: bool = False
    why_not: str = ""
    saved: Saved | None = None
    notes: tuple[str, ...] = ()
    requests: int = 0
    tokens: int = 0


def as_text(report: Report) -> str:
    """The report for a terminal, without a line end."""
    return "\n".join(_lines(report))


def as_json(report: Report) -> str:
    """The report as one JSON object, with the keys that the README lists."""
    healing = report.healing
    baseline = healing.baseline
    outcomes = list(baseline.outcomes.values()) if baseline else []
    return json.dumps(
        {
            "outcome": healing.outcome.name,
            "exit": report.exit_status,
            "tests": {
                "files": [{"path": test.path, "reasons": test.reasons} for test in healing.selection.tests],
                "untested": healing.selection.untested,
                "counts": {word: outcomes.count(word) for word in ("passed", "failed", "skipped", "xfailed")},
                "deselected": baseline.deselected if baseline else 0,
                "ids": dict(baseline.outcomes) if baseline else {},
            },
            "failures": [_failure_row(failure) for failure in healing.failures],
            "attempts": [_attempt_row(attempt) for attempt in healing.attempts],
            "patch": None if healing.patch is None else {**_patch_row(healing.patch), "staged": report.staged},
            "proposals": [],
            "cost": {"requests": report.requests, "tokens": report.tokens, "seconds": round(healing.seconds, 3)},
            "sandbox": healing.sandbox,
            "interpreter": healing.interpreter,
            "problem": report.why_not or healing.problem,
            "notes": [*healing.notes, *report.notes],
            "next": _next(report),
        },
        ensure_ascii=True,
    )


def _lines(report: Report) -> Iterator[str]:
    healing = report.healing
    yield from _wrapped(f"selfheal: {_headline(report)}")
    yield from _failures(healing.failures)
    if healing.outcome is Outcome.BROKEN and healing.baseline:
        yield from _output(healing.baseline.output)
    yield from _attempts(healing.attempts)
    if healing.patch:
        yield ""
        yield from _wrapped(healing.patch.diagnosis)
        yield from healing.patch.diff().rstrip("\n").split("\n")
        yield ""
    if report.saved:
        yield from _wrapped(f"The patch is saved. By hand: git apply --cached {report.saved.diff_file}")
    for sentence in (*healing.notes, *report.notes):
        yield from _wrapped(f"note: {sentence}")
    if cost := _cost(report):
        yield from _wrapped(cost)
    if step := _next(report):
        yield f"next: {step}"


def _headline(report: Report) -> str:
    """The outcome in a sentence or two."""
    return SENTENCES[report.healing.outcome](report)


def _failed(healing: Healing) -> str:
    return _count(len({failure.nodeid for failure in healing.failures}), "test")


def _by(healing: Healing) -> str:
    return f" by the {healing.patch.engine} engine" if healing.patch else ""


def _why(healing: Healing) -> str:
    return f" {healing.problem}" if healing.problem else ""


def _flaky(report: Report) -> str:
    return f"{_failed(report.healing)} failed once and not again: flaky. The commit goes on."


def _preexisting(report: Report) -> str:
    return f"{_failed(report.healing)} failed, at HEAD too; the commit goes on."


def _healed(report: Report) -> str:
    failed = _failed(report.healing)
    is_or_are = "is" if failed.startswith("1 ") else "are"
    return f"{failed} failed and {is_or_are} healed{_by(report.healing)}; the fix is staged."


def _review(report: Report) -> str:
    return (
        f"{_failed(report.healing)} failed; a fix{_by(report.healing)} is staged, and the commit stops for your review."
    )


def _proposed(report: Report) -> str:
    failed, by = _failed(report.healing), _by(report.healing)
    return f"{failed} failed; a fix was proved{by}, nothing was changed: {report.why_not}"


def _not_placed(report: Report) -> str:
    if report.healing.patch is None:
        return f"{_failed(report.healing)} failed, and no fix was looked for: {report.healing.problem}"
    failed, by = _failed(report.healing), _by(report.healing)
    return f"{failed} failed; a fix was proved{by} but not placed, nothing was changed: {report.why_not}"


def _unhealed(report: Report) -> str:
    return f"{_failed(report.healing)} failed and no fix was found; nothing was changed.{_why(report.healing)}"


def _broken(report: Report) -> str:
    return f"the tests could not be judged.{_why(report.healing)}"


def _no_tests(report: Report) -> str:
    healing = report.healing
    deselected = healing.baseline.deselected if healing.baseline else 0
    names = ", ".join(healing.selection.untested[:5])
    parts = []
    if names:
        parts.append(f"no tests for {names}.")
    if deselected:
        parts.append(f"{_count(deselected, 'test')} of {_files(healing)} deselected by the project's pytest settings.")
    elif healing.selection.tests:
        parts.append(f"no tests were collected from {_files(healing)}.")
    return " ".join(parts) or "no tests: nothing that is staged is known to any."


def _passed(report: Report) -> str:
    healing = report.healing
    assert healing.baseline is not None
    words = [f"{len(healing.baseline.having('passed'))} passed"]
    words += [f"{count} {word}" for word in ("skipped", "xfailed") if (count := len(healing.baseline.having(word)))]
    if healing.baseline.deselected:
        words.append(f"{healing.baseline.deselected} deselected")
    untested = f" No tests for {', '.join(healing.selection.untested[:5])}." if healing.selection.untested else ""
    return f"{', '.join(words)} in {healing.baseline.seconds:.1f} s ({healing.sandbox}).{untested}"


def _failures(failures: Sequence[Failure]) -> Iterator[str]:
    """The failures, those with one signature told once."""
    groups: dict[tuple[str, str], list[Failure]] = {}
    for failure in failures:
        groups.setdefault(failure.signature(), []).append(failure)
    for group in list(groups.values())[:MAX_GROUPS]:
        yield ""
        others = len({failure.nodeid for failure in group}) - 1
        more = f"  (and {others} more in the same way)" if others else ""
        yield f"FAILED {group[0].nodeid or 'the test run'}{more}"
        yield from _exception(group[0])
    if len(groups) > MAX_GROUPS:
        yield ""
        yield f"and {len(groups) - MAX_GROUPS} more kinds of failure"


def _exception(failure: Failure) -> Iterator[str]:
    if failure.raised is None:
        yield from _output(failure.text)
        return
    yield from _message(failure.raised, "")
    for raised in _causes(failure.raised):
        yield from _message(raised, "from ")
    frames = [*dict.fromkeys(reversed(failure.frames()))]
    if len(frames) > MAX_FRAMES:
        yield f"    ({len(frames) - MAX_FRAMES} outer frames left out)"
    for frame in frames[-MAX_FRAMES:]:
        where = f"    {frame.path}:{frame.lineno}" + (f" in {frame.name}" if frame.name else "")
        yield where
        if frame.line:
            yield _clipped(f"        {frame.line}")


def _causes(raised: Raised) -> tuple[Raised, ...]:
    """What else stands in the chain, the leaves of a group among it, bounded."""
    return tuple(raised.walk())[1:6]


def _message(raised: Raised, relation: str) -> Iterator[str]:
    lines = raised.message.strip().split("\n")
    first = f"  {relation}{raised.type}: {lines[0]}" if lines[0] else f"  {relation}{raised.type}"
    yield _clipped(first)
    for line in lines[1:MAX_MESSAGE_LINES]:
        yield _clipped(f"    {line}")
    if len(lines) > MAX_MESSAGE_LINES:
        yield f"    ({len(lines) - MAX_MESSAGE_LINES} more lines)"


def _attempts(attempts: Sequence[Attempt]) -> Iterator[str]:
    """What was tried without success: each attempt in its own words, many quick ones of an engine in a sentence."""
    failed = [attempt for attempt in attempts if attempt.reason]
    for engine in dict.fromkeys(attempt.engine for attempt in failed):
        own = [attempt for attempt in failed if attempt.engine == engine]
        yield ""
        if len(own) > MAX_ATTEMPTS_TOLD:
            yield f"The {engine} engine tried {len(own)} patches that did not help."
            continue
        for number, attempt in enumerate(own, 1):
            yield f"Attempt {number} of the {engine} engine:"
            reason = attempt.reason.partition("\n")[0]
            yield from (f"    {line}" for line in textwrap.wrap(reason, COLUMNS - 4)[:MAX_REASON_LINES])


def _output(text: str) -> Iterator[str]:
    """The end of what the run printed."""
    for line in text.strip().split("\n")[-MAX_OUTPUT_LINES:]:
        yield _clipped(f"    {line}")


def _cost(report: Report) -> str:
    healing = report.healing
    if not healing.failures:
        return ""
    asked = f"{_count(report.requests, 'request')}, {report.tokens:,} tokens, " if report.requests else ""
    attempts = _count(len(healing.attempts), "attempt")
    return f"cost: {attempts}, {asked}{healing.seconds:.1f} s; sandbox: {healing.sandbox}."


def _next(report: Report) -> str:
    """What to type next, "" where nothing is to be done."""
    healing = report.healing
    if report.saved:
        return f"selfheal apply {report.saved.id}"
    if healing.advice:
        return healing.advice
    match healing.outcome:
        case Outcome.HEALED:
            return f"git {'show' if report.in_commit else 'commit'}  (selfheal undo {report.record} takes it back)"
        case Outcome.REVIEW:
            return f"git diff --cached, then git commit again  (selfheal undo {report.record} takes it back)"
        case Outcome.UNHEALED:
            return "mend it, git add, and commit again (git commit --no-verify skips selfheal)"
        case Outcome.BROKEN:
            return f"make the tests run with {healing.interpreter}, then commit again"
        case Outcome.TOO_SLOW:
            return "raise tests.timeout_seconds: selfheal run --set tests.timeout_seconds=SECONDS"
        case Outcome.FLAKY:
            return f"look at {healing.failures[0].nodeid}, which failed once"
    return ""


def _failure_row(failure: Failure) -> dict[str, Any]:
    frames = [{"path": f.path, "lineno": f.lineno, "name": f.name, "line": f.line} for f in failure.frames()]
    return {
        "nodeid": failure.nodeid,
        "when": failure.when,
        "type": failure.raised.type if failure.raised else "",
        "message": failure.raised.message if failure.raised else failure.text,
        "frames": frames,
    }


def _attempt_row(attempt: Attempt) -> dict[str, Any]:
    patch = None if attempt.patch is None else attempt.patch.diff()
    return {"engine": attempt.engine, "reason": attempt.reason, "plausible": not attempt.reason, "diff": patch}


def _patch_row(patch: Patch) -> dict[str, Any]:
    return {
        "engine": patch.engine,
        "diagnosis": patch.diagnosis,
        "files": [rewrite.path for rewrite in patch.files],
        "diff": patch.diff(),
    }


def _files(healing: Healing) -> str:
    paths = [test.path for test in healing.selection.tests]
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more files"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, break_long_words=False, break_on_hyphens=False) or [""]


def _clipped(line: str) -> str:
    return line if len(line) <= COLUMNS else line[: COLUMNS - 3] + "..."


SENTENCES: Mapping[Outcome, Callable[[Report], str]] = {
    Outcome.NOTHING_STAGED: lambda _: "nothing is staged.",
    Outcome.NO_TESTS: _no_tests,
    Outcome.PASSED: _passed,
    Outcome.FLAKY: _flaky,
    Outcome.PREEXISTING: _preexisting,
    Outcome.HEALED: _healed,
    Outcome.REVIEW: _review,
    Outcome.PROPOSED: _proposed,
    Outcome.NOT_PLACED: _not_placed,
    Outcome.UNHEALED: _unhealed,
    Outcome.BROKEN: _broken,
    Outcome.TOO_SLOW: lambda _: "the tests did not end within tests.timeout_seconds, though none hangs by itself.",
}
