"""One run of the project's tests: what is started, and what may be believed of what comes back.

A run is believed only where three accounts agree: the event stream of the probe, the exit status of the process, and
pytest's own rules of what that status means (its documentation, "Exit codes").
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from heal_core import traceback
from heal_core.failure import Failure, from_event, plain
from heal_core.interpreter import Interpreter
from heal_core.sandbox import Finished, Job, Limits, Sandbox
from heal_core.workspace import Workspace

PROBE = Path(__file__).parent / "probe"
USAGE_STATUS, NO_TESTS_STATUS, NO_PYTEST_STATUS = 4, 5, 64
ERROR_LINE = re.compile(r"\berror\b", re.IGNORECASE)
OUTPUT_TAIL_CHARACTERS = 6000


class Status(Enum):
    """How one run ended."""

    PASSED = "passed"
    FAILED = "failed"
    NO_TESTS = "no tests"
    TIMED_OUT = "timed out"
    BROKEN = "broken"
    TAMPERED = "tampered"


@dataclass(frozen=True, slots=True)
class Run:
    """What to run: the interpreter, the folder of the repository whose settings apply ("" for its root), the test files
    (relative to the repository), and pytest's further arguments."""

    interpreter: Interpreter
    rootdir: str
    files: tuple[str, ...]
    args: tuple[str, ...]
    environ: tuple[tuple[str, str], ...]
    roots: tuple[str, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class Result:
    """What a run showed: node ids (relative to the repository) with their outcome ("passed", "failed", "skipped",
    "xfailed"; "" for one that did not run), the failures, how many tests were deselected, the end of what was printed,
    and for a run that could not be judged the `problem`."""

    status: Status
    outcomes: Mapping[str, str]
    failures: tuple[Failure, ...] = ()
    deselected: int = 0
    output: str = ""
    seconds: float = 0.0
    problem: str = ""

    def having(self, *outcomes: str) -> tuple[str, ...]:
        """The ids of the tests that ended in one of `outcomes`."""
        return tuple(nodeid for nodeid, outcome in self.outcomes.items() if outcome in outcomes)


def run(plan: Run, sandbox: Sandbox, workspace: Workspace, only: Sequence[str] | None = None) -> Result:
    """Run `plan` in `workspace` under `sandbox`, keeping only the node ids in `only` where it is given."""
    return judge(plan, sandbox.run(_job(plan, sandbox, workspace, only)), workspace)


def holds(plan: Run, nodeid: str) -> bool:
    """Whether the test of `nodeid` lies in a file of `plan`."""
    return nodeid.partition("::")[0] in plan.files


def combine(results: Sequence[Result]) -> Result:
    """Several runs as one: it failed if any did, and could not be judged if any could not."""
    if len(results) == 1:
        return results[0]
    order = (Status.TAMPERED, Status.BROKEN, Status.TIMED_OUT, Status.FAILED, Status.PASSED, Status.NO_TESTS)
    worst = min(results, key=lambda result: order.index(result.status))
    return Result(
        status=worst.status,
        outcomes={nodeid: outcome for result in results for nodeid, outcome in result.outcomes.items()},
        failures=tuple(failure for result in results for failure in result.failures),
        deselected=sum(result.deselected for result in results),
        output="\n".join(result.output for result in results if result.output),
        seconds=sum(result.seconds for result in results),
        problem=worst.problem,
    )


def _job(plan: Run, sandbox: Sandbox, workspace: Workspace, only: Sequence[str] | None) -> Job:
    base = workspace.seen_at if sandbox.isolates else workspace.folder.resolve()
    prefix = f"{plan.rootdir}/" if plan.rootdir else ""
    files = [f"./{path.removeprefix(prefix)}" for path in plan.files]
    spec = {
        "args": ["--rootdir=.", *plan.args, *files],
        "only": None if only is None else [nodeid.removeprefix(prefix) for nodeid in only if holds(plan, nodeid)],
        "roots": [str(base / root) for root in plan.roots],
        "roots_first": not sandbox.isolates,
        "original": "" if sandbox.isolates else str(workspace.seen_at),
        "seconds": plan.limits.seconds,
    }
    return Job(
        argv=(str(plan.interpreter.program), str(PROBE / "launch.py")),
        workspace=workspace.folder,
        seen_at=workspace.seen_at,
        subfolder=plan.rootdir,
        readable=(*plan.interpreter.readable, PROBE),
        environ={**dict(plan.environ), "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=json.dumps(spec).encode("ascii"),
        limits=plan.limits,
    )


def judge(plan: Run, done: Finished, workspace: Workspace) -> Result:
    """The result of a finished run, TAMPERED where its accounts disagree."""
    account = _Account(plan, done, workspace)
    try:
        account.read()
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
        return account.result(Status.TAMPERED, f"the report of the run is not what the probe writes ({error})")
    return account.verdict()


class _Account:
    """What the events of one run say, collected row by row."""

    def __init__(self, plan: Run, done: Finished, workspace: Workspace) -> None:
        self.plan, self.done, self.workspace = plan, done, workspace
        self.prefix = f"{plan.rootdir}/" if plan.rootdir else ""
        self.phases: dict[str, list[str]] = {}
        self.failures: list[Failure] = []
        self.deselected = 0
        self.running = ""
        self.finish: Mapping[str, int] = {}
        self.collect_errors = 0
        self.session_error = False
        self.foreign: Sequence[str] = ()
        self.missing: Mapping[str, Any] | None = None

    def read(self) -> None:
        if self.done.overflowed:
            raise ValueError("it is too long")
        for line in self.done.report.splitlines():
            if self.finish:
                raise ValueError("something follows its end")
            row = json.loads(line)
            self.EVENTS[row["event"]](self, row)

    def _collecting(self, row: Mapping[str, Any]) -> None:
        self.running = self._id(row)

    def _collected(self, row: Mapping[str, Any]) -> None:
        self.running = ""
        if self.phases.setdefault(self._id(row), []):
            raise ValueError("a test is collected after it ran")

    def _deselected(self, row: Mapping[str, Any]) -> None:
        self.deselected += int(row["count"])

    def _running(self, row: Mapping[str, Any]) -> None:
        self.running = self._id(row)

    def _outcome(self, row: Mapping[str, Any]) -> None:
        nodeid = self._id(row)
        if nodeid not in self.phases:
            raise ValueError(f"{nodeid} was not collected")
        self.phases[nodeid].append(f"{row['when']} {row['outcome']}")
        if row["failure"] is not None:
            self._add(nodeid, row["when"], row["failure"])

    def _collect_error(self, row: Mapping[str, Any]) -> None:
        self.collect_errors += 1
        self._add(self._id(row), "collect", row["failure"])

    def _session_error(self, row: Mapping[str, Any]) -> None:
        self.session_error = True
        self._add("", "collect", row["failure"])

    def _foreign(self, row: Mapping[str, Any]) -> None:
        self.foreign = [str(path) for path in row["files"]]

    def _finish(self, row: Mapping[str, Any]) -> None:
        self.finish = {name: int(row[name]) for name in ("status", "failed", "collected")}
        self.running = ""

    def _no_pytest(self, row: Mapping[str, Any]) -> None:
        self.missing = row

    EVENTS: ClassVar[Mapping[str, Callable[[_Account, Mapping[str, Any]], None]]] = {
        "collecting": _collecting,
        "collected": _collected,
        "deselected": _deselected,
        "running": _running,
        "outcome": _outcome,
        "collect-error": _collect_error,
        "session-error": _session_error,
        "foreign": _foreign,
        "finish": _finish,
        "no-pytest": _no_pytest,
    }

    def _id(self, row: Mapping[str, Any]) -> str:
        if not isinstance(row["id"], str):
            raise TypeError("an id is not a text")
        return f"{self.prefix}{row['id']}" if row["id"] else self.plan.rootdir

    def _add(self, nodeid: str, when: str, payload: Mapping[str, Any]) -> None:
        self.failures.append(from_event(nodeid, when, payload, self._path))

    def _path(self, absolute: str) -> str:
        """A path that the run saw, relative to the repository where it lies in it and not in the environment."""
        path, root = Path(absolute), self.done.root
        inside = [folder for folder in self.plan.interpreter.readable if folder.is_relative_to(root)]
        if not path.is_relative_to(root) or any(path.is_relative_to(folder) for folder in inside):
            return absolute
        return self.workspace.real(path.relative_to(root).as_posix())

    def verdict(self) -> Result:
        """The rules, the first that fits."""
        status, finish = self.done.exit_status, self.finish
        if self.missing is not None and status == NO_PYTEST_STATUS:
            words = f"{self.missing['python']} cannot import pytest: {self.missing['message']}"
            return self.result(Status.BROKEN, words)
        if self.foreign:
            words = f"the tests imported {self.foreign[0]} from the working tree, not what is staged"
            return self.result(Status.BROKEN, words)
        if self.done.timed_out:
            return self._stopped(Status.TIMED_OUT, "timeout")
        if not finish:
            return self._unfinished()
        if finish["status"] != status:
            return self.result(Status.TAMPERED, f"pytest ended with {finish['status']}, its process with {status}")
        return self._finished(status)

    def _unfinished(self) -> Result:
        """pytest did not come to its end: it could not start, was told to exit, or its process died."""
        if self.failures and (self.session_error or not self.running):
            return self.result(Status.FAILED)
        if self.done.exit_status == USAGE_STATUS and not self.running:
            return self.result(Status.BROKEN, f"pytest could not start: {self._complaint()}")
        if not self.done.report:
            return self.result(Status.BROKEN, f"the interpreter did not get as far as pytest: {self._complaint()}")
        return self._stopped(Status.FAILED, "crash")

    def _complaint(self) -> str:
        """The line of the output that says what is wrong, the last one where none says so."""
        lines = [line.strip() for line in self._output().splitlines() if line.strip()]
        complaints = [line for line in lines if ERROR_LINE.search(line)]
        return (complaints or lines or [f"exit {self.done.exit_status}, and not a word"])[-1]

    def _stopped(self, status: Status, when: str) -> Result:
        """The process died in the middle: the test that was running is what is known."""
        output = self._output()
        known = traceback.faulthandler_frames(output, self._path)
        frames = tuple(frame for frame in known if not frame.path.startswith(str(PROBE)))
        raised = traceback.fatal(output, when, self.done.exit_status, self.plan.limits.seconds, frames)
        self.failures.append(Failure(self.running, when, raised, output))
        if self.running in self.phases:
            self.phases[self.running].append(f"{when} failed")
        return self.result(status)

    def _finished(self, status: int) -> Result:
        well = {"passed", "skipped", "xfailed"}.issuperset(map(_outcome_of, self.phases.values()))
        if status == 0 and (not well or self.failures or self.finish["failed"]):
            return self.result(Status.TAMPERED, "pytest ended well, yet not every test is reported as passed")
        if status in (0, NO_TESTS_STATUS) and not self.phases and not self.failures:
            return self.result(Status.NO_TESTS)
        if status == 0:
            return self.result(Status.PASSED)
        if status in (1, 2, 3) and self.failures:
            return self.result(Status.FAILED)
        words = f"pytest ended with exit {status}, and no test is reported as failed: {self._complaint()}"
        return self.result(Status.BROKEN, words)

    def result(self, status: Status, problem: str = "") -> Result:
        """The result so far, under `status`."""
        return Result(
            status=status,
            outcomes={nodeid: _outcome_of(rows) for nodeid, rows in self.phases.items()},
            failures=tuple(self.failures),
            deselected=self.deselected,
            output=self._output()[-OUTPUT_TAIL_CHARACTERS:],
            seconds=self.done.seconds,
            problem=problem,
        )

    def _output(self) -> str:
        return plain(self.done.output.decode("utf-8", "replace"))


def _outcome_of(rows: Iterable[str]) -> str:
    """One word for a test's phases: any failure is a failure, and a skip anywhere is not a pass."""
    words = {row.rpartition(" ")[2] for row in rows}
    for word in ("failed", "skipped", "xfailed"):
        if word in words:
            return word
    return "passed" if "call passed" in rows else ""
