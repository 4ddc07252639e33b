"""The reporting plugin under every Python from 3.8, with the newest pytest that each can have.

Every test runs the real pytest of that Python through `suite.run`, as selfheal does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bench import Bench, failure, raised
from pythons import VERSIONS

from heal_core.failure import Raised
from heal_core.suite import Result, Status

PASSES = {"test_b.py": "def test_b():\n    pass\n"}


def spread(names: str, *cases: tuple[object, ...]) -> pytest.MarkDecorator:
    """The first case under every Python, the others under the oldest and the newest."""
    ends = (VERSIONS[0], VERSIONS[-1])
    rows = [(version, *case) for case in cases for version in (VERSIONS if case is cases[0] else ends)]
    return pytest.mark.parametrize(("python", *names.split()), rows, indirect=["python"])


# For what no version of Python or pytest makes a difference to.
ENDS = pytest.mark.parametrize("python", (VERSIONS[0], VERSIONS[-1]), indirect=True)


def names(exception: Raised | None) -> str:
    """The type and the message of an exception."""
    assert exception is not None
    return f"{exception.type}: {exception.message}"


def ends(exception: Raised) -> tuple[str, int, str]:
    """Where an exception was raised."""
    last = exception.frames[-1]
    return last.path, last.lineno, last.name


# -- outcomes ------------------------------------------------------------------------------------------------------

OUTCOMES = '''
import sys, unittest
import pytest

def test_passes():
    print("this is not kept")

def test_fails():
    print("to stdout")
    print("to stderr", file=sys.stderr)
    assert 1 + 1 == 3

@pytest.fixture
def no_setup():
    raise RuntimeError("no setup")

def test_setup(no_setup):
    pass

@pytest.fixture
def no_teardown():
    yield
    raise RuntimeError("no teardown")

def test_teardown(no_teardown):
    pass

def test_both(no_teardown):
    raise ValueError("call")

@pytest.mark.skip
def test_skip_mark():
    assert False

def test_skip_inside():
    pytest.skip("later")

@pytest.mark.xfail
def test_xfail_mark():
    assert False

def test_xfail_inside():
    pytest.xfail("known")

@pytest.mark.xfail
def test_xpass():
    pass

@pytest.mark.xfail(strict=True)
def test_xpass_strict():
    pass

@pytest.mark.xfail(raises=KeyError)
def test_xfail_of_another_kind():
    raise ValueError("not a KeyError")

def test_pytest_fail():
    pytest.fail("said so", pytrace=False)

class TestBox:
    def test_in_class(self):
        assert False

    class TestInner:
        def test_deep(self):
            pass

class TestUnit(unittest.TestCase):
    def setUp(self):
        self.word = "set up"

    def test_equal(self):
        self.assertEqual(self.word, "other")

    @unittest.skip("later")
    def test_skipped(self):
        pass

    @unittest.expectedFailure
    def test_expected(self):
        self.fail("known")

    @unittest.expectedFailure
    def test_unexpected_success(self):
        pass
'''  # fmt: skip

EXPECTED = {
    "test_passes": "passed",
    "test_fails": "failed",
    "test_setup": "failed",
    "test_teardown": "failed",
    "test_both": "failed",
    "test_skip_mark": "skipped",
    "test_skip_inside": "skipped",
    "test_xfail_mark": "xfailed",
    "test_xfail_inside": "xfailed",
    "test_xpass": "passed",
    "test_xpass_strict": "failed",
    "test_xfail_of_another_kind": "failed",
    "test_pytest_fail": "failed",
    "TestBox::test_in_class": "failed",
    "TestBox::TestInner::test_deep": "passed",
    "TestUnit::test_equal": "failed",
    "TestUnit::test_skipped": "skipped",
    "TestUnit::test_expected": "xfailed",
    "TestUnit::test_unexpected_success": "failed",
}


def test_every_outcome_has_its_word(bench: Bench) -> None:
    result = bench.run({"tests/test_outcomes.py": OUTCOMES})

    assert result.status is Status.FAILED
    assert result.outcomes == {f"tests/test_outcomes.py::{name}": word for name, word in EXPECTED.items()}
    found = {(each.nodeid.partition("::")[2], each.when): each.headline() for each in result.failures}
    words = {
        ("test_setup", "setup"): "RuntimeError: no setup",
        ("test_teardown", "teardown"): "RuntimeError: no teardown",
        ("test_both", "call"): "ValueError: call",
        ("test_both", "teardown"): "RuntimeError: no teardown",
        ("test_xpass_strict", "call"): "[XPASS(strict)]",
        ("test_xfail_of_another_kind", "call"): "ValueError: not a KeyError",
        ("TestBox::test_in_class", "call"): "AssertionError: assert False",
        ("TestUnit::test_equal", "call"): "AssertionError: 'set up' != 'other'",
    }
    assert {key: found.get(key) for key in words} == words
    assert "said so" in found["test_pytest_fail", "call"]
    assert found.keys() - words.keys() == {
        ("test_fails", "call"),
        ("test_pytest_fail", "call"),
        ("TestUnit::test_unexpected_success", "call"),
    }
    _check_the_plain_failure(result)


def _check_the_plain_failure(result: Result) -> None:
    found = failure(result, "tests/test_outcomes.py::test_fails")
    assert names(found.raised) == "AssertionError: assert (1 + 1) == 3"
    (frame,) = found.frames()
    assert (frame.path, frame.name, frame.line) == ("tests/test_outcomes.py", "test_fails", "assert 1 + 1 == 3")
    assert found.output == "Captured stdout call\nto stdout\n\nCaptured stderr call\nto stderr\n"
    assert ">       assert 1 + 1 == 3" in found.text
    assert "this is not kept" not in str(result.failures)


# -- ids -----------------------------------------------------------------------------------------------------------

ODD = [
    "a::b",
    "x]y[",
    "a - b",
    "größe",
    "tab\there",
    "new\nline",
    "'\"\\",
    "",
    " ",
    "../x.py::test_a",
    "\x1b[31mred",
    "日本",
]
ODD_TEST = f"""
import pytest

