"""Whose a failure is: a flaky test and one that HEAD has too do not stop a commit, nor reach an engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from projects import TOTAL_BUG, TOTAL_FILES, TOTAL_FIXED, Project

OLD_FAILURE = {"tests/test_old.py": "import prices\n\n\ndef test_old():\n    assert 1 == 2\n"}


def flaky_test(counter: Path) -> str:
    """A test that fails the first time it runs on this machine, and never again."""
    return f"""import pathlib, prices

def test_now_and_then():
    seen = pathlib.Path({str(counter)!r})
    first = not seen.exists()
    seen.write_text("seen")
    assert not first
"""


def test_a_test_that_fails_once_lets_the_commit_go_on(project: Project, tmp_path: Path) -> None:
    project.commit({**TOTAL_FILES, "tests/test_flaky.py": flaky_test(tmp_path / "seen")})
    project.stage({"prices.py": TOTAL_FIXED})

    judged = project.judged("--set", "sandbox.backend=process")

    assert (judged["outcome"], judged["exit"]) == ("FLAKY", 0)
    assert "tests/test_flaky.py::test_now_and_then failed once" in judged["notes"][0]


def test_a_failure_that_head_has_too_lets_the_commit_go_on_and_is_named(project: Project) -> None:
    project.commit(TOTAL_FILES | OLD_FAILURE, "Add an old failure")
    project.stage({"prices.py": TOTAL_FIXED})

    judged = project.judged()

    assert (judged["outcome"], judged["exit"], judged["attempts"]) == ("PREEXISTING", 0, [])
    assert "tests/test_old.py::test_old fails at HEAD too" in judged["notes"][0]
    assert "Add an old failure" in judged["notes"][0]


def test_beside_an_old_failure_the_changes_own_is_healed(project: Project) -> None:
    project.commit(TOTAL_FILES | OLD_FAILURE)
    project.stage(TOTAL_BUG)

    judged = project.judged()

    assert (judged["outcome"], judged["exit"]) == ("HEALED", 0)
    assert [failure["nodeid"] for failure in judged["failures"]] == ["tests/test_prices.py::test_total"]
    assert project.staged("prices.py") == TOTAL_FIXED


@pytest.mark.parametrize(
    ("setting", "outcome"), [("block", "UNHEALED"), ("heal", "UNHEALED"), ("allow", "PREEXISTING")]
)
def test_the_setting_decides_on_old_failures(project: Project, setting: str, outcome: str) -> None:
    project.commit(TOTAL_FILES | OLD_FAILURE)
    project.stage({"prices.py": TOTAL_FIXED})

    judged = project.judged("--set", f"heal.preexisting={setting}")

    assert judged["outcome"] == outcome
    assert project.staged("prices.py") == TOTAL_FIXED


def test_an_old_failure_whose_trace_runs_through_a_staged_file_is_healed(project: Project) -> None:
    """The test was committed before the code that it tests works: the change is what should have mended it."""
    project.commit({**TOTAL_FILES, "prices.py": "def total(prices):\n    raise NotImplementedError\n"})
    project.stage(TOTAL_BUG)

    judged = project.judged()

    assert judged["outcome"] == "HEALED"
    assert project.staged("prices.py") == TOTAL_FIXED
