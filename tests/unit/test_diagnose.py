"""Failures that no patch of the staged code should answer, and those next to them that one should."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from heal_core import diagnose
from heal_core.errors import EnvironmentFault, HealError, IncompleteCommit
from heal_core.failure import Failure, Frame, Raised

PYTHON = "/env/bin/python"


def missing(name: str) -> Raised:
    return Raised("ModuleNotFoundError", f"No module named '{name}'", (Frame("app.py", 1, "<module>", ""),))


def no_variable(path: str = "<frozen os>") -> Raised:
    return Raised("KeyError", "'DATABASE_URL'", (Frame("app.py", 1, "<module>", ""), Frame(path, 1, "__getitem__", "")))


def checked(
    *raised: Raised | None,
    when: str = "collect",
    text: str = "",
    staged: Collection[str] = ("app.py",),
    modules: Collection[str] = ("app",),
    worktree: Collection[str] = ("app.py",),
) -> HealError | None:
    """What is raised for failures with these exceptions, None where nothing is."""
    failures = [Failure("tests/test_app.py", when, each, text) for each in raised]
    try:
        diagnose.check(failures, staged.__contains__, modules, worktree.__contains__, PYTHON)
    except HealError as error:
        return error
    return None


# -- packages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["numpy", "numpy.linalg", "yaml"])
def test_a_package_that_is_not_installed_is_the_environments_fault(name: str) -> None:
    error = checked(missing(name))

    assert isinstance(error, EnvironmentFault)
    assert error.problem == f"The interpreter {PYTHON} has no module {name!r}, which the tests need."
    assert f"{PYTHON} -m pip install" in error.advice
    assert error.exit_status == 2


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("app.models", "a submodule of the project's own package"),
        ("app", "the project's own"),
        ("ap", "a slip of the project's own name"),
        ("jsn", "a slip of the standard library's"),
        ("collection", "another"),
        ("os.pth", "a submodule of the standard library's"),
    ],
)
def test_a_name_of_the_projects_own_or_a_slip_is_the_codes_fault(name: str, why: str) -> None:
    assert checked(missing(name)) is None, why


@pytest.mark.parametrize(
    "raised",
    [
        Raised("RuntimeError", "pip install numpy", cause=missing("numpy")),
        Raised("RuntimeError", "pip install numpy", context=missing("numpy")),
        Raised("ExceptionGroup", "two", members=(Raised("ValueError", "x"), missing("numpy"))),
        Raised("app.Missing", "numpy", cause=Raised("ImportError", "numpy", context=missing("numpy"))),
    ],
    ids=["cause", "context", "member", "deep"],
)
def test_a_package_that_code_words_as_lacking_is_lacking(raised: Raised) -> None:
    assert isinstance(checked(raised), EnvironmentFault)


@pytest.mark.parametrize("kind", ["NameError", "AttributeError", "TypeError", "UnboundLocalError"])
def test_a_slip_in_the_handler_of_an_import_that_may_fail_is_the_codes_fault(kind: str) -> None:
    assert checked(Raised(kind, "name 'fallbck' is not defined", context=missing("numpy"))) is None


def test_words_about_a_module_in_another_exception_are_not_believed() -> None:
    assert checked(Raised("AssertionError", "assert \"No module named 'numpy'\" == ''")) is None


# -- files that were never added -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["helpers.py", "helpers/__init__.py", "src/helpers.py", "src/helpers/__init__.py"])
def test_a_module_that_lies_in_the_working_tree_and_is_not_staged_makes_the_commit_incomplete(path: str) -> None:
    error = checked(missing("helpers"), worktree=[path])

    assert isinstance(error, IncompleteCommit)
    assert error.problem.startswith(f"{path} is imported but not part of this commit")
    assert (error.advice, error.exit_status) == (f"git add {path}", 1)


@pytest.mark.parametrize(
    ("raised", "path"),
    [
        (missing("app.models.user"), "app/models/user.py"),
        (
            Raised("ImportError", "cannot import name 'models' from 'app' (/repository/app/__init__.py)"),
            "app/models.py",
        ),
        (Raised("ImportError", "cannot import name 'low' from 'app.deep' (unknown location)"), "app/deep/low.py"),
    ],
)
def test_so_does_a_module_in_a_package(raised: Raised, path: str) -> None:
    error = checked(raised, worktree=[path])

    assert isinstance(error, IncompleteCommit)
    assert error.advice == f"git add {path}"


def test_a_module_that_is_staged_is_not_lacking() -> None:
    assert checked(missing("app.models"), staged=["app/models.py"], worktree=["app/models.py"]) is None
    raised = Raised("ImportError", "cannot import name 'x' from 'app.models' (/repository/app/models.py)")
    assert checked(raised, staged=["app/models.py"], worktree=["app/models.py"]) is None


def test_a_lacking_file_is_told_before_a_lacking_package_of_its_name() -> None:
    assert isinstance(checked(missing("helpers"), worktree=["helpers.py"]), IncompleteCommit)


# -- variables -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["<frozen os>", "/usr/lib/python3.9/os.py"])
def test_a_variable_that_an_import_needs_is_the_environments_fault(path: str) -> None:
    error = checked(no_variable(path))

    assert isinstance(error, EnvironmentFault)
    assert error.problem.startswith("tests/test_app.py needs the environment variable DATABASE_URL")
    assert "tests.env=[DATABASE_URL]" in error.advice


def test_a_variable_that_code_words_as_lacking_is_lacking() -> None:
    assert isinstance(checked(Raised("RuntimeError", "set DATABASE_URL", context=no_variable())), EnvironmentFault)


@pytest.mark.parametrize(
    ("raised", "when"),
    [
        (no_variable(), "call"),
        (Raised("KeyError", "'DATABASE_URL'", (Frame("app.py", 1, "f", ""),)), "collect"),
        (Raised("KeyError", "'DATABASE_URL'", (Frame("pkg/pos.py", 1, "f", ""),)), "collect"),
        (Raised("KeyError", "'DATABASE_URL'"), "collect"),
    ],
    ids=["in a test", "a dict of the code's own", "a file whose name ends so", "no frames"],
)
def test_another_key_that_is_not_there_is_the_codes_fault(raised: Raised, when: str) -> None:
    assert checked(raised, when=when) is None


# -- the rest ------------------------------------------------------------------------------------------------------


def test_an_async_test_without_a_plugin_is_the_environments_fault() -> None:
    text = "Failed: async def functions are not natively supported.\nYou need to install a suitable plugin"

    for error in (checked(None, when="call", text=text), checked(Raised("Failed", text), when="call")):
        assert isinstance(error, EnvironmentFault)
        assert "pytest-asyncio" in error.advice


def test_the_first_failure_that_no_patch_answers_is_told() -> None:
    error = checked(Raised("ValueError", "x"), None, missing("numpy"), missing("pandas"))

    assert error is not None
    assert "'numpy'" in error.problem


@pytest.mark.parametrize("raised", [None, Raised("ValueError", "x"), Raised("AssertionError", "assert 1 == 2")])
def test_any_other_failure_may_be_healed(raised: Raised | None) -> None:
    assert checked(raised) is None