@pytest.mark.parametrize("value", {ODD!r}, ids={ODD!r})
def test_odd(value):
    assert value not in ("x]y[", "new\\nline")

@pytest.mark.parametrize("value", {ODD!r})
class TestIn:
    def test_odd(self, value):
        pass
"""
# pytest's own name for ids that are handed on as they are.
UNESCAPED = "[pytest]\ndisable_test_id_escaping_and_forfeit_all_rights_to_community_support = true\n"


@spread("settings", (UNESCAPED,), ("[pytest]\n",))
def test_odd_ids_come_back_and_are_run_again_each_alone(bench: Bench, settings: str) -> None:
    files = {"sub/test_größe.py": ODD_TEST, "pytest.ini": settings}
    whole = bench.run(files)
    failed = whole.having("failed")
    some = [*failed, *(nodeid for nodeid in whole.outcomes if "a::b" in nodeid or "x.py" in nodeid)]
    again = bench.run(files, only=some)

    assert len(whole.outcomes) == 2 * len(ODD)
    assert len(failed) == 2
    if settings == UNESCAPED:
        assert {f"sub/test_größe.py::test_odd[{word}]" for word in ODD if word} <= whole.outcomes.keys()
    assert set(again.outcomes) == set(some)
    assert again.having("failed") == failed
    assert again.deselected == 2 * len(ODD) - len(some)


@ENDS
def test_only_keeps_to_the_ids_asked_for_across_files_and_classes(bench: Bench) -> None:
    code = "class TestA:\n    def test_a(self): pass\n    def test_ab(self): pass\n"
    files = dict.fromkeys(("test_a.py", "test_b.py"), code)
    result = bench.run(files, only=["test_b.py::TestA::test_a"])

    assert result.outcomes == {"test_b.py::TestA::test_a": "passed"}
    assert (result.status, result.deselected) == (Status.PASSED, 3)


@ENDS
def test_only_with_ids_that_are_not_there_runs_nothing(bench: Bench) -> None:
    result = bench.run(PASSES, only=["test_b.py::test_gone"])

    assert (result.status, result.outcomes, result.deselected) == (Status.NO_TESTS, {}, 1)


@ENDS
def test_ids_and_paths_of_a_folder_with_settings_of_its_own_are_the_repositorys(bench: Bench) -> None:
    files = {
        "pkg/pytest.ini": "[pytest]\n",
        "pkg/tests/test_half.py": "from pkg_code import half\n\ndef test_half():\n    half(2)\n",
        "pkg/src/pkg_code.py": "def half(x):\n    return x / 0\n",
    }
    result = bench.run(files, "-o", "pythonpath=src", rootdir="pkg")
    nodeid = "pkg/tests/test_half.py::test_half"

    assert result.outcomes == {nodeid: "failed"}
    assert [frame.path for frame in raised(result, nodeid).frames] == ["pkg/tests/test_half.py", "pkg/src/pkg_code.py"]
    assert bench.run(files, "-o", "pythonpath=src", rootdir="pkg", only=[nodeid]).outcomes == {nodeid: "failed"}


# -- subtests ------------------------------------------------------------------------------------------------------

SUBTESTS = """
import unittest

