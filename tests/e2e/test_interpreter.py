"""Whose python runs the tests, where the answer needs git: an environment in the repository that git does not track."""

from __future__ import annotations

import os

import pytest
from projects import TOTAL_FILES, Project


@pytest.mark.parametrize("tracked", [False, True], ids=["untracked", "tracked"])
def test_an_environment_in_a_subfolder_is_used_unless_git_tracks_it(project: Project, tracked: bool) -> None:
    files = TOTAL_FILES | {"pytest.ini": "[pytest]\n"}
    project.commit({f"backend/{path}": text for path, text in files.items()})
    (project.path / "backend" / ".venv").symlink_to(project.python.parent.parent)
    project.stage({"backend/prices.py": TOTAL_FILES["prices.py"] + "# more\n"})
    if tracked:
        project.git("add", "backend/.venv")
    environ = {"VIRTUAL_ENV": f"{project.path}/backend/.venv", "PATH": os.environ["PATH"]}

    judged = project.judged(env=environ)

    assert judged["outcome"] == "PASSED", judged
    assert (judged["interpreter"] == f"{project.path}/backend/.venv/bin/python") is not tracked
