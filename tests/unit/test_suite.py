"""What is believed of a finished run: only what the report, the exit status and pytest's own rules agree on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heal_core.interpreter import Interpreter
from heal_core.sandbox import Finished, Limits
from heal_core.suite import Result, Run, Status, combine, judge
from heal_core.workspace import Workspace

ROOT = Path("/repository")
WORKSPACE = Workspace(Path("/no/such/workspace"), ROOT)
FAILURE = {"raised": None, "text": "words", "output": ""}
RAISED: dict[str, Any] = {
    "type": "ValueError",
    "message": "words",
    "frames": [],
    "cause": None,
    "context": None,
    "members": [],
}


def plan(rootdir: str = "", readable: tuple[Path, ...] = ()) -> Run:
    limits = Limits(30, 4096, 256)
    interpreter = Interpreter(Path("/env/bin/python"), "PATH", readable)
    return Run(interpreter, rootdir, ("test_a.py",), (), (), (), limits)


def judged(
    *rows: object,
    exit_status: int = 0,
    report: bytes | None = None,
    output: bytes = b"",
    timed_out: bool = False,
    overflowed: bool = False,
    of: Run | None = None,
) -> Result:
    """The result of a run with these events, or with the very bytes of `report`."""
    if report is None:
        report = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    done = Finished(exit_status, timed_out, output, report, overflowed, 1.0, ROOT)
    return judge(of or plan(), done, WORKSPACE)


def collected(nodeid: str = "test_a.py::test_a") -> dict[str, Any]:
    return {"event": "collected", "id": nodeid}


def outcome(word: str = "passed", when: str = "call", nodeid: str = "test_a.py::test_a", **more: Any) -> dict[str, Any]:
    return {"event": "outcome", "id": nodeid, "when": when, "outcome": word, "failure": None} | more


def running(nodeid: str = "test_a.py::test_a") -> dict[str, Any]:
    return {"event": "running", "id": nodeid}


def finish(status: int = 0, failed: int = 0) -> dict[str, Any]:
    return {"event": "finish", "status": status, "failed": failed, "collected": 1}


PASSED_ROWS = (collected(), running(), outcome(when="setup"), outcome(), outcome(when="teardown"))
FAILED_ROWS = (
    collected(),
    running(),
    outcome(when="setup"),
    outcome("failed", failure=FAILURE),
    outcome(when="teardown"),
)


# -- what is believed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "exit_status", "status"),
    [
        ((*PASSED_ROWS, finish()), 0, Status.PASSED),
        ((*FAILED_ROWS, finish(1, 1)), 1, Status.FAILED),
        ((*FAILED_ROWS, finish(2, 1)), 2, Status.FAILED),
        ((collected(), outcome("skipped", "setup"), outcome(when="teardown"), finish()), 0, Status.PASSED),
        (
            (collected(), outcome(when="setup"), outcome("xfailed"), outcome(when="teardown"), finish()),
            0,
            Status.PASSED,
        ),
        ((finish(5),), 5, Status.NO_TESTS),
        (({"event": "deselected", "count": 3}, finish(5)), 5, Status.NO_TESTS),
        ((finish(0),), 0, Status.NO_TESTS),
        (({"event": "collect-error", "id": "test_a.py", "failure": FAILURE}, finish(2, 1)), 2, Status.FAILED),
        (({"event": "session-error", "failure": FAILURE},), 4, Status.FAILED),
        ((collected(), outcome(when="setup"), outcome("rerun"), outcome(), finish()), 0, Status.PASSED),
    ],
    ids=[
        "passed",
        "failed",
        "stopped early",
        "skipped",
        "xfailed",
        "none",
        "deselected",
        "none, and well",
        "collect error",
        "conftest",
        "run again by a plugin",
    ],
)
def test_accounts_that_agree_are_believed(rows: tuple[object, ...], exit_status: int, status: Status) -> None:
    assert judged(*rows, exit_status=exit_status).status is status


def test_any_failed_phase_is_a_failure_and_a_skip_anywhere_is_no_pass() -> None:
    rows = {
        "call": (outcome(when="setup"), outcome("failed", failure=FAILURE), outcome(when="teardown")),
        "teardown": (outcome(when="setup"), outcome(), outcome("failed", "teardown", failure=FAILURE)),
        "setup": (outcome("failed", "setup", failure=FAILURE), outcome(when="teardown")),
    }
    for when, phases in rows.items():
        result = judged(collected(), *phases, finish(1, 1), exit_status=1)
        assert (result.outcomes, result.failures[0].when) == ({"test_a.py::test_a": "failed"}, when)

    skipped = judged(collected(), outcome("skipped", "setup"), finish())
    assert (skipped.having("skipped"), skipped.having("passed")) == (("test_a.py::test_a",), ())


def test_ids_are_the_repositorys_where_a_folder_has_settings_of_its_own() -> None:
    rows = (*FAILED_ROWS, {"event": "collect-error", "id": "", "failure": FAILURE}, finish(1, 1))
    result = judged(*rows, exit_status=1, of=plan("pkg/sub"))

    assert result.outcomes == {"pkg/sub/test_a.py::test_a": "failed"}
    assert [failure.nodeid for failure in result.failures] == ["pkg/sub/test_a.py::test_a", "pkg/sub"]


@pytest.mark.parametrize(
    ("readable", "path", "shown"),
    [
        ((), "/repository/app.py", "app.py"),
        ((), "/elsewhere/app.py", "/elsewhere/app.py"),
        ((), "/repository2/app.py", "/repository2/app.py"),
        ((), "<frozen os>", "<frozen os>"),
        (("/repository/.venv",), "/repository/.venv/lib/x.py", "/repository/.venv/lib/x.py"),
        (("/repository/.venv",), "/repository/app.py", "app.py"),
        (("/",), "/repository/app.py", "app.py"),
    ],
)
def test_a_frames_path_is_relative_where_it_is_the_projects_own(
    readable: tuple[str, ...], path: str, shown: str
) -> None:
    frames = [[path, 3, "f", "line"]]
    failed = outcome("failed", failure=FAILURE | {"raised": RAISED | {"frames": frames}})
    result = judged(collected(), failed, finish(1, 1), exit_status=1, of=plan(readable=tuple(map(Path, readable))))

    raised = result.failures[0].raised
    assert raised is not None
    assert [(frame.path, frame.lineno) for frame in raised.frames] == [(shown, 3)]


# -- what is not ---------------------------------------------------------------------------------------------------

DISAGREE: Mapping[str, Callable[[], Result]] = {
    "the status is another": lambda: judged(*PASSED_ROWS, finish(0), exit_status=1),
    "the process died after it": lambda: judged(*PASSED_ROWS, finish(0), exit_status=137),
    "the process ended well, pytest did not": lambda: judged(*FAILED_ROWS, finish(1, 1), exit_status=0),
    "a failed test, and well": lambda: judged(*FAILED_ROWS, finish(0, 1)),
    "a failed test that finish does not count, and well": lambda: judged(*FAILED_ROWS, finish(0, 0)),
    "finish counts a failed test, and well": lambda: judged(*PASSED_ROWS, finish(0, 1)),
    "a file that was not collected, and well": lambda: judged(
        *PASSED_ROWS, {"event": "collect-error", "id": "test_b.py", "failure": FAILURE}, finish(0)
    ),
    "something after the end": lambda: judged(*PASSED_ROWS, finish(0), outcome()),
    "two ends": lambda: judged(*PASSED_ROWS, finish(0), finish(0)),
    "an empty line after the end": lambda: judged(report=b'{"event":"finish","status":0,"failed":0,"collected":0}\n\n'),
    "an id that was not collected": lambda: judged(*PASSED_ROWS, outcome(nodeid="test_a.py::test_b"), finish(0)),
    "no outcome at all": lambda: judged(collected(), finish(0)),
    "an outcome of the setup only": lambda: judged(collected(), outcome(when="setup"), finish(0)),
    "an outcome of no known name": lambda: judged(collected(), outcome("splendid"), finish(0)),
    "one of two tests": lambda: judged(collected("test_a.py::test_b"), *PASSED_ROWS, finish(0)),
    "a test that is collected after it ran": lambda: judged(*PASSED_ROWS, collected(), finish(0)),
    "too long": lambda: judged(*PASSED_ROWS, finish(0), overflowed=True),
    "an event of no known name": lambda: judged(*PASSED_ROWS, {"event": "passed"}, finish(0)),
    "no event": lambda: judged({}, finish(0)),
    "a list": lambda: judged([], finish(0)),
    "a text": lambda: judged("event", finish(0)),
    "a number": lambda: judged(1, finish(0)),
    "an event that is a list": lambda: judged({"event": []}, finish(0)),
    "an id that is a number": lambda: judged({"event": "collected", "id": 1}, finish(0)),
    "an id that is a list": lambda: judged({"event": "collected", "id": ["x"]}, finish(0)),
    "a count that is none": lambda: judged({"event": "deselected", "count": "many"}, finish(0)),
    "a count that is endless": lambda: judged(report=b'{"event":"deselected","count":1e999}\n'),
    "a count that is not a number": lambda: judged(report=b'{"event":"deselected","count":NaN}\n'),
    "deep": lambda: judged(report=b"[" * 200_000),
    "deep, and well formed": lambda: judged(report=b"[" * 200_000 + b"]" * 200_000),
    "deep objects": lambda: judged(report=b'{"a":' * 200_000),
    "a number of 5000 digits": lambda: judged(report=b'{"event":"deselected","count":' + b"9" * 5000 + b"}\n"),
    "not UTF-8": lambda: judged(report=b'\xff\xfe{"event"\n'),
    "not JSON": lambda: judged(report=b"passed\n"),
    "half a line": lambda: judged(report=b'{"event":"collected","id":"test_a.py::te'),
    "NUL": lambda: judged(report=b"\0\n"),
    "a failure that is a text": lambda: judged(
        collected(), outcome("failed", failure="words"), finish(1), exit_status=1
    ),
    "a failure without words": lambda: judged(collected(), outcome("failed", failure={}), finish(1), exit_status=1),
    "a failure whose text is a number": lambda: judged(
        collected(), outcome("failed", failure=FAILURE | {"text": 1}), finish(1), exit_status=1
    ),
    "a frame of three": lambda: judged(
        collected(),
        outcome("failed", failure=FAILURE | {"raised": RAISED | {"frames": [["a.py", 1, "f"]]}}),
        finish(1),
        exit_status=1,
    ),
    "a frame whose path is a number": lambda: judged(
        collected(),
        outcome("failed", failure=FAILURE | {"raised": RAISED | {"frames": [[1, 1, "f", ""]]}}),
        finish(1),
        exit_status=1,
    ),
}


@pytest.mark.parametrize("result", DISAGREE.values(), ids=DISAGREE)
def test_accounts_that_disagree_are_tampering(result: Callable[[], Result]) -> None:
    assert result().status is Status.TAMPERED
    assert result().problem


def test_a_chain_of_exceptions_deeper_than_the_probe_reports_is_tampering() -> None:
    raised: dict[str, Any] = RAISED
    for _ in range(300):
        raised = RAISED | {"cause": raised}
    result = judged(collected(), outcome("failed", failure=FAILURE | {"raised": raised}), finish(1, 1), exit_status=1)

    assert result.status is Status.TAMPERED


@pytest.mark.parametrize(
    ("rows", "exit_status", "output", "words"),
    [
        ((), 1, b"Traceback:\nImportError: libffi.so\n", "ImportError: libffi.so"),
        ((), 0, b"", "exit 0"),
        ((), 137, b"", "exit 137"),
        ((), 4, b"ERROR: usage: pytest\npytest: error: unrecognized arguments: --x\n  rootdir: /r\n", "arguments: --x"),
        ((collected(), finish(4)), 4, b"ERROR: not found: test_a.py\n\n", "ERROR: not found: test_a.py"),
        ((*PASSED_ROWS, finish(1)), 1, b"", "no test is reported as failed"),
        ((*PASSED_ROWS, finish(5)), 5, b"", "no test is reported as failed"),
        (
            ({"event": "no-pytest", "python": "/p", "message": "No module named 'pytest'"},),
            64,
            b"",
            "/p cannot import pytest",
        ),
        (({"event": "foreign", "files": ["/repo/app.py"]}, finish(0)), 0, b"", "/repo/app.py from the working tree"),
    ],
    ids=[
        "no interpreter",
        "silent",
        "killed",
        "usage",
        "usage after all",
        "status 1",
        "status 5",
        "no pytest",
        "foreign",
    ],
)
def test_a_run_that_cannot_be_judged_is_broken_and_says_why(
    rows: tuple[object, ...], exit_status: int, output: bytes, words: str
) -> None:
    result = judged(*rows, exit_status=exit_status, output=output)

    assert result.status is Status.BROKEN
    assert words in result.problem


# -- runs without an end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exit_status", [0, 1, 4, 139])
def test_a_process_that_ends_before_pytest_does_is_a_failure_of_the_test_that_was_running(exit_status: int) -> None:
    rows = (collected(), collected("test_a.py::test_b"), *PASSED_ROWS[1:], running("test_a.py::test_b"))
    result = judged(*rows, exit_status=exit_status, output=b"Fatal Python error: Segmentation fault\n")

    assert result.status is Status.FAILED
    assert result.outcomes == {"test_a.py::test_a": "passed", "test_a.py::test_b": "failed"}
    (failure,) = result.failures
    assert (failure.nodeid, failure.when, failure.headline()) == (
        "test_a.py::test_b",
        "crash",
        "Crash: Segmentation fault",
    )


def test_a_process_that_ends_in_an_import_is_a_failure_of_the_file() -> None:
    result = judged({"event": "collecting", "id": "test_a.py"}, exit_status=0)

    assert (result.status, result.outcomes) == (Status.FAILED, {})
    assert (result.failures[0].nodeid, result.failures[0].when) == ("test_a.py", "crash")


def test_the_time_limit_comes_before_every_other_account() -> None:
    for rows in ((*PASSED_ROWS, finish(0)), (collected(), running()), ()):
        result = judged(*rows, exit_status=137, timed_out=True)
        assert result.status is Status.TIMED_OUT
        assert result.failures[-1].headline() == "Timeout: timed out: still running after 30 s"


def test_what_hangs_after_the_end_is_laid_to_no_test() -> None:
    result = judged(*PASSED_ROWS, finish(0), exit_status=137, timed_out=True)

    assert result.outcomes == {"test_a.py::test_a": "passed"}
    assert result.failures[0].nodeid == ""


# -- the property --------------------------------------------------------------------------------------------------

IDS = st.sampled_from(["test_a.py::test_a", "test_a.py::test_b", "test_a.py", ""])
ROWS = st.one_of(
    st.builds(collected, IDS),
    st.builds(running, IDS),
    st.fixed_dictionaries({"event": st.just("collecting"), "id": IDS}),
    st.fixed_dictionaries({"event": st.just("deselected"), "count": st.integers(0, 3) | st.floats()}),
    st.builds(
        outcome,
        st.sampled_from(["passed", "failed", "skipped", "xfailed", "rerun", ""]),
        st.sampled_from(["setup", "call", "teardown", ""]),
        IDS,
        failure=st.sampled_from([None, FAILURE, FAILURE | {"raised": RAISED}, {}]),
    ),
    st.fixed_dictionaries(
        {"event": st.sampled_from(["collect-error", "session-error"]), "id": IDS, "failure": st.just(FAILURE)}
    ),
    st.builds(finish, st.sampled_from([0, 0, 0, 1, 2, 5]), st.sampled_from([0, 0, 1])),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
LINES = st.one_of(ROWS, ROWS, ROWS, JSON).map(lambda row: json.dumps(row).encode())
PASS = [json.dumps(row).encode() for row in PASSED_ROWS]
REPORTS = st.one_of(
    st.binary(max_size=200),
    st.lists(st.one_of(LINES, st.binary(max_size=30)), max_size=8).map(b"\n".join),
    st.lists(LINES, max_size=4).map(lambda lines: b"\n".join([*PASS, *lines, json.dumps(finish()).encode()])),
)


def all_well(report: bytes) -> bool:
    """The property in other words than the code's: what a report must say for its run to have passed."""
    rows = [json.loads(line) for line in report.splitlines()]
    ends = [row for row in rows if row["event"] == "finish"]
    tests = {row["id"] for row in rows if row["event"] == "collected"}
    ran = [row for row in rows if row["event"] == "outcome"]
    wells = {
        row["id"]
        for row in ran
        if (row["when"], row["outcome"]) == ("call", "passed") or row["outcome"] in ("skipped", "xfailed")
    }
    return (
        [rows[-1]] == ends
        and (ends[0]["status"], ends[0]["failed"]) == (0, 0)
        and bool(tests)
        and tests == wells
        and {row["id"] for row in ran} <= tests
        and not any(row["outcome"] == "failed" for row in ran)
        and not any(row.get("failure") for row in rows)
        and not {row["event"] for row in rows} & {"collect-error", "session-error", "foreign"}
    )


