"""Where hook frameworks keep the user's unstaged changes while their hooks run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from heal_core.frameworks import needed_lines, stashed_patch

CODE = """
import os
from heal_core.frameworks import stashed_patch
print(stashed_patch(dict(os.environ)))
"""
# A framework's process (the shell) starts a hook (this Python).
FRAMEWORK = '{before}; "$0" -c "$1"; true'


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home of the test's own, in a hook of a framework."""
    return {"HOME": str(tmp_path), "PRE_COMMIT": "1", "PATH": os.environ["PATH"]}


def told(environ: dict[str, str], before: str) -> str:
    """What a hook finds, started by a framework that has run the shell commands `before`."""
    argv = ["/bin/sh", "-c", FRAMEWORK.format(before=before), sys.executable, CODE]
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, ".cache/pre-commit/patch1700000000-$$"),
        ({"XDG_CACHE_HOME": "{home}/xdg"}, "xdg/pre-commit/patch1700000000-$$"),
        ({"PRE_COMMIT_HOME": "{home}/own"}, "own/patch1700000000-$$"),
        ({}, ".cache/prek/patches/1700000000000-$$.patch"),
        ({"XDG_CACHE_HOME": "{home}/xdg"}, "xdg/prek/patches/1700000000000-$$.patch"),
        ({"PREK_HOME": "{home}/own"}, "own/patches/1700000000000-$$.patch"),
    ],
)
def test_the_file_that_the_framework_above_wrote_is_found(
    environ: dict[str, str], variables: dict[str, str], name: str
) -> None:
    environ |= {key: value.format(home=environ["HOME"]) for key, value in variables.items()}
    found = told(environ, f'mkdir -p "$(dirname "$HOME/{name}")"; touch "$HOME/{name}"')

    prefix, _, suffix = name.partition("$$")
    assert found.startswith(f"{environ['HOME']}/{prefix}")
    assert found.endswith(suffix)
    assert found.removeprefix(f"{environ['HOME']}/{prefix}").removesuffix(suffix).isdigit()


@pytest.mark.parametrize(
    "before",
    [
        "true",
        'touch "$F/patch1700000000-999999999"',
        'touch "$F/patch1700000000-"',
        'touch "$F/patch1700000000-x$$"',
        'touch "$F/db.db" "$F/patch$$"',
        'touch -d "1 hour ago" "$F/patch1700000000-$$"',
    ],
    ids=[
        "none",
        "of no process",
        "without a number",
        "of no number",
        "other files",
        "of an earlier process of the number",
    ],
)
def test_no_other_file_is_taken_for_it(environ: dict[str, str], before: str) -> None:
    folder = f"{environ['HOME']}/.cache/pre-commit"

    assert told(environ, f"F={folder}; mkdir -p $F; {before}") == "None"


def test_of_two_the_later_is_taken(environ: dict[str, str]) -> None:
    folder = f"{environ['HOME']}/.cache/pre-commit"
    before = f"mkdir -p {folder}; touch {folder}/patch1-$$; sleep 0.05; touch {folder}/patch2-$$"

    assert told(environ, before).startswith(f"{folder}/patch2-")


def test_a_process_beside_the_hook_is_not_the_framework_above(environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".cache", "pre-commit")
    folder.mkdir(parents=True)
    beside = subprocess.Popen(["/bin/sleep", "30"])
    try:
        (folder / f"patch{int(time.time())}-{beside.pid}").touch()
        assert told(environ, "true") == "None"
    finally:
        beside.kill()
        beside.wait()


def test_outside_a_framework_nothing_is_looked_for(environ: dict[str, str]) -> None:
    folder = Path(environ["HOME"], ".cache", "pre-commit")
    folder.mkdir(parents=True)
    (folder / f"patch{int(time.time())}-{os.getppid()}").touch()

    assert stashed_patch(environ) is not None
    del environ["PRE_COMMIT"]
    assert stashed_patch(environ) is None


# -- which lines such a patch needs --------------------------------------------------------------------------------


def git_diff(folder: Path, before: str, after: str, name: str = "a.py") -> str:
    """What `git diff`, as the frameworks run it, says of a change."""
    folder.mkdir()
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)
    (folder / name).write_text(before)
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    (folder / name).write_text(after)
    argv = ["git", "diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules", "--binary", "--no-color"]
    return subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout


LINES = [f"line {number}\n" for number in range(1, 31)]


def changed(*numbers: int) -> str:
    """The thirty lines with some of them changed."""
    return "".join("changed\n" if number + 1 in numbers else line for number, line in enumerate(LINES))


@pytest.mark.parametrize(
    ("after", "needed"),
    [
        (changed(10), range(7, 14)),
        (changed(1), range(1, 5)),
        (changed(30), range(27, 31)),
        (changed(5, 25), [*range(2, 9), *range(22, 29)]),
        ("".join(LINES) + "more\n", range(28, 31)),
        ("".join(LINES[:9] + LINES[10:]), range(7, 14)),
    ],
    ids=["middle", "first", "last", "two places", "appended", "removed"],
)
def test_a_patch_needs_the_lines_of_its_hunks_with_their_context(tmp_path: Path, after: str, needed: range) -> None:
    assert needed_lines(git_diff(tmp_path / "r", "".join(LINES), after)) == {"a.py": frozenset(needed)}


def test_a_name_with_spaces_is_read_whole(tmp_path: Path) -> None:
    patch = git_diff(tmp_path / "r", "".join(LINES), changed(10), "a b.py")

    assert needed_lines(patch) == {"a b.py": frozenset(range(7, 14))}


def test_what_is_no_patch_needs_no_lines() -> None:
    assert needed_lines("") == {}
    assert needed_lines("@@ -1 +1 @@\n") == {}
