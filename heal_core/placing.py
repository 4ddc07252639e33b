"""Placing a proved patch: exactly the tested content into the index, the same change into the working tree.

The only code that writes to either. Everything is computed and checked first; if anything of the user's would be touched
the patch is not placed, and if a write fails what was written is put back.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heal_core.errors import GitError, NotPlaced
from heal_core.frameworks import stashed_patch
from heal_core.patch import Patch, Rewrite
from heal_core.plumbing import Git
from heal_core.repo import IndexStyle, Snapshot, staged_tree
from heal_core.workspace import staging_lines


@dataclass(frozen=True, slots=True)
class Worktree:
    """One file of the working tree: what it holds now and what it shall hold. A file that is not there stays so."""

    path: Path
    now: bytes
    then: bytes
    mode: int


def place(snapshot: Snapshot, patch: Patch, environ: Mapping[str, str]) -> None:
    """Stage `patch`, which was proved on `snapshot`, and make the same change in the working tree.

    Raises NotPlaced, with nothing changed, when that would touch what is not ours, or is not what was tested.
    """
    check_style(snapshot)
    lines = staging_lines(snapshot, patch.files)
    expected = _expected_tree(snapshot, lines)
    files = [planned for rewrite in patch.files if (planned := _planned(snapshot, rewrite)) is not None]
    _check_stash(snapshot, patch, environ)
    _check_unchanged(snapshot, files)
    with _written(files):
        _stage(snapshot, patch.files, lines)
        if staged_tree(snapshot.repo) != expected:
            _unstage(snapshot, patch.files)
            raise NotPlaced("what is staged is not what was tested: something else wrote to the index meanwhile.")


def check_style(snapshot: Snapshot) -> None:
    """Raise NotPlaced for a kind of commit whose index selfheal does not write to."""
    repo = snapshot.repo
    if repo.style is not IndexStyle.PLAIN:
        raise NotPlaced(f"selfheal does not yet stage a fix in {repo.style.value}.")
    if repo.merging:
        raise NotPlaced("selfheal does not yet stage a fix while a merge, cherry-pick or revert is concluded.")


def _expected_tree(snapshot: Snapshot, lines: bytes) -> str:
    """The tree that the commit shall have; that of HEAD would make it an empty commit."""
    with tempfile.TemporaryDirectory(dir=snapshot.folder) as folder:
        git = snapshot.git.having(GIT_INDEX_FILE=Path(folder, "index"))
        git.run("read-tree", snapshot.change.tree)
        git.run("update-index", "-z", "--index-info", data=lines)
        tree = git.line("write-tree")
    if snapshot.change.head and tree == snapshot.git.line("rev-parse", f"{snapshot.change.head}^{{tree}}"):
        raise NotPlaced("with the fix the commit would be empty: it would hold exactly what HEAD holds.")
    return tree


def _planned(snapshot: Snapshot, rewrite: Rewrite) -> Worktree | None:
    """What the user's file shall hold: the fix, with their unstaged lines kept; None where they have no such file."""
    path = snapshot.repo.toplevel / rewrite.path
    try:
        state = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(state.st_mode):
        raise NotPlaced(f"{rewrite.path} is not a regular file in the working tree.")
    now = path.read_bytes()
    base, fixed = (_as_checked_out(snapshot, rewrite.path, data) for data in (rewrite.before, rewrite.after))
    then = fixed if now == base else _merged(snapshot, now, base, fixed)
    if then is None:
        raise NotPlaced(f"the fix overlaps your unstaged lines in {rewrite.path}.")
    return Worktree(path, now, then, stat.S_IMODE(state.st_mode))


def _as_checked_out(snapshot: Snapshot, path: str, data: bytes) -> bytes:
    """Staged content as git would check it out: line ends and filters applied."""
    blob = snapshot.git.line("hash-object", "-w", "--stdin", "--no-filters", data=data)
    return snapshot.git.run("cat-file", "--filters", f"--path={path}", blob)