@given(REPORTS, st.sampled_from([0, 0, 0, 1, 2, 4, 5, 64, 137]), st.booleans(), st.binary(max_size=40))
@example(b"\n".join([*PASS, json.dumps(finish()).encode()]), 0, False, b"")
def test_no_bytes_upset_it_and_passed_means_that_every_account_says_so(
    report: bytes, exit_status: int, timed_out: bool, output: bytes
) -> None:
    result = judged(report=report, exit_status=exit_status, timed_out=timed_out, output=output)

    assert isinstance(result.status, Status)
    if result.status is Status.PASSED:
        assert (exit_status, timed_out) == (0, False)
        assert all_well(report)
        assert set(result.outcomes.values()) <= {"passed", "skipped", "xfailed"}


# -- several runs as one -------------------------------------------------------------------------------------------


def test_several_runs_are_as_bad_as_the_worst_of_them() -> None:
    well = judged(*PASSED_ROWS, finish(0), of=plan("a"))
    failed = judged(*FAILED_ROWS, finish(1, 1), exit_status=1, of=plan("b"), output=b"words")
    none = judged(finish(5), exit_status=5)
    broken = judged(exit_status=1)

    assert combine([well]) is well
    assert combine([none, well]).status is Status.PASSED
    both = combine([well, failed, none])
    assert both.status is Status.FAILED
    assert both.outcomes == {"a/test_a.py::test_a": "passed", "b/test_a.py::test_a": "failed"}
    assert (both.failures, both.output, both.seconds) == (failed.failures, "words", 3.0)
    assert combine([failed, broken]).status is Status.BROKEN
    assert combine([failed, broken]).problem == broken.problem
