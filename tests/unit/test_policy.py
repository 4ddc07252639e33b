"""What a patch may touch, and the cheats that are refused before anything runs."""

from __future__ import annotations

import sys
import unicodedata
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heal_core.patch import Patch, Rewrite
from heal_core.policy import may_edit, refuse

BAD = "def add(a, b):\n    return a - b\n"
GOOD = "def add(a, b):\n    return a + b\n"


def verdict(before: str, after: str, path: str = "calc.py", limit: int = 40) -> str | None:
    patch = Patch("llm", "", (Rewrite(path, before.encode(), after.encode()),))
    return refuse(patch, {path}, limit)


# -- paths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    ["calc.py", "src/shop/cart.py", "büro/naïve calc.py", "shop/latest.py", "shop/contest.py", "shop/setup_db.py"],
)
def test_an_ordinary_source_may_be_changed(path: str) -> None:
    assert may_edit(path, is_test=False) is None


@pytest.mark.parametrize(
    "path",
    [
        *("conftest.py", "shop/conftest.py", "CONFTEST.PY", "\uff43onftest.py", "tests/helpers.py", "Test/x.py"),
        *("test_cart.py", "shop/cart_test.py", "app/tests.py", "pytest.py", "src/_pytest/main.py", "pluggy/hooks.py"),
        *("setup.py", "noxfile.py", "sitecustomize.py", "lib/usercustomize.py", "site.pth", "pyproject.toml"),
        *("pytest.ini", ".pytest.ini", "pytest.toml", "tox.ini", "setup.cfg", "Makefile", "GNUmakefile", "uv.lock"),
        *(".git/hooks/x.py", ".GIT/x.py", ".github/x.py", ".gitignore", ".pre-commit-config.yaml", ".vscode/x.py"),
        *(
            ".idea/x.py",
            ".envrc",
            "ci/build.py",
            ".ci/run.py",
            "a.so",
            "a.pyd",
            "a.pyc",
            "README.md",
            "venv/site-packages/a.py",
        ),
        *(
            "",
            "/etc/x.py",
            "../x.py",
            "a/../x.py",
            "./x.py",
            "a//x.py",
            "a\\x.py",
            "C:x.py",
            "x.py\n",
            "x\x00.py",
            "a/",
        ),
        unicodedata.normalize("NFD", "naïve.py"),
    ],
)
def test_settings_tests_and_odd_paths_are_never_touched(path: str) -> None:
    reason = may_edit(path, is_test=False)
    assert reason
    assert verdict(BAD, GOOD, path) == f"{reason}. Correct the code under test instead."


def test_a_file_that_the_settings_make_a_test_is_never_touched() -> None:
    assert may_edit("checks/cart.py", is_test=False) is None
    assert "is a test" in str(may_edit("checks/cart.py", is_test=True))
    patch = Patch("llm", "", (Rewrite("checks/cart.py", BAD.encode(), GOOD.encode()),))
    assert "is a test" in str(refuse(patch, ["checks/cart.py"], 40, protected=["checks/cart.py"]))


def test_only_staged_files_may_be_changed() -> None:
    patch = Patch("llm", "", (Rewrite("calc.py", BAD.encode(), GOOD.encode()),))
    assert refuse(patch, ["calc.py"], 40) is None
    assert "not among the staged files" in str(refuse(patch, ["other.py"], 40))


# -- size and form ---------------------------------------------------------------------------------------------------


def test_a_patch_has_one_to_three_files() -> None:
    files = tuple(Rewrite(f"{name}.py", BAD.encode(), GOOD.encode()) for name in "abcd")
    paths = [rewrite.path for rewrite in files]
    assert refuse(Patch("llm", "", files[:3]), paths, 40) is None
    assert "at most 3" in str(refuse(Patch("llm", "", files), paths, 40))
    assert "no file" in str(refuse(Patch("llm", "", ()), paths, 40))
    assert "twice" in str(refuse(Patch("llm", "", files[:1] * 2), paths, 40))


def test_changed_lines_are_limited_over_all_files() -> None:
    long = "".join(f"x{n} = {n}\n" for n in range(5))
    assert verdict(BAD, BAD + long, limit=5) is None
    assert "6 lines; at most 5" in str(verdict(BAD, GOOD + long, limit=5))