class TestEven(unittest.TestCase):
    def test_even(self):
        for n in range(4):
            with self.subTest("even", n=n, word="w"):
                self.assertEqual(n % 2, 0)

    def test_all_well(self):
        for n in range(4):
            with self.subTest(n=n):
                pass
"""


def test_subtests_are_failures_of_their_test_with_their_parameters(bench: Bench) -> None:
    result = bench.run({"test_even.py": SUBTESTS})
    nodeid = "test_even.py::TestEven::test_even"

    assert result.outcomes == {nodeid: "failed", "test_even.py::TestEven::test_all_well": "passed"}
    assert {each.nodeid for each in result.failures} == {nodeid}
    if bench.has("pytest", 9):
        words = [names(each.raised) for each in result.failures if each.raised and each.raised.type == "AssertionError"]
        assert words == [f"AssertionError: 1 != 0 [subtest [even] n={n} word='w']" for n in (1, 3)]
        assert result.failures[0].text.startswith("subtest [even] n=1 word='w'\n")


# -- exceptions ----------------------------------------------------------------------------------------------------

CHAINS = """
import sys
if sys.version_info < (3, 11):
    from exceptiongroup import ExceptionGroup

class Odd(Exception):
    def __str__(self):
        raise ValueError("no words")

class Box:
    class Inner(Exception):
        pass

def low():
    raise KeyError("low")

def test_cause():
    try:
        low()
    except KeyError as error:
        raise ValueError("high") from error

def test_context():
    try:
        low()
    except KeyError:
        raise ValueError("meanwhile")

def test_suppressed():
    try:
        low()
    except KeyError:
        raise ValueError("alone") from None

def test_circle():
    error = ValueError("circle")
    error.__cause__ = KeyError("other")
    error.__cause__.__cause__ = error
    raise error

def test_group():
    def leaf(n):
        try:
            raise ValueError("leaf %d" % n)
        except ValueError as error:
            return error
    inner = ExceptionGroup("inner", [leaf(n) for n in range(1, 4)])
    raise ExceptionGroup("outer", [leaf(0), inner, Box.Inner("own")])

def test_deep():
    test_deep()

def test_no_words():
    raise Odd()

def test_long_words():
    raise ValueError("begin" + "x" * 1000000 + "end")

def test_notes():
    error = ValueError("words")
    error.__notes__ = ["noted"]
    raise error

def test_no_module():
    raise type("Made", (Exception,), {"__module__": None})("up")

def test_exit():
    sys.exit(0)

