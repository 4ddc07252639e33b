"""From failures and the staged diff to suspects, in order."""

from __future__ import annotations

from heal_core.failure import Failure, Frame, Raised
from heal_core.localize import MAX_SUSPECTS, localize, staged_lines
from heal_core.source import Source

SHOP = Source("shop.py", "x = 1\n" * 60, "utf-8")
DIFF = """\
diff --git a/shop.py b/shop.py
index 1..2 100644
--- a/shop.py
+++ b/shop.py
@@ -3,2 +3,3 @@ def f():
 same
-old
+new
+more
diff --git a/other.py b/other.py
--- a/other.py
+++ b/other.py
@@ -1 +1 @@
-old
+new
"""


def frame(path: str, lineno: int) -> Frame:
    return Frame(path, lineno, "f", "x = 1")


def places(failures: list[Failure], diff: str = "") -> list[tuple[str, int]]:
    return [(suspect.path, suspect.lineno) for suspect in localize(failures, [SHOP], diff)]


def test_every_staged_line_is_known_by_its_number_after_the_change() -> None:
    assert list(staged_lines(DIFF)) == [("shop.py", 4), ("shop.py", 5), ("other.py", 1)]


def test_a_staged_line_that_looks_like_the_head_of_a_diff_is_a_line() -> None:
    diff = (
        "--- a/shop.py\n+++ b/shop.py\n@@ -2 +2,3 @@ def f():\n--- a/other.py\n+++ b/other.py\n+@@ -1 +1 @@\n+x\n"
        "\\ No newline at end of file\n--- a/other.py\n+++ b/other.py\n@@ -0,0 +1 @@\n+x\n"
    )

    assert list(staged_lines(diff)) == [("shop.py", 2), ("shop.py", 3), ("shop.py", 4), ("other.py", 1)]


def test_the_inner_call_comes_before_the_outer_one() -> None:
    raised = Raised("ValueError", "", (frame("tests/test_shop.py", 9), frame("shop.py", 1), frame("shop.py", 2)))

    assert places([Failure("t", "call", raised, "")]) == [("shop.py", 2), ("shop.py", 1)]


def test_the_root_cause_comes_before_what_it_led_to() -> None:
    cause = Raised("KeyError", "", (frame("shop.py", 7),))
    raised = Raised("ValueError", "", (frame("shop.py", 3),), cause=cause)

    assert places([Failure("t", "call", raised, "")]) == [("shop.py", 7), ("shop.py", 3)]


def test_staged_lines_come_after_every_frame_and_only_of_files_that_may_be_edited() -> None:
    raised = Raised("ValueError", "", (frame("shop.py", 9), frame("/usr/lib/python3/json.py", 1)))

    assert places([Failure("t", "call", raised, "")], DIFF) == [("shop.py", 9), ("shop.py", 4), ("shop.py", 5)]


def test_there_is_a_bound() -> None:
    raised = Raised("RecursionError", "", tuple(frame("shop.py", 1 + n % 55) for n in range(200)))

    assert len(places([Failure("t", "call", raised, "")])) == MAX_SUSPECTS