def test_a_file_may_not_outgrow_itself() -> None:
    assert "far longer" in str(verdict(BAD, BAD + f"x = '{'y' * 11_000}'\n"))


def test_a_patch_that_changes_nothing_is_refused() -> None:
    assert "as it is" in str(verdict(BAD, BAD))


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("def add(a, b:\n    return a\n", "line 1"),
        ("def add(a, b):\nreturn a\n", "line 2"),
        ("return 1\n", "'return' outside function"),
        ("x = '\x00'\n", "null bytes"),
        ("# coding: no-such\nx = 1\n", "does not compile"),
        ("def f():\n\tif 1:\n        x = 1\n", "tabs"),
        ("x = " + "(" * 3000 + "\n", "does not compile"),
    ],
)
def test_what_does_not_compile_is_refused_with_the_place(after: str, words: str) -> None:
    assert words in str(verdict(BAD, after))


def test_an_error_that_stood_there_before_may_be_newer_syntax() -> None:
    newer = "x = yet another syntax\n"
    reason = str(verdict(newer + BAD, newer + GOOD))
    assert f"newer than Python {sys.version_info.major}.{sys.version_info.minor}" in reason
    assert "newer" not in str(verdict(BAD, newer + GOOD))


def test_a_warning_of_the_users_file_is_not_raised() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verdict(BAD + "x = '\\d' is 1\n", GOOD + "x = '\\d' is 1\n") is None


def test_the_files_own_encoding_is_respected() -> None:
    head = "# coding: latin-1\nx = 'é'\n"
    files = (Rewrite("a.py", (head + BAD).encode("latin-1"), (head + GOOD).encode("latin-1")),)
    assert refuse(Patch("llm", "", files), ["a.py"], 40) is None


# -- cheats ----------------------------------------------------------------------------------------------------------

HEAD = "import os\nimport sys\n"
BODY = "def add(a, b):\n    {}\n    return a - b\n"


@pytest.mark.parametrize(
    "line",
    [
        *("sys.exit(0)", "os._exit(0)", "os.abort()", "raise SystemExit", "raise SystemExit(0)", "exit()", "quit()"),
        *(
            "os.kill(1, 9)",
            "os.execv('a', [])",
            "os.fork()",
            "os.system('true')",
            "os.popen('true')",
            "os.spawnl(0, 'a')",
        ),
        *("exec('x')", "eval('x')", "compile('x', '', 'exec')", "__import__('os')", "globals()['x'] = 1"),
        *("sys._getframe(1)", "sys.settrace(None)", "b.f_back.f_locals", "a.__globals__", "a.__code__.co_consts"),
        *(
            "getattr(os, '_exit')(0)",
            "'pytest' in sys.modules",
            "x = 'PYTEST_CURRENT_TEST' in os.environ",
            "sys.modules",
        ),
        *(
            "x = os.environb[b'PYTEST_VERSION']",
            "x = f'PYTEST_{a}'",
            "type('A', (int,), {'__eq__': a})",
            "dict(__eq__=a)",
        ),
        *("import pytest; pytest.skip('x')", "from pytest import skip", "from _pytest.reports import TestReport"),
        *(
            "import unittest.mock as m",
            "import subprocess",
            "import socket as s",
            "import ctypes",
            "import gc",
            "import inspect",
        ),
        *("import importlib", "from importlib import import_module", "import builtins", "import runpy", "import pty"),
        *(
            "import signal",
            "import threading",
            "import multiprocessing.pool",
            "import urllib.request",
            "import http.client",
        ),
        *(
            "from http import client",
            "import requests",
            "import atexit",
            "from os import _exit as e; e(0)",
            "import sys as s; s.exit()",
        ),
        *("from sys import exit as leave; leave()", "from os import *", "import os as o; o._exit(0)"),
    ],
)
@pytest.mark.parametrize("before", [HEAD + BAD, HEAD + BAD + "x = (\n"], ids=["parsed", "by words"])
def test_a_new_trick_is_refused(before: str, line: str) -> None:
    after = HEAD + line + "\n" + BAD if "*" in line else HEAD + BODY.format(line)
    assert "That is not a fix" in str(verdict(before, after))