def test_in_other_code():
    exec(compile("1/0", "<made up>", "exec"))
"""


def test_exceptions_come_with_their_causes_their_members_and_their_frames(bench: Bench) -> None:
    result = bench.run({"test_chains.py": CHAINS})

    def of(name: str) -> Raised:
        return raised(result, f"test_chains.py::{name}")

    cause = of("test_cause")
    assert (names(cause), names(cause.cause), cause.context) == ("ValueError: high", "KeyError: 'low'", None)
    assert cause.cause is not None
    assert [frame.name for frame in cause.cause.frames] == ["test_cause", "low"]
    assert cause.cause.frames[-1].line == 'raise KeyError("low")'

    context = of("test_context")
    assert (names(context), context.cause, names(context.context)) == ("ValueError: meanwhile", None, "KeyError: 'low'")

    alone = of("test_suppressed")
    assert (names(alone), alone.cause, alone.context) == ("ValueError: alone", None, None)

    circle = of("test_circle")
    assert [names(each) for each in circle.walk()] == ["ValueError: circle", "KeyError: 'other'"]

    group = of("test_group")
    leaves = [names(each) for each in group.walk() if not each.members]
    assert leaves == ["ValueError: leaf 0", *(f"ValueError: leaf {n}" for n in (1, 2, 3)), "test_chains.Box.Inner: own"]
    assert group.members[0].frames[-1].name == "leaf"
    assert "ExceptionGroup" in group.type

    _check_bounds(of)


def _check_bounds(of: Callable[[str], Raised]) -> None:
    deep = of("test_deep")
    assert deep.type == "RecursionError"
    assert 10 < len(deep.frames) <= 80
    assert names(of("test_no_words")) == "test_chains.Odd: <its message cannot be shown: ValueError>"
    long = of("test_long_words").message
    assert long.startswith("beginx")
    assert long.endswith("xend")
    assert len(long) < 10_000
    assert of("test_notes").message == "words\nnoted"
    assert names(of("test_no_module")).endswith("Made: up")
    assert names(of("test_exit")) == "SystemExit: 0"
    assert of("test_in_other_code").frames[-1].path == "<made up>"


@ENDS
def test_what_a_terminal_or_no_encoding_could_hold_is_made_plain(bench: Bench) -> None:
    code = """
def test_a():
    print("\\x1b]52;c;bWluZQ==\\x07\\x1b[31mprinted\\x1b[0m")
    raise ValueError("\\udce9\\x00\\x1b[31mred\\x1b[0m")
