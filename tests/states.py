"""What a commit may change, as values to compare: history, index, working tree, git directory."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from projects import Project

KEY = "key-of-the-test"


def everything(project: Project) -> dict[str, Any]:
    """HEAD and the refs, each staged entry, each file of the working tree with its mode and bytes, what git says."""
    return {
        "refs": project.git("for-each-ref"),
        "HEAD": project.run("git", "rev-parse", "-q", "--verify", "HEAD").stdout,
        "index": project.index(),
        "flags": project.git("ls-files", "-t"),
        "files": project.worktree(),
        "modes": {path: (project.path / path).lstat().st_mode for path in project.worktree()},
        "status": project.run("git", "status", "--porcelain").stdout,
    }


def folder(path: Path) -> dict[str, bytes]:
    """Every file below `path`, its bytes."""
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def commit(project: Project, *args: str, url: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """A real `git commit` with selfheal as git's own hook, which asks the model at `url` where that is given."""
    project.install_hook()
    asked = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": KEY} if url else {}
    return project.run("git", "commit", "-m", "Change", *args, env=asked | env)


def blob(project: Project, name: str) -> bytes:
    """The bytes of an object, such as `HEAD:prices.py` or `:prices.py`."""
    return subprocess.run(["git", "cat-file", "blob", name], cwd=project.path, capture_output=True, check=True).stdout
