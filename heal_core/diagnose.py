"""What a failure is not: an engine's business. An environment that lacks something, a file that was never added."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from heal_core.errors import EnvironmentFault, IncompleteCommit
from heal_core.failure import Failure, Raised

NO_MODULE = re.compile(r"No module named '(?P<name>[^']+)'")
CANNOT_IMPORT = re.compile(r"cannot import name '(?P<name>[^']+)' from '(?P<package>[^']+)'")
ASYNC_WITHOUT_PLUGIN = "async def functions are not natively supported"

# What Python raises by itself where code is wrong.
SLIPS = ("NameError", "UnboundLocalError", "AttributeError", "TypeError", "SyntaxError", "IndentationError")

# A name this near to a known module is a slip of the pen, which an engine may heal, not a package to install.
SLIP_RATIO = 0.8


def check(
    failures: Sequence[Failure],
    staged: Callable[[str], bool],
    project_modules: Iterable[str],
    in_working_tree: Callable[[str], bool],
    python: str,
) -> None:
    """Raise for failures that no patch of the staged code should answer.

    `staged` and `in_working_tree` tell whether a path is in the staged tree and in the user's working tree,
    `project_modules` are the top-level names that the project's own files define, `python` is the interpreter.
    Raises EnvironmentFault (could not judge) or IncompleteCommit (the commit lacks a file).
    """
    modules = frozenset(project_modules)
    for failure in failures:
        for raised in _unanswered(failure.raised):
            _check_untracked(raised, staged, in_working_tree)
            _check_package(raised, modules, python)
            _check_variable(raised, failure)
        if ASYNC_WITHOUT_PLUGIN in failure.text or ASYNC_WITHOUT_PLUGIN in failure.headline():
            raise EnvironmentFault(
                f"{failure.nodeid} is async, and {python} has no pytest plugin for it.",
                "install pytest-asyncio (or anyio) in the project's environment",
            )


def _unanswered(raised: Raised | None) -> Iterator[Raised]:
    """The exceptions of a failure, without those that code had caught when it made a slip of its own.

    `except ImportError: raise RuntimeError(...)` words what is lacking; a NameError in that place is another matter.
    """
    if raised is None:
        return
    yield raised
    context = None if raised.type in SLIPS else raised.context
    for other in (raised.cause, context, *raised.members):
        yield from _unanswered(other)


def _check_untracked(raised: Raised, staged: Callable[[str], bool], in_working_tree: Callable[[str], bool]) -> None:
    """A module that is imported, lies in the working tree, and is not part of the commit."""
    for name in _missing_names(raised):
        stem = name.replace(".", "/")
        for path in (f"{stem}.py", f"{stem}/__init__.py", f"src/{stem}.py", f"src/{stem}/__init__.py"):
            if in_working_tree(path) and not staged(path):
                problem = (
                    f"{path} is imported but not part of this commit: it is not staged, so nobody else will have it."
                )
                raise IncompleteCommit(problem, f"git add {path}")


def _check_package(raised: Raised, modules: frozenset[str], python: str) -> None:
    """A package that is not installed; one that the project has itself, or a misspelt name, is the code's own fault."""
    if not raised.type.endswith("ModuleNotFoundError"):
        return
    for found in NO_MODULE.finditer(raised.message):
        top = found["name"].partition(".")[0]
        known = modules | sys.stdlib_module_names
        if top not in known and not difflib.get_close_matches(top, known, 1, SLIP_RATIO):
            raise EnvironmentFault(
                f"The interpreter {python} has no module {found['name']!r}, which the tests need.",
                f"install it: {python} -m pip install ... (the package that provides {top}), or set tests.python",
            )


def _check_variable(raised: Raised, failure: Failure) -> None:
    """A variable of the environment that code needs before any test runs."""
    last = raised.frames[-1] if raised.frames else None
    if (
        failure.when == "collect"
        and raised.type == "KeyError"
        and last
        and last.path.endswith(("/os.py", "<frozen os>"))
    ):
        name = raised.message.strip("'\"")
        raise EnvironmentFault(
            f"{failure.nodeid or 'The test run'} needs the environment variable {name}, which is not set there.",
            f"set it and hand it in: selfheal run --set 'tests.env=[{name}]' (or tests.env in .selfheal.yaml)",
        )


def _missing_names(raised: Raised) -> Iterable[str]:
    """The dotted names of modules that an import did not find."""
    if found := NO_MODULE.search(raised.message):
        yield found["name"]
    if found := CANNOT_IMPORT.search(raised.message):
        yield f"{found['package']}.{found['name']}"
