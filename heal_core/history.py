"""What the repository's history says, read with GitPython: only after a failure, since importing it costs 80 ms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LastChange:
    """The last commit that changed a file: its short id and the first line of its message."""

    commit: str
    summary: str


def tree_of(toplevel: Path, commit: str) -> str:
    """The id of the tree of `commit` in the repository at `toplevel`."""
    import git

    with git.Repo(toplevel, search_parent_directories=False) as repo:
        return str(repo.commit(commit).tree.hexsha)


def last_change(toplevel: Path, commit: str, path: str) -> LastChange | None:
    """The last change of `path` in the history of `commit`, None where it has none."""
    import git

    with git.Repo(toplevel, search_parent_directories=False) as repo:
        for found in repo.iter_commits(commit, paths=[path], max_count=1):
            message = found.message if isinstance(found.message, str) else found.message.decode("utf-8", "replace")
            return LastChange(found.hexsha[:10], message.partition("\n")[0])
    return None
