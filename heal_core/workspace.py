"""Workspaces: folders that hold a staged tree, outside the repository, for tests to run in.

Each is made by git itself from a private index, so that line ends, filters and modes are those of a real checkout, and
unstaged edits, untracked and intent-to-add files are absent. None is ever shared by two runs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from heal_core.patch import Rewrite
from heal_core.plumbing import as_bytes
from heal_core.repo import Snapshot, remove_tree


@dataclass(frozen=True, slots=True)
class Workspace:
    """A staged tree on disk: where it lies, and the path at which a sandbox that can mount shows it to the tests."""

    folder: Path
    seen_at: Path

    def real(self, path: str) -> str:
        """`path` with symbolic links followed, where that stays in the workspace; both relative to it."""
        root = os.path.realpath(self.folder)
        target = os.path.relpath(os.path.realpath(os.path.join(root, path)), root)
        return path if target.startswith("..") else target

    def links(self) -> Mapping[str, str]:
        """Its symbolic links to files of its own: the path of the link to that of the file."""
        found = ((link, self.real(link)) for link in _walk(str(self.folder), "", links=True))
        return {link: target for link, target in found if link != target and (self.folder / target).is_file()}

    def files(self) -> Mapping[str, bytes]:
        """Its regular files by path relative to it, read only when asked for."""
        return _Files(self.folder)


@contextmanager
def checked_out(snapshot: Snapshot, rewrites: Sequence[Rewrite] = (), tree: str = "") -> Iterator[Workspace]:
    """A fresh workspace of the staged tree (or of `tree`) with `rewrites` laid over it, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="workspace-", dir=snapshot.folder))
    root = folder / "tree"
    root.mkdir()
    git = snapshot.git.having(GIT_INDEX_FILE=folder / "index")
    try:
        git.run("read-tree", tree or snapshot.change.tree)
        if rewrites:
            git.run("update-index", "-z", "--index-info", data=staging_lines(snapshot, rewrites))
        git.run("checkout-index", "-a", "-q", f"--prefix={root}/")
        yield Workspace(root, snapshot.repo.toplevel)
    finally:
        remove_tree(folder)


def staging_lines(snapshot: Snapshot, rewrites: Sequence[Rewrite], modes: Mapping[str, str] | None = None) -> bytes:
    """The input of `git update-index -z --index-info` that stages `rewrites`, under the modes they have or `modes`."""
    modes = modes or {file.path: file.mode for file in snapshot.change.files}
    lines = []
    for rewrite in rewrites:
        blob = snapshot.git.line("hash-object", "-w", "--stdin", "--no-filters", data=rewrite.after)
        lines.append(b"%s %s\t%s\0" % (modes[rewrite.path].encode(), blob.encode(), as_bytes(rewrite.path)))
    return b"".join(lines)


class _Files(Mapping[str, bytes]):
    """The regular files below a folder, listed once, read on demand."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._names = dict.fromkeys(_walk(str(folder), "", links=False))
        self._read: dict[str, bytes] = {}

    def __getitem__(self, path: str) -> bytes:
        if path not in self._names:
            raise KeyError(path)
        if path not in self._read:
            self._read[path] = (self._folder / path).read_bytes()
        return self._read[path]

    def __contains__(self, path: object) -> bool:
        return path in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _walk(folder: str, prefix: str, *, links: bool) -> Iterator[str]:
    """The regular files below `folder`, or its symbolic links."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path, f"{prefix}{entry.name}/", links=links)
            elif entry.is_symlink() if links else entry.is_file(follow_symlinks=False):
                yield prefix + entry.name
