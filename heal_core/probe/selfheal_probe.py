"""A pytest plugin that reports every collected test and every outcome, one JSON object a line, on a pipe.

Runs inside the project's interpreter: standard library only, Python 3.8 up, pytest 7 up. The events:

    {"event": "collecting", "id"}                     a file that is imported next
    {"event": "collected", "id"}                      a test that will run
    {"event": "deselected", "count"}
    {"event": "running", "id"}
    {"event": "outcome", "id", "when", "outcome", "failure"}   outcome: passed, failed, skipped or xfailed
    {"event": "collect-error", "id", "failure"}
    {"event": "session-error", "failure"}             a conftest or pytest itself, or the run was interrupted
    {"event": "foreign", "files"}                     modules that came from the original tree
    {"event": "finish", "status", "failed", "collected"}

`failure` is {"raised", "text", "output"}, `raised` is null or
{"type", "message", "frames", "cause", "context", "members"}.

PYTEST_DONT_REWRITE: the launcher imports it first, of which pytest would warn otherwise.
"""

from __future__ import annotations

import json
import linecache
import os
import sys
from typing import Any, Dict, Generator, List, Optional, Set

import pytest

# Set by the launcher, or on an xdist worker by its controller; what it means is said in launch.py.
given: Dict[str, Any] = {"only": None, "original": ""}

MAX_TEXT = 20000
MAX_MESSAGE = 8000
MAX_FRAMES = 80
MAX_DEPTH = 12
MAX_MEMBERS = 20
RUNNER_PARTS = (os.sep + "_pytest" + os.sep, os.sep + "pluggy" + os.sep, "selfheal_probe.py")

# -1 on an xdist worker, which has no pipe and reports through its controller.
_fd = int(os.environ.pop("SELFHEAL_REPORT_FD", "-1"))
if _fd >= 0:
    os.set_inheritable(_fd, False)
_pid = os.getpid()


def emit(**row: Any) -> None:
    """Write one event; a process that a test forked has nothing to report."""
    if _fd < 0 or os.getpid() != _pid:
        return
    data = (json.dumps(row) + "\n").encode("ascii")
    while data:
        data = data[os.write(_fd, data) :]


def pytest_addoption(parser: Any, pluginmanager: Any) -> None:
    # The launcher sets it; where its owner is left out pytest would warn of a setting that it does not know.
    if pluginmanager.is_blocked("cacheprovider"):
        parser.addini("cache_dir", "not used")


# -- what is collected ---------------------------------------------------------------------------------------------


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: Any) -> None:
    if given["only"] is None:
        return
    wanted = set(given["only"])
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
    items[:] = [item for item in items if item.nodeid in wanted]


def pytest_deselected(items: Any) -> None:
    emit(event="deselected", count=len(items))


def pytest_collection_finish(session: Any) -> None:
    for item in session.items:
        emit(event="collected", id=item.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Any) -> None:
    if not getattr(node.config, "_selfheal_reported", False):
        node.config._selfheal_reported = True
        for nodeid in ids:
            emit(event="collected", id=nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["selfheal_only"] = given["only"]


def pytest_configure(config: Any) -> None:
    given["only"] = getattr(config, "workerinput", {}).get("selfheal_only", given["only"])


# -- what fails before a test runs ---------------------------------------------------------------------------------


# What passed through pytest's own guards and will be seen once more, when it ends the session.
_told: List[BaseException] = []
_not_collected: Set[str] = set()


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_make_collect_report(collector: Any) -> Generator[None, Any, None]:
    if isinstance(collector, pytest.File):
        emit(event="collecting", id=collector.nodeid)
    outcome = yield
    if outcome.excinfo is not None:
        # SystemExit at import, for one.
        _told.append(outcome.excinfo[1])
        emit(event="collect-error", id=collector.nodeid, failure=_failure(outcome.excinfo[1], "", ""))
        return
    report = outcome.get_result()
    if report.outcome == "failed":
        call = getattr(report, "call", None)
        value = call.excinfo.value if call is not None and call.excinfo is not None else None
        # On the report, so that it also travels from an xdist worker.
        report.selfheal = _failure(value, report.longrepr, "")


def pytest_collectreport(report: Any) -> None:
    # Every xdist worker collects everything.
    if report.outcome == "failed" and report.nodeid not in _not_collected:
        _not_collected.add(report.nodeid)
        failure = getattr(report, "selfheal", None) or _failure(None, report.longrepr, "")
        emit(event="collect-error", id=report.nodeid, failure=failure)


@pytest.hookimpl(hookwrapper=True)
def pytest_load_initial_conftests(early_config: Any) -> Generator[None, Any, None]:
    outcome = yield
    if outcome.excinfo is not None:
        emit(event="session-error", failure=_failure(outcome.excinfo[1], "", ""))


def pytest_internalerror(excrepr: Any, excinfo: Any) -> None:
    _session_error(excinfo.value, excrepr)


def pytest_keyboard_interrupt(excinfo: Any) -> None:
    # Not pytest's own word for a session that its errors end.
    if not isinstance(excinfo.value, pytest.Session.Interrupted):
        _session_error(excinfo.value, "")


def _session_error(value: BaseException, longrepr: Any) -> None:
    if not any(value is told for told in _told):
        emit(event="session-error", failure=_failure(value, longrepr, ""))


# -- the tests -----------------------------------------------------------------------------------------------------


def pytest_runtest_logstart(nodeid: str) -> None:
    emit(event="running", id=nodeid)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(call: Any) -> Generator[None, Any, None]:
    outcome = yield
    report = outcome.get_result()
    if report.outcome == "failed":
        value = call.excinfo.value if call.excinfo is not None else None
        report.selfheal = _failure(value, report.longrepr, _sections(report))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report: Any) -> None:
    outcome = "xfailed" if hasattr(report, "wasxfail") and report.outcome == "skipped" else report.outcome
    failure = None
    if report.outcome == "failed":
        failure = getattr(report, "selfheal", None) or _failure(None, report.longrepr, _sections(report))
        context = getattr(report, "context", None)
        if context is not None and "subtest" not in failure:
            # On the report again: a worker's words, before they are carried to its controller.
            report.selfheal = failure = dict(failure, subtest=_clip(_subtest(context), MAX_MESSAGE))
    emit(event="outcome", id=report.nodeid, when=report.when or "call", outcome=outcome, failure=failure)


