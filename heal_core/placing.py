"""Placing a proved patch: exactly the tested content into the index, the same change into the working tree.

The only code that writes to either. Everything is computed and checked first; if anything of the user's would be
touched the patch is not placed, and if a write fails what was written is put back. The index is written under git's own
lock.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heal_core.errors import GitError, NotPlaced
from heal_core.frameworks import stashed_patch
from heal_core.patch import Patch, Rewrite
from heal_core.plumbing import Git
from heal_core.repo import IndexStyle, Repository, Snapshot, staged_tree
from heal_core.workspace import staging_lines

NAMES_A_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)


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
    _check_unmarked(snapshot, patch)
    _check_unchanged(snapshot)
    lines = staging_lines(snapshot, patch.files)
    _check_not_empty(snapshot, lines)
    files = [planned for rewrite in patch.files if (planned := _planned(snapshot, rewrite)) is not None]
    _check_stash(snapshot, patch, environ)
    with _undisturbed(), _index_lock(snapshot.repo) as lock:
        _check_unchanged(snapshot, files)
        with _written(files):
            _stage(snapshot.repo, patch.files, lines, lock)


def check_style(snapshot: Snapshot) -> None:
    """Raise NotPlaced for a kind of commit whose index selfheal does not write to."""
    repo = snapshot.repo
    if repo.style is not IndexStyle.PLAIN:
        raise NotPlaced(
            f"a fix is staged only in a plain commit, and this is {repo.style.value}; `git add` the files first."
        )
    if repo.merging:
        raise NotPlaced("no fix is staged while a merge, cherry-pick or revert is concluded.")


def _check_not_empty(snapshot: Snapshot, lines: bytes) -> None:
    """Raise NotPlaced when the commit would have the tree of HEAD."""
    if snapshot.change.head is None:
        return
    with tempfile.TemporaryDirectory(dir=snapshot.folder) as folder:
        git = snapshot.git.having(GIT_INDEX_FILE=Path(folder, "index"))
        git.run("read-tree", snapshot.change.tree)
        git.run("update-index", "-z", "--index-info", data=lines)
        tree = git.line("write-tree")
    if tree == snapshot.git.line("rev-parse", f"{snapshot.change.head}^{{tree}}"):
        raise NotPlaced("with the fix the commit would be empty: it would hold exactly what HEAD holds.")


def _planned(snapshot: Snapshot, rewrite: Rewrite) -> Worktree | None:
    """What the user's file shall hold: the fix, with their unstaged lines kept; None where they have no such file."""
    path = snapshot.repo.toplevel / rewrite.path
    state = _state(snapshot.repo.toplevel, rewrite.path)
    if state is None:
        return None
    if not stat.S_ISREG(state.st_mode):
        raise NotPlaced(f"{rewrite.path} is not a regular file in the working tree.")
    now = path.read_bytes()
    base, fixed = (_as_checked_out(snapshot, rewrite.path, data) for data in (rewrite.before, rewrite.after))
    then = fixed if now == base else _merged(snapshot, now, base, fixed)
    if then is None:
        raise NotPlaced(f"the fix overlaps your unstaged lines in {rewrite.path}.")
    return Worktree(path, now, then, stat.S_IMODE(state.st_mode))


def _check_unmarked(snapshot: Snapshot, patch: Patch) -> None:
    """Raise NotPlaced for an entry with a mark of the user's, which staging anew would take away."""
    paths = [rewrite.path for rewrite in patch.files]
    for row in filter(None, snapshot.git.run("ls-files", "-v", "-z", "--", *paths).split(b"\0")):
        if not row.startswith(b"H "):
            raise NotPlaced(f"{os.fsdecode(row[2:])} is marked as assume-unchanged or skip-worktree.")


def _state(toplevel: Path, path: str) -> os.stat_result | None:
    """What lies at `path`, None where nothing does; as for git, nothing lies beyond a symbolic link."""
    folders = list((toplevel / path).parents)[: path.count("/")]
    if any(folder.is_symlink() for folder in folders):
        return None
    try:
        return (toplevel / path).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


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
                f"the fix is too near your unstaged lines in {names}, which the hook framework keeps in {stash}; "
                "stage or stash those lines first."
            )


def _applies(git: Git, setting: Sequence[str], words: Sequence[str]) -> bool:
    try:
        git.run(*setting, "apply", "--check", "--whitespace=nowarn", *words)
    except GitError:
        return False
    return True


def _outside(environ: Mapping[str, str]) -> dict[str, str]:
    """git's environment without what names the repository."""
    return {name: value for name, value in environ.items() if name not in NAMES_A_REPOSITORY}


def _check_unchanged(snapshot: Snapshot, files: Sequence[Worktree] = ()) -> None:
    """Raise NotPlaced when something moved since the tests ran, or a file since it was looked at."""
    repo = snapshot.repo
    if repo.head() != snapshot.change.head:
        raise NotPlaced("HEAD moved while selfheal was at work.")
    if staged_tree(repo) != snapshot.change.tree:
        raise NotPlaced("something was staged while selfheal was at work, and was not tested.")
    for file in files:
        if not _holds(file.path, file.now):
            raise NotPlaced(f"{file.path} was edited while selfheal was at work.")


def _holds(path: Path, data: bytes) -> bool:
    """Whether the file at `path` is there and holds `data`."""
    try:
        return path.read_bytes() == data
    except OSError:
        return False


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Signals that would end the process come afterwards: to this process, and to the git commands that it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _index_lock(repo: Repository) -> Iterator[Path]:
    """git's own lock of the index, holding a copy of it; whoever moves it over the index has staged what it holds.

    Until then no git command stages anything, and afterwards none finds the index half written.
    """
    lock = Path(f"{os.path.realpath(repo.index)}.lock")
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        raise NotPlaced(f"another git process holds the index ({lock} is there).") from None
    except OSError as error:
        raise NotPlaced(f"the index could not be written: {error.strerror}.") from None
    moved = False
    try:
        shutil.copy2(repo.index, lock)  # with its time, by which git tells which of its entries to look at again
        yield lock
        moved = True
    except OSError as error:
        raise NotPlaced(f"the index could not be written: {error.strerror}.") from None
    finally:
        if not moved:
            lock.unlink(missing_ok=True)


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
            if _holds(file.path, file.then):
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


def _stage(repo: Repository, rewrites: Sequence[Rewrite], lines: bytes, lock: Path) -> None:
    """Write the fixed blobs into the user's object folder and their entries into the index, in one step."""
    for rewrite in rewrites:
        repo.git.run("hash-object", "-w", "--stdin", "--no-filters", data=rewrite.after)
    git = repo.git.having(GIT_INDEX_FILE=lock)
    git.run("update-index", "-z", "--index-info", data=lines)
    git.run("update-index", "-q", "--refresh", ok=(0, 1))
    os.replace(lock, os.path.realpath(repo.index))
