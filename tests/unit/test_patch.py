"""A patch as a unified diff and as a number of lines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heal_core.patch import Patch, Rewrite

# A third of the lines are blank, which makes a plain alignment cost the square of the file's length.
LONG = "".join(f"line_{n} = {n}\n" if n % 3 else "\n" for n in range(20_000))
TEXT = st.text("ab\n\n", max_size=60)


def applied(folder: Path, rewrite: Rewrite) -> bytes:
    """What git makes of the file by the rewrite's diff."""
    (folder / rewrite.path).write_bytes(rewrite.before)
    diff = rewrite.diff("surrogateescape").encode("utf-8", "surrogateescape")
    subprocess.run(["git", "-c", "core.autocrlf=false", "apply", "-"], cwd=folder, input=diff, check=True)
    return (folder / rewrite.path).read_bytes()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\nb\nc\n", b"a\nB\nc\n"),
        (b"a\nb", b"a\nc"),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"", b"a\n"),
        (b"a\n", b""),
        (b"a\n\n\n\n\n\n\nb\n", b"A\n\n\n\n\n\n\nB\n"),
        (b"a\n\n\n\n\n\n\n\nb\n", b"A\n\n\n\n\n\n\n\nB\n"),
        (b"a\r\nb\r\n", b"a\r\nB\r\n"),
        (b"one\rtwo\nthree\n", b"one\rTWO\nthree\n"),
        (b"# coding: latin-1\nx = '\xe4'\ny = 1\n", b"# coding: latin-1\nx = '\xe4'\ny = 2\n"),
        ("x = '\x0c\u2028'\ny = 1\n".encode(), "x = '\x0c\u2028'\ny = 2\n".encode()),
        (LONG.encode(), LONG.replace("line_100 ", "a").replace("line_19000 ", "b").encode()),
    ],
)
def test_git_applies_the_diff(tmp_path: Path, before: bytes, after: bytes) -> None:
    assert applied(tmp_path, Rewrite("a.py", before, after)) == after


@settings(max_examples=60, deadline=None)
@given(TEXT, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4), TEXT), max_size=3))
def test_git_applies_the_diff_of_any_change(
    tmp_path_factory: pytest.TempPathFactory, text: str, changes: list[tuple[int, int, str]]
) -> None:
    after = text
    for start, count, new in changes:
        after = after[:start] + new + after[start + count :]
    rewrite = Rewrite("a.py", text.encode(), after.encode())
    assume(rewrite.diff())

    assert applied(tmp_path_factory.getbasetemp(), rewrite) == after.encode()


def test_a_patch_is_the_diffs_of_its_files_one_after_the_other() -> None:
    patch = Patch("search", "", (Rewrite("a.py", b"a\n", b"b\n"), Rewrite("b.py", b"", b"c\n")))

    assert patch.diff() == ("--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n--- a/b.py\n+++ b/b.py\n@@ -0,0 +1 @@\n+c\n")


def test_a_file_left_as_it_is_has_no_diff() -> None:
    assert Rewrite("a.py", b"a\n", b"a\n").diff() == ""


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("a\nb\n", "a\nb\n", 0),
        ("a\nb\n", "a\nc\nd\n", 2),
        ("a\nb\nc\n", "a\n", 2),
        (LONG, LONG.replace("line_10000 = 10000", "line_10000 = 1"), 1),
        (LONG, LONG.replace("line_100 ", "a").replace("line_19000 ", "b"), 2),
    ],
)
def test_changed_lines_are_those_taken_away_or_added_whichever_are_more(before: str, after: str, lines: int) -> None:
    assert Rewrite("a.py", before.encode(), after.encode()).changed_lines() == lines


def test_the_diff_of_a_long_file_shows_the_change_and_three_lines_around_it() -> None:
    rewrite = Rewrite("a.py", LONG.encode(), LONG.replace("line_10000 = 10000", "line_10000 = 1").encode())

    assert rewrite.diff().count("\n") == 11