"""
    found = failure(bench.run({"test_a.py": code}), "test_a.py::test_a")

    assert names(found.raised) == "ValueError: \\udce9red"
    assert found.output == "Captured stdout call\nprinted\n"
    assert "\x1b" not in found.text
    found.text.encode("utf-8")


# -- before any test runs ------------------------------------------------------------------------------------------

IMPORTS = {
    "app.py": "def f():\n    pass\nx = (\n",
    "test_syntax.py": "def test_a(:\n    pass\n",
    "test_syntax_of_other.py": "import app\n",
    "test_missing.py": "import no_such_package\n",
    "test_name.py": "from os import no_such_name\n",
    "test_raises.py": "def f():\n    return 1 / 0\nf()\n",
    "test_indent.py": "def test_a():\n        x = 1\n    y = 2\n",
}


def test_modules_that_do_not_import_are_failures_of_their_files(bench: Bench) -> None:
    result = bench.run(IMPORTS | PASSES)

    assert result.status is Status.FAILED
    assert result.outcomes == {"test_b.py::test_b": ""}
    assert {each.when for each in result.failures} == {"collect"}
    assert len(result.failures) == 6
    kinds = {
        "test_syntax.py": ("SyntaxError", ("test_syntax.py", 1, "")),
        "test_syntax_of_other.py": ("SyntaxError", ("app.py", None, "")),
        "test_missing.py": ("ModuleNotFoundError", ("test_missing.py", 1, "<module>")),
        "test_name.py": ("ImportError", ("test_name.py", 1, "<module>")),
        "test_raises.py": ("ZeroDivisionError", ("test_raises.py", 2, "f")),
        "test_indent.py": ("IndentationError", ("test_indent.py", 3, "")),
    }
    for name, (kind, (path, line, function)) in kinds.items():
        found = raised(result, name)
        assert (found.type, ends(found)[0], ends(found)[2]) == (kind, path, function)
        assert line in (None, ends(found)[1])
    assert raised(result, "test_missing.py").message == "No module named 'no_such_package'"


@spread("code kind", ("import sys; sys.exit(0)", "SystemExit"), ("raise KeyboardInterrupt", "KeyboardInterrupt"))
def test_a_module_that_ends_the_session_at_import_is_one_failure_of_its_file(
    bench: Bench, code: str, kind: str
) -> None:
    result = bench.run({"test_a.py": code + "\n"} | PASSES)

    assert result.status is Status.FAILED
    (found,) = result.failures
    assert (found.nodeid, found.when, found.raised and found.raised.type) == ("test_a.py", "collect", kind)
    assert ends(raised(result, "test_a.py")) == ("test_a.py", 1, "<module>")


@spread(
    "folder code kind",
    ("tests/", "import helpers", "ZeroDivisionError"),
    ("", "import helpers", "ZeroDivisionError"),
    ("", "def f(:", "SyntaxError"),
    ("tests/", "import nope", "ModuleNotFoundError"),
)
def test_a_conftest_that_does_not_import_fails_the_run(bench: Bench, folder: str, code: str, kind: str) -> None:
    files = {f"{folder}conftest.py": code + "\n", "helpers.py": "1 / 0\n", f"{folder}test_a.py": "def test_a(): pass\n"}
    result = bench.run(files)

    assert (result.status, result.outcomes) == (Status.FAILED, {})
    (found,) = result.failures
    assert (found.nodeid, found.when, found.raised and found.raised.type) == ("", "collect", kind)
    assert found.frames()[-1].path == f"{folder}conftest.py"


@spread(
    "settings args words",
    ("[pytest]\naddopts = --no-such-option\n", (), "unrecognized arguments: --no-such-option"),
    ("[pytest]\n", ("--no-such-option",), "unrecognized arguments: --no-such-option"),
    ("[pytest\n", (), "pytest.ini:1"),
    ("[pytest]\nrequired_plugins = pytest-no-such\n", (), "Missing required plugins: pytest-no-such"),
    ("[pytest]\nminversion = 999\n", (), "999"),
    ("[pytest]\naddopts = -p no_such_plugin\n", (), "no_such_plugin"),
)
def test_what_keeps_pytest_from_starting_is_broken_with_its_words(
    bench: Bench, settings: str, args: tuple[str, ...], words: str
) -> None:
    result = bench.run({"pytest.ini": settings} | PASSES, *args)

    assert (result.status, result.outcomes) == (Status.BROKEN, {})
    assert words in result.problem


def test_an_error_of_a_plugins_own_is_a_failure_of_the_run(bench: Bench) -> None:
    result = bench.run({"conftest.py": "def pytest_runtest_protocol(item):\n    raise ValueError('hook')\n"} | PASSES)

    assert (result.status, result.outcomes) == (Status.FAILED, {"test_b.py::test_b": ""})
    assert names(raised(result, "")) == "ValueError: hook"
    assert ends(raised(result, "")) == ("conftest.py", 2, "pytest_runtest_protocol")


@ENDS
def test_an_interpreter_without_pytest_is_broken_and_says_which(bench: Bench, tmp_path: Path) -> None:
    base = bench.interpreter.program.resolve()
    result = Bench(tmp_path, replace(bench.interpreter, program=base)).run(PASSES)

    if result.status is Status.PASSED:
        pytest.skip("the Python that the environment was made from has pytest itself")
    assert result.status is Status.BROKEN
    assert f"{base} cannot import pytest: No module named 'pytest'" in result.problem


@ENDS
def test_a_pytest_py_of_the_repository_does_not_take_the_runners_place(bench: Bench) -> None:
    shadows = dict.fromkeys(("pytest.py", "pluggy.py", "selfheal_probe.py", "launch.py"), "raise SystemExit(0)\n")
    result = bench.run(shadows | {"test_a.py": "def test_a():\n    assert False\n"})

    assert (result.status, result.outcomes) == (Status.FAILED, {"test_a.py::test_a": "failed"})


# -- settings of the user's ----------------------------------------------------------------------------------------


def test_warnings_as_errors_meet_the_project_and_not_the_probe(bench: Bench) -> None:
    warns = "import warnings\n\ndef test_warns():\n    warnings.warn('old', DeprecationWarning)\n"
    result = bench.run({"test_a.py": warns} | PASSES, "-W", "error")

    assert result.outcomes == {"test_a.py::test_warns": "failed", "test_b.py::test_b": "passed"}
    assert names(raised(result, "test_a.py::test_warns")) == "DeprecationWarning: old"


@spread(
    "files args deselected",
    (PASSES, ("-k", "nothing"), 1),
    (PASSES, ("-m", "nothing"), 1),
    ({"test_b.py": "x = 1\n"}, (), 0),
)
def test_no_test_that_runs_is_no_tests(
    bench: Bench, files: dict[str, str], args: tuple[str, ...], deselected: int
) -> None:
    result = bench.run(files, *args)

    assert (result.status, result.outcomes, result.deselected) == (Status.NO_TESTS, {}, deselected)


@ENDS
def test_tests_that_are_only_listed_have_not_passed(bench: Bench) -> None:
    result = bench.run({"pytest.ini": "[pytest]\naddopts = --collect-only\n"} | PASSES)

    assert result.status is Status.TAMPERED


@ENDS
def test_standard_input_is_at_its_end_for_a_test(bench: Bench) -> None:
    result = bench.run({"test_a.py": "import os\n\ndef test_a():\n    assert os.read(0, 1) == b''\n"}, "-s")

    assert result.status is Status.PASSED


# -- runs that do not come to their end ----------------------------------------------------------------------------


@spread(
    "crash words",
    ("ctypes.string_at(8)", "Segmentation fault"),
    ("os.abort()", "Aborted"),
    ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
    ("os._exit(4)", "exit 4"),
    ("os.execv('/bin/true', ['true'])", "exit 0"),
)
def test_a_test_that_ends_its_process_is_named_and_never_passed(bench: Bench, crash: str, words: str) -> None:
    code = f"import ctypes, os\n\ndef test_before():\n    pass\n\ndef test_a():\n    {crash}\n"
    result = bench.run({"test_a.py": code} | PASSES)

    assert result.status is Status.FAILED
    assert result.outcomes == {
        "test_a.py::test_before": "passed",
        "test_a.py::test_a": "failed",
        "test_b.py::test_b": "",
    }
    found = failure(result, "test_a.py::test_a")
    assert found.when == "crash"
    assert words in found.headline()
    if words in ("Aborted", "Segmentation fault"):
        assert [(frame.path, frame.lineno, frame.name) for frame in found.frames()] == [("test_a.py", 7, "test_a")]


@spread("crash", ("os._exit(0)",), ("ctypes.string_at(8)",))
def test_a_module_that_ends_its_process_at_import_is_named_and_never_passed(bench: Bench, crash: str) -> None:
    files = {"app.py": f"import ctypes, os\n{crash}\n", "test_c.py": "import app\n"}
    result = bench.run(PASSES | files)

    assert (result.status, result.outcomes) == (Status.FAILED, {})
    assert failure(result, "test_c.py").when == "crash"


LEAVE = {
    "at once": "import os\n\ndef test_a():\n    os._exit(0)\n",
    "at exit": "import atexit, os\natexit.register(os._exit, 0)\n\ndef test_a():\n    assert False\n",
    "pytest.exit": "import pytest\n\ndef test_a():\n    pytest.exit('enough', returncode=0)\n",
    "in a thread": """