def _merged(snapshot: Snapshot, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
    """The three-way merge of the user's file with the fix, None where they overlap."""
    with tempfile.TemporaryDirectory(dir=snapshot.folder) as folder:
        names = [str(Path(folder, name)) for name in ("ours", "base", "theirs")]
        for name, data in zip(names, (ours, base, theirs), strict=True):
            Path(name).write_bytes(data)
        try:
            return snapshot.git.run("merge-file", "-p", "-q", *names)
        except GitError:
            return None


def _check_stash(snapshot: Snapshot, patch: Patch, environ: Mapping[str, str]) -> None:
    """Under a hook framework the unstaged lines are in a patch file that is applied after the hook: it must still fit.

    pre-commit needs three unchanged lines around each hunk; where they are gone it gives up and leaves all unstaged
    work of the repository in that file.
    """
    stash = stashed_patch(environ)
    if stash is None:
        return
    paths = [f"--include={rewrite.path}" for rewrite in patch.files]
    with tempfile.TemporaryDirectory(dir=snapshot.folder) as folder:
        for rewrite in patch.files:
            target = Path(folder, rewrite.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_as_checked_out(snapshot, rewrite.path, rewrite.after))
        git = Git(Path(folder), {**_outside(snapshot.git.environ), "GIT_CEILING_DIRECTORIES": folder})
        settings = [[], ["-c", "core.autocrlf=false"]]
        if not any(_applies(git, setting, [*paths, str(stash)]) for setting in settings):
            names = ", ".join(rewrite.path for rewrite in patch.files)
            raise NotPlaced(
                f"the fix is too near your unstaged lines in {names}, which the hook framework keeps in {stash}.",
                "`selfheal install` runs before that stash and can merge nearer; or stage or stash those lines yourself",
            )


def _applies(git: Git, setting: Sequence[str], words: Sequence[str]) -> bool:
    try:
        git.run(*setting, "apply", "--check", "--whitespace=nowarn", *words)
    except GitError:
        return False
    return True


def _outside(environ: Mapping[str, str]) -> dict[str, str]:
    """git's environment without what names the repository."""
    return {name: value for name, value in environ.items() if name not in
            ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES")}  # fmt: skip


def _check_unchanged(snapshot: Snapshot, files: Sequence[Worktree]) -> None:
    """The last look before the first write: nothing may have moved since the tests ran."""
    repo = snapshot.repo
    if repo.head() != snapshot.change.head:
        raise NotPlaced("HEAD moved while selfheal was at work.")
    if staged_tree(repo) != snapshot.change.tree:
        raise NotPlaced("something was staged while selfheal was at work, and was not tested.")
    for file in files:
        if file.path.read_bytes() != file.now:
            raise NotPlaced(f"{file.path} was edited while selfheal was at work.")


@contextlib.contextmanager
def _written(files: Sequence[Worktree]) -> Iterator[None]:
    """The working tree's files as they shall be; put back when what follows fails.

    They come before the index: a crash in between shows the fix as an unstaged change, never as its reversal.
    """
    done: list[Worktree] = []
    try:
        for file in files:
            _replace(file.path, file.then, file.mode)
            done.append(file)
        yield
    except BaseException as error:
        for file in done:
            if file.path.read_bytes() == file.then:
                _replace(file.path, file.now, file.mode)
        if isinstance(error, OSError):
            raise NotPlaced(f"{error.filename or 'a file'} could not be written: {error.strerror}.") from None
        if isinstance(error, GitError):
            raise NotPlaced(f"the index could not be written: {error.problem}") from None
        raise


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Write by temporary file and rename, so that a full disk leaves the file whole; owner and mode are kept."""
    owner = path.stat()
    fd, name = tempfile.mkstemp(prefix=".selfheal-", dir=path.parent)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.chown(name, owner.st_uid, owner.st_gid)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _stage(snapshot: Snapshot, rewrites: Sequence[Rewrite], lines: bytes) -> None:
    """Write the fixed blobs into the user's object folder and their entries into the index, in one step."""
    git = snapshot.repo.git
    for rewrite in rewrites:
        git.run("hash-object", "-w", "--stdin", "--no-filters", data=rewrite.after)
    git.run("update-index", "-z", "--index-info", data=lines)
    git.run("update-index", "-q", "--refresh", ok=(0, 1))


def _unstage(snapshot: Snapshot, rewrites: Sequence[Rewrite]) -> None:
    """Put back the entries that are still ours."""
    git = snapshot.repo.git
    for file in snapshot.change.files:
        ours = next((rewrite for rewrite in rewrites if rewrite.path == file.path), None)
        entry = git.run("ls-files", "-s", "-z", "--", file.path) if ours else b""
        if ours and entry.split(b" ")[1:2] == [_blob(snapshot, ours.after)]:
            git.run("update-index", "-z", "--index-info", data=staging_lines(snapshot, [_reversed(ours)]))


def _reversed(rewrite: Rewrite) -> Rewrite:
    return Rewrite(rewrite.path, rewrite.after, rewrite.before)


def _blob(snapshot: Snapshot, data: bytes) -> bytes:
    return snapshot.git.line("hash-object", "--stdin", "--no-filters", data=data).encode()