def test_a_file_that_did_not_compile_must_have_named_the_module_to_import() -> None:
    fixed = "from subprocess import run\ndef f():\n    run(1)\n"
    assert verdict("def f(:\n    run(1)  # subprocess\n", fixed) is None
    assert "import `subprocess.run`" in str(verdict("def f(:\n    run(1)\n", fixed))


@pytest.mark.parametrize(
    "body",
    [
        "def __eq__(self, other):\n        return True",
        "def __eq__(self, other):\n        other\n        return True",
        "def __eq__(self, other):\n        return self is self",
        "def __ne__(self, other):\n        return not self",
        "async def __eq__(self, other):\n        return self is other",
        "__eq__ = lambda self, other: True",
    ],
)
def test_a_comparison_that_does_not_compare_is_refused(body: str) -> None:
    assert "does not compare" in str(verdict(BAD, f"{BAD}class A(int):\n    {body}\n"))


@pytest.mark.parametrize(
    "body",
    [
        "def __eq__(self, other):\n        return self.x == other.x",
        "def __eq__(self, other):\n        if isinstance(other, A):\n            return True\n        return False",
        "def __eq__(self, other):\n        raise TypeError(other)",
        "def __eq__(self, other, /):\n        return NotImplemented if other is None else self.x == other.x",
        "__eq__ = lambda self, other: self.x == other.x",
    ],
)
def test_an_honest_comparison_is_allowed(body: str) -> None:
    assert verdict(BAD, f"{BAD}class A:\n    {body}\n") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (BAD, GOOD),
        ("import sys\nsys.exit(1)\n\n\ndef main():\n    pass\n", "import sys\n\n\ndef main():\n    sys.exit(1)\n"),
        ("import subprocess\nx = 1\n", "import subprocess\nx = subprocess.run(['a'])\n"),
        ("from threading import Lock\nx = 1\n", "from threading import Lock, RLock\nx = RLock()\n"),
        (
            "def f():\n    return subprocess.run(['a'])\n",
            "import subprocess\n\n\ndef f():\n    return subprocess.run(['a'])\n",
        ),
        (
            "def f():\n    return signature(f)\n",
            "from inspect import signature\n\n\ndef f():\n    return signature(f)\n",
        ),
        ("x = sys.exit\n", "import sys\n\nx = sys.exit\n"),
        ("def f(:\n    subprocess.run(1)\n", "import subprocess\ndef f():\n    subprocess.run(1)\n"),
        ("def eval(x):\n    return x\n", "def eval(x):\n    return eval(x - 1) if x else x\n"),
        ("import re\nx = 1\n", "import re\nx = re.compile('a')\n"),
        ("x = 1\n", "import os\nx = os.path.exists('a')\n"),
        ("x = 1\n", "from urllib.parse import quote\nx = quote('a')\n"),
        ("x = 1\n", "from http import HTTPStatus\nx = HTTPStatus.OK\n"),
        ("x = 1\n", "from .signal import send\nx = send()\n"),
        ("x = 1\n", '"""Used with pytest."""\nx = 2\n'),
        ("x = 'pytest'\n", "y = 'pytest'\n"),
        (
            "class A:\n    def __eq__(self, other):\n        return True\nx = 1\n",
            "class A:\n    def __eq__(self, other):\n        return True\nx = 2\n",
        ),
    ],
)
def test_an_honest_fix_is_allowed(before: str, after: str) -> None:
    assert verdict(before, after) is None


@given(st.binary(max_size=60), st.binary(max_size=60), st.text(max_size=8))
def test_no_content_raises(before: bytes, after: bytes, path: str) -> None:
    reason = refuse(Patch("llm", "", (Rewrite(path, before, after),)), [path], 40)
    assert reason is None or reason


@given(st.text())
def test_an_allowed_path_is_plain(path: str) -> None:
    if may_edit(path, is_test=False) is None:
        assert path.endswith(".py") and not path.startswith("/") and ".." not in path.split("/")