def _subtest(context: Any) -> str:
    """The words that tell one subtest from another: its message and its parameters."""
    fields = context if isinstance(context, dict) else {"msg": context.msg, "kwargs": context.kwargs}
    words = ["[%s]" % fields["msg"]] if fields["msg"] else []
    words += ["%s=%s" % pair for pair in sorted(dict(fields["kwargs"]).items())]
    return " ".join(words)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: Any) -> None:
    if given["original"]:
        _report_foreign(os.path.join(given["original"], ""))
    # Other plugins may have changed the status in this very hook.
    emit(event="finish", status=int(session.exitstatus), failed=session.testsfailed, collected=session.testscollected)


def _report_foreign(original: str) -> None:
    """Modules of the original tree that were imported in the place of the workspace's."""
    prefixes = tuple(os.path.join(os.path.abspath(p), "") for p in (sys.prefix, os.getcwd(), os.path.dirname(__file__)))
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    inside = [f for f in files if f.startswith(original) and not f.startswith(prefixes)]
    if inside:
        emit(event="foreign", files=inside[:5])


# -- exceptions as data --------------------------------------------------------------------------------------------


def _failure(value: Optional[BaseException], longrepr: Any, output: str) -> Any:
    raised = None if value is None else _raised(_root(value), 0, set())
    return {"raised": raised, "text": _clip(_text(longrepr), MAX_TEXT), "output": _clip(output, MAX_TEXT)}


def _root(value: BaseException) -> BaseException:
    """The project's exception inside the one in which pytest wraps it at collection."""
    if type(value).__name__ not in ("ConftestImportFailure", "CollectError"):
        return value
    cause = getattr(value, "cause", None) or value.__cause__
    return cause if isinstance(cause, BaseException) else value


def _raised(value: Optional[BaseException], depth: int, seen: Set[int]) -> Any:
    if value is None or depth > MAX_DEPTH or id(value) in seen:
        return None
    seen.add(id(value))
    cause = _raised(value.__cause__, depth + 1, seen)
    hidden = value.__cause__ is not None or value.__suppress_context__
    members = getattr(value, "exceptions", ())
    members = members if isinstance(members, (tuple, list)) else ()
    return {
        "type": _type_name(type(value)),
        "message": _clip(_message(value), MAX_MESSAGE),
        "frames": _frames(value),
        "cause": cause,
        "context": None if hidden else _raised(value.__context__, depth + 1, seen),
        "members": [_raised(m, depth + 1, seen) for m in members[:MAX_MEMBERS] if isinstance(m, BaseException)],
    }


def _type_name(cls: type) -> str:
    module = cls.__module__
    return cls.__qualname__ if module in ("builtins", "__main__") else "%s.%s" % (module, cls.__qualname__)


def _message(value: BaseException) -> str:
    try:
        message = str(value)
    except Exception as error:
        message = "<its message cannot be shown: %s>" % type(error).__name__
    notes = getattr(value, "__notes__", ())
    return "\n".join([message] + [str(note) for note in notes]) if isinstance(notes, list) else message


def _frames(value: BaseException) -> Any:
    frames = []
    tb = value.__traceback__
    while tb is not None:
        code = tb.tb_frame.f_code
        if not any(part in code.co_filename for part in RUNNER_PARTS):
            line = linecache.getline(code.co_filename, tb.tb_lineno, tb.tb_frame.f_globals).strip()
            frames.append([_absolute(code.co_filename), tb.tb_lineno, code.co_name, line[:500]])
        tb = tb.tb_next
    if isinstance(value, SyntaxError) and value.filename:
        frames.append([_absolute(value.filename), value.lineno or 1, "", (value.text or "").strip()[:500]])
    if len(frames) > MAX_FRAMES:
        frames[MAX_FRAMES // 2 : len(frames) - MAX_FRAMES // 2] = []
    return frames


def _absolute(filename: str) -> str:
    """The path of a source file; names such as `<frozen os>` or `<string>` stay as they are."""
    return filename if filename.startswith("<") else os.path.abspath(filename)


def _text(longrepr: Any) -> str:
    try:
        return str(longrepr or "")
    except Exception as error:
        return "<the report cannot be shown: %s>" % type(error).__name__


def _sections(report: Any) -> str:
    return "\n".join("%s\n%s" % (title, content) for title, content in report.sections)


def _clip(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return "%s\n[... %d characters left out ...]\n%s" % (text[:half], len(text) - 2 * half, text[-half:])