import os, threading, time

def test_a():
    threading.Thread(target=os._exit, args=(0,)).start()
    time.sleep(5)
""",
    "the parent of a fork": "import os\n\ndef test_a():\n    if os.fork():\n        os._exit(0)\n    assert False\n",
}


@spread("code", *((code,) for code in LEAVE.values()))
def test_an_exit_status_of_0_alone_is_never_passed(bench: Bench, code: str) -> None:
    result = bench.run({"test_a.py": code})

    assert result.status in (Status.FAILED, Status.TAMPERED)
    assert result.outcomes["test_a.py::test_a"] != "passed"


FORKS = """
import multiprocessing, os

def test_a():
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)

def test_pool():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
"""


def test_a_child_that_a_test_forks_reports_nothing_and_comes_to_its_end(bench: Bench) -> None:
    """It goes on with the session as its parent does, and ends first. Python warns of a fork only where there are
    threads, of which the launcher shows none."""
    result = bench.run({"test_a.py": FORKS} | PASSES, "-W", "error::DeprecationWarning")

    assert result.outcomes == {
        "test_a.py::test_a": "passed",
        "test_a.py::test_pool": "passed",
        "test_b.py::test_b": "passed",
    }
    assert result.status is Status.PASSED


@ENDS
def test_a_finish_that_a_test_forges_is_tampering(bench: Bench) -> None:
    code = """
import json, os, stat

def test_a():
    row = json.dumps({"event": "finish", "status": 0, "failed": 0, "collected": 1}) + "\\n"
    for fd in range(3, 60):
        try:
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.write(fd, row.encode())
        except OSError:
            pass
    assert False
"""
    result = bench.run({"test_a.py": code}, "--capture=sys")

    assert result.status is Status.TAMPERED


@ENDS
def test_a_program_that_a_test_starts_does_not_have_the_report(bench: Bench) -> None:
    code = """
import os, subprocess

def test_a():
    assert "SELFHEAL_REPORT_FD" not in os.environ
    script = "for fd in 3 4 5 6 7 8 9; do echo forged >&$fd; done; for fd in /proc/self/fd/*; do echo x > $fd; done"
    subprocess.call(["/bin/sh", "-c", script], close_fds=False, stderr=subprocess.DEVNULL)
    os.system("true")
"""
    assert bench.run({"test_a.py": code}).status is Status.PASSED


def test_the_time_limit_names_the_test_that_was_running_and_its_frames(bench: Bench) -> None:
    code = "def wait():\n    while True:\n        pass\n\ndef test_a():\n    wait()\n\ndef test_b():\n    pass\n"
    seconds = bench.ample_seconds()
    result = bench.run(PASSES | {"test_slow.py": code}, seconds=seconds)

    assert result.status is Status.TIMED_OUT
    slow = {"test_slow.py::test_a": "failed", "test_slow.py::test_b": ""}
    assert result.outcomes == {"test_b.py::test_b": "passed"} | slow
    found = failure(result, "test_slow.py::test_a")
    assert found.when == "timeout"
    assert found.headline() == f"Timeout: timed out: still running after {seconds:g} s"
    assert found.raised is not None
    assert [(frame.path, frame.name) for frame in found.raised.frames] == [
        ("test_slow.py", "test_a"),
        ("test_slow.py", "wait"),
    ]


@ENDS
def test_the_time_limit_names_the_module_that_was_being_imported(bench: Bench) -> None:
    files = {"app.py": "while True:\n    pass\n", "test_a.py": "import app\n"}
    result = bench.run(files, seconds=bench.ample_seconds())

    assert (result.status, result.outcomes) == (Status.TIMED_OUT, {})
    found = failure(result, "test_a.py")
    assert found.when == "timeout"
    assert found.frames()[0].path == "app.py"


# -- with the plugins that users have ------------------------------------------------------------------------------


def told(result: Result) -> Counter[tuple[str, str, Raised | None]]:
    """The failures of a run in any order, but for the one whose frames hang on how deep the stack already was."""
    return Counter((each.nodeid, each.when, each.raised) for each in result.failures if "test_deep" not in each.nodeid)


def test_with_xdist_all_is_as_without_it(newest: Bench) -> None:
    files = {
        "tests/test_outcomes.py": OUTCOMES,
        "test_chains.py": CHAINS,
        "test_even.py": SUBTESTS,
        "test_odd.py": ODD_TEST,
    }
    alone, spread_out = newest.run(files), newest.run(files, "-n", "2")

    assert spread_out.outcomes == alone.outcomes
    assert spread_out.status is alone.status
    assert told(spread_out) == told(alone)


def test_with_xdist_only_the_ids_asked_for_run(newest: Bench) -> None:
    asked = ["test_odd.py::test_odd[a::b]", "test_odd.py::test_odd[x]y[]"]
    result = newest.run({"test_odd.py": ODD_TEST}, "-n", "2", only=asked)

    assert result.outcomes == {asked[0]: "passed", asked[1]: "failed"}


def test_with_xdist_modules_that_do_not_import_are_failures_of_their_files(newest: Bench) -> None:
    alone, spread_out = newest.run(IMPORTS | PASSES), newest.run(IMPORTS | PASSES, "-n", "2")

    assert spread_out.status is Status.FAILED
    assert told(spread_out) == told(alone)


def test_with_xdist_a_worker_that_dies_is_never_passed(newest: Bench) -> None:
    result = newest.run({"test_a.py": "import os\n\ndef test_a():\n    os._exit(0)\n"} | PASSES, "-n", "2")

    assert result.status is Status.FAILED
    assert result.outcomes["test_a.py::test_a"] == "failed"


def test_a_threshold_on_coverage_does_not_fail_a_part_of_the_suite(newest: Bench) -> None:
    settings = "[pytest]\naddopts = --cov=app --cov-fail-under=100 --cov-report=xml\nfilterwarnings = error\n"
    files = {"pytest.ini": settings, "app.py": "def f():\n    return 1\n\ndef g():\n    return 2\n"}
    files |= {"test_app.py": "from app import f\n\ndef test_f():\n    assert f() == 1\n"}
    result = newest.run(files, "--cov=app")

    assert (result.status, result.outcomes) == (Status.PASSED, {"test_app.py::test_f": "passed"})
    assert not (newest.folder / "workspace" / "coverage.xml").exists()


def test_a_run_that_stops_at_the_first_failure_leaves_the_rest_not_run(newest: Bench) -> None:
    code = "def test_a():\n    assert False\n\ndef test_b():\n    pass\n"
    result = newest.run({"pytest.ini": "[pytest]\naddopts = -x\n", "test_a.py": code})

    assert (result.status, result.outcomes) == (Status.FAILED, {"test_a.py::test_a": "failed", "test_a.py::test_b": ""})


@pytest.mark.parametrize("args", [(), ("-s",)], ids=["captured", "not captured"])
def test_fifty_megabytes_of_output_are_bounded(newest: Bench, args: tuple[str, ...]) -> None:
    code = """
def test_a():
    print("begin")
    for _ in range(50):
        print("x" * 1_000_000)
    print("end")
    assert False
"""
    result = newest.run({"test_a.py": code}, *args)

    assert result.outcomes == {"test_a.py::test_a": "failed"}
    found = failure(result, "test_a.py::test_a")
    assert names(found.raised) == "AssertionError: assert False"
    assert len(found.output) + len(found.text) + len(result.output) < 60_000
    if not args:
        assert "begin" in found.output
        assert found.output.endswith("end\n")
