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
from dataclasses import dataclass, replace
from pathlib import Path

from heal_core import recovery
from heal_core.ancestry import Process, this_process
from heal_core.errors import GitError, NotPlaced
from heal_core.frameworks import needed_lines, stashed_patch
from heal_core.patch import Patch, Rewrite
from heal_core.plumbing import Git
from heal_core.repo import IndexStyle, Snapshot
from heal_core.workspace import staging_lines

NAMES_A_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
)


@dataclass(frozen=True, slots=True)
class Story:
    """How a patch came about, for the record: `model` is "" for an engine without one, `seconds` count the run."""

    model: str = ""
    attempts: int = 0
    tokens: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Worktree:
    """One file of the working tree: what it holds now and what it shall hold. A file that is not there stays so."""

    path: Path
    now: bytes
    then: bytes
    mode: int


@dataclass(frozen=True, slots=True)
class Index:
    """One index to write: its file, and the entries as `git update-index --index-info` takes them."""

    path: Path
    lines: bytes

    @property
    def lock(self) -> Path:
        """git's own lock of it."""
        return Path(f"{os.path.realpath(self.path)}.lock")

    def copied(self, folder: Path) -> Copy:
        """A copy of it in `folder`, without the entries; its time of change, by which git knows racy entries, stays."""
        path = Path(shutil.copy2(self.path, folder / f"{self.path.name}.copy"))
        return Copy(self, path, path.read_bytes())


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of an index that is to become it: where it lies, and the bytes that the index had."""

    index: Index
    path: Path
    seen: bytes

    def stale(self) -> bool:
        """Whether somebody wrote the index since."""
        return not _holds(self.index.path, self.seen)

    def fill(self, git: Git) -> None:
        """Put the entries into the copy."""
        git.having(GIT_INDEX_FILE=self.path).run("update-index", "-z", "--index-info", data=self.index.lines)

    def ready(self, git: Git, folder: Path, paths: Sequence[str]) -> Path:
        """It in `folder`, on disk, needing only to be renamed; knowing the files at `paths` as they lie there now."""
        if paths:
            git.having(GIT_INDEX_FILE=self.path).run("add", "--refresh", "--", *paths)
        ready = folder / f"new-{self.index.path.name}"
        with open(ready, "wb") as file:
            file.write(self.path.read_bytes())
            file.flush()
            os.fsync(file.fileno())
        shutil.copystat(self.path, ready)
        os.chmod(ready, self.index.path.stat().st_mode & 0o7777)
        return ready

    def become(self, ready: Path) -> None:
        """Make it the index, in one step."""
        os.replace(ready, os.path.realpath(self.index.path))


def place(
    snapshot: Snapshot, patch: Patch, environ: Mapping[str, str], story: Story, commit: Process | None = None
) -> str:
    """Stage `patch`, which was proved on `snapshot`, and make the same change in the working tree; the record's id.

    `commit` is the git commit that this runs in, which must still live. Raises NotPlaced, with nothing changed, when
    placing would touch what is not ours, or is not what was tested.
    """
    _check_alive(commit)
    check_style(snapshot)
    _check_unmarked(snapshot, patch)
    indexes = _indexes(snapshot, patch)
    copies, expected = _filled(snapshot, indexes)
    _check_not_empty(snapshot, expected)
    found = {rewrite.path: _planned(snapshot, rewrite, "PRE_COMMIT" in environ) for rewrite in patch.files}
    files = [file for file in found.values() if file is not None]
    _check_stash(snapshot, patch, environ)
    heal = _record(snapshot, patch, found, expected, story, environ)
    with undisturbed(), _recorded(snapshot, heal, files) as folder, locked(indexes, folder):
        _check_alive(commit)
        if any(copy.stale() for copy in copies):  # by a `git status`, perhaps, which stages nothing
            copies, _ = _filled(snapshot, indexes)
        _check_unchanged(snapshot, files)
        with _written(files, heal.id):
            store_blobs(snapshot.repo.git, patch.files)
            there = [path for path, file in found.items() if file is not None]
            _stage(snapshot.repo.git, there, copies, folder)
    return heal.id


def check_style(snapshot: Snapshot) -> None:
    """Raise NotPlaced for an index that selfheal does not know, and so does not write to."""
    style = snapshot.repo.style
    if style is IndexStyle.FOREIGN:
        raise NotPlaced(f"this is {style.value}, which selfheal does not write to.")


def foresee(snapshot: Snapshot, suspects: Sequence[tuple[str, int]], environ: Mapping[str, str]) -> None:
    """Raise NotPlaced when no fix near `suspects` (paths and lines) could be placed, before anything is spent on one.

    Only a hook framework makes that certain: its restore of what is not staged would fail, or it stops the commit.
    """
    stash = stashed_patch(environ)
    if stash is None:
        return
    for path in dict.fromkeys(path for path, _ in suspects):
        blob = next(file.blob for file in snapshot.change.files if file.path == path)
        stored = snapshot.git.run("cat-file", "blob", blob)
        checked_out = snapshot.git.run("cat-file", "--filters", f"--path={path}", blob)
        if not any(_holds(snapshot.repo.toplevel / path, data) for data in (stored, checked_out)):
            raise NotPlaced(f"another hook changed {path} without staging it, so this commit will be stopped.")
    unstaged = needed_lines(stash.read_bytes().decode("utf-8", "surrogateescape"))
    near = [path for path, lineno in suspects if lineno in unstaged.get(path, ())]
    if suspects and len(near) == len(suspects):
        raise _too_near(near, stash)


def _indexes(snapshot: Snapshot, patch: Patch) -> list[Index]:
    """The indexes to write: the one that the commit reads and, where git keeps another for afterwards, that one too.

    `git commit PATH` reads a temporary index, and makes `index.lock` the index when it succeeds: an entry of that one
    is written only where it still is what was tested.
    """
    repo = snapshot.repo
    indexes = [Index(repo.index, staging_lines(snapshot, patch.files))]
    if repo.style is IndexStyle.PARTIAL:
        kept = repo.git_dir / "index.lock"
        git = repo.git.having(GIT_INDEX_FILE=kept)
        tested = {file.path: f"{file.mode} {file.blob} 0\t".encode() for file in snapshot.change.files}
        same = [
            rewrite
            for rewrite in patch.files
            if git.run("ls-files", "-s", "-z", "--", rewrite.path).startswith(tested[rewrite.path])
        ]
        if same:
            indexes.append(Index(kept, staging_lines(snapshot, same)))
    return indexes


def _filled(snapshot: Snapshot, indexes: Sequence[Index]) -> tuple[list[Copy], str]:
    """Copies of the indexes with the fix in them, and the tree that the commit shall have.

    Raises NotPlaced when the index that the commit reads is not what was tested.
    """
    try:
        copies = [index.copied(snapshot.folder) for index in indexes]
    except OSError as error:
        raise NotPlaced(f"the index could not be read: {error.strerror}.") from None
    # The trees are written from a further copy: git notes in it their names, and the user's object folder lacks them.
    scratch = replace(copies[0], path=Path(shutil.copy2(copies[0].path, snapshot.folder / "scratch")))
    git = snapshot.git.having(GIT_INDEX_FILE=scratch.path)
    if git.line("write-tree") != snapshot.change.tree:
        raise NotPlaced("something was staged while selfheal was at work, and was not tested.")
    for copy in (scratch, *copies):
        copy.fill(snapshot.git)
    return copies, git.line("write-tree")


def _check_not_empty(snapshot: Snapshot, tree: str) -> None:
    """Raise NotPlaced when the commit would have the tree of HEAD; for a merge that may be so."""
    head = snapshot.change.head
    if head and not snapshot.repo.merge_heads() and tree == snapshot.git.line("rev-parse", f"{head}^{{tree}}"):
        raise NotPlaced("with the fix the commit would be empty: it would hold exactly what HEAD holds.")


def _planned(snapshot: Snapshot, rewrite: Rewrite, framework: bool) -> Worktree | None:
    """What the user's file shall hold: the fix, with their unstaged lines kept; None where they have no such file."""
    path = snapshot.repo.toplevel / rewrite.path
    there = state(snapshot.repo.toplevel, rewrite.path)
    if there is None:
        return None
    if not stat.S_ISREG(there.st_mode):
        raise NotPlaced(f"{rewrite.path} is not a regular file in the working tree.")
    now = path.read_bytes()
    base, fixed = (_as_checked_out(snapshot, rewrite.path, data) for data in (rewrite.before, rewrite.after))
    if _keeps_lf(base, rewrite.before, now):
        base, fixed = rewrite.before, rewrite.after
    if now != base and framework and snapshot.repo.in_commit:
        raise NotPlaced(f"{rewrite.path} was changed while the hooks ran, for which the framework stops the commit.")
    then = fixed if now == base else merged(snapshot, now, base, fixed)
    if then is None:
        raise NotPlaced(f"the fix overlaps your unstaged lines in {rewrite.path}.")
    return Worktree(path, now, then, stat.S_IMODE(there.st_mode))


def _keeps_lf(checked_out: bytes, stored: bytes, now: bytes) -> bool:
    """Whether the user's file has the line ends that are stored, though git would check it out with CRLF."""
    return b"\r" in checked_out and b"\r" not in now and checked_out.replace(b"\r\n", b"\n") == stored


def _check_unmarked(snapshot: Snapshot, patch: Patch) -> None:
    """Raise NotPlaced for an entry with a mark of the user's, which staging anew would take away."""
    paths = [rewrite.path for rewrite in patch.files]
    for row in filter(None, snapshot.git.run("ls-files", "-v", "-z", "--", *paths).split(b"\0")):
        if not row.startswith(b"H "):
            raise NotPlaced(f"{os.fsdecode(row[2:])} is marked as assume-unchanged or skip-worktree.")


def state(toplevel: Path, path: str) -> os.stat_result | None:
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


def merged(snapshot: Snapshot, ours: bytes, base: bytes, theirs: bytes) -> bytes | None:
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
    work of the repository in that file. Like the patch, the content that it is tried on is in the form that git stores.
    """
    stash = stashed_patch(environ)
    if stash is None:
        return
    paths = [f"--include={rewrite.path}" for rewrite in patch.files]
    with tempfile.TemporaryDirectory(dir=snapshot.folder) as folder:
        for rewrite in patch.files:
            target = Path(folder, rewrite.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(rewrite.after)
        git = Git(Path(folder), {**_outside(snapshot.git.environ), "GIT_CEILING_DIRECTORIES": folder})
        try:
            git.run("-c", "core.autocrlf=false", "apply", "--check", "--whitespace=nowarn", *paths, str(stash))
        except GitError:
            raise _too_near([rewrite.path for rewrite in patch.files], stash) from None


def _too_near(paths: Sequence[str], stash: Path) -> NotPlaced:
    names = ", ".join(dict.fromkeys(paths))
    return NotPlaced(
        f"the fix is too near your unstaged lines in {names}, which the hook framework keeps in {stash}. Stage or "
        "stash those lines first, or let selfheal run before the framework takes them away (`selfheal install`)."
    )


def _outside(environ: Mapping[str, str]) -> dict[str, str]:
    """git's environment without what names the repository."""
    return {name: value for name, value in environ.items() if name not in NAMES_A_REPOSITORY}


def _check_unchanged(snapshot: Snapshot, files: Sequence[Worktree] = ()) -> None:
    """Raise NotPlaced when something moved since the tests ran, or a file since it was looked at."""
    repo = snapshot.repo
    if repo.head() != snapshot.change.head:
        raise NotPlaced("HEAD moved while selfheal was at work.")
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
def undisturbed() -> Iterator[None]:
    """Signals that would end the process come afterwards: to this process, and to the git commands that it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_alive(commit: Process | None) -> None:
    """Raise NotPlaced when the commit has ended meanwhile: its locks are gone, and its unstaged changes may be back."""
    if commit is not None and not commit.alive():
        raise NotPlaced("the git commit that this was for has ended.")


@contextlib.contextmanager
def locked(indexes: Sequence[Index], folder: Path) -> Iterator[None]:
    """git's own lock of every index: no git command stages anything meanwhile, and none finds an index half written.

    `folder` is that of the heal's record, which tells after a crash that the locks are ours.
    """
    with contextlib.ExitStack() as held:
        for index in indexes:
            try:
                held.enter_context(recovery.lock_file(folder, index.lock))
            except FileExistsError:
                raise NotPlaced(f"another git process holds the index ({index.lock} is there).") from None
            except OSError as error:
                raise NotPlaced(f"the index could not be locked: {error.strerror}.") from None
        yield


def _record(
    snapshot: Snapshot,
    patch: Patch,
    found: Mapping[str, Worktree | None],
    expected: str,
    story: Story,
    environ: Mapping[str, str],
) -> recovery.Heal:
    """All that `undo` needs, and all that `log` tells."""
    modes = {file.path: file.mode for file in snapshot.change.files}
    return recovery.Heal(
        id=recovery.new_id(),
        phase=recovery.PLACING,
        process=this_process(),
        head=snapshot.change.head,
        tree=snapshot.change.tree,
        expected_tree=expected,
        style=snapshot.repo.style.name,
        engine=patch.engine,
        model=story.model,
        diagnosis=patch.diagnosis,
        attempts=story.attempts,
        tokens=story.tokens,
        seconds=story.seconds,
        stash=str(stashed_patch(environ) or ""),
        files=tuple(
            recovery.Content(
                path=rewrite.path,
                mode=modes[rewrite.path],
                staged_before=rewrite.before,
                staged_after=rewrite.after,
                worktree_before=file.now if (file := found[rewrite.path]) else None,
                worktree_after=file.then if file else None,
            )
            for rewrite in patch.files
        ),
    )


@contextlib.contextmanager
def _recorded(snapshot: Snapshot, heal: recovery.Heal, files: Sequence[Worktree]) -> Iterator[Path]:
    """The recovery record is on disk before the first write, and says afterwards that all was placed.

    It is forgotten when nothing was; but a file that could not be put back is still in need of it.
    """
    try:
        folder = recovery.write(snapshot.repo.records, heal)
    except OSError as error:
        raise NotPlaced(f"the recovery record could not be written: {error.strerror}.") from None
    try:
        yield folder
    except BaseException:
        if not any(_holds(file.path, file.then) for file in files if file.then != file.now):
            recovery.forget(folder)
        raise
    with contextlib.suppress(OSError):  # all is placed, and can be undone from this record too
        recovery.advance(folder, recovery.PLACED)


@contextlib.contextmanager
def _written(files: Sequence[Worktree], identity: str) -> Iterator[None]:
    """The working tree's files as they shall be; put back when what follows fails.

    They come before the index: a crash in between shows the fix as an unstaged change, never as its reversal.
    """
    done: list[Worktree] = []
    try:
        for file in files:
            replace_file(file.path, file.then, file.mode, identity)
            done.append(file)
        yield
    except BaseException as error:
        _put_back(done, identity)
        if isinstance(error, OSError):
            raise NotPlaced(f"{error.filename or 'a file'} could not be written: {error.strerror}.") from None
        if isinstance(error, GitError):
            raise NotPlaced(f"the index could not be written: {error.problem}") from None
        raise


def _put_back(files: Sequence[Worktree], identity: str) -> None:
    """What the files held before, where they still hold what was written. Raises NotPlaced where that fails too."""
    for file in files:
        if _holds(file.path, file.then):
            try:
                replace_file(file.path, file.now, file.mode, identity)
            except OSError as error:
                raise NotPlaced(
                    f"{file.path} holds the fix, nothing is staged, and the file could not be put back: "
                    f"{error.strerror}. `selfheal undo {identity}` does it later."
                ) from None


def replace_file(path: Path, data: bytes, mode: int, identity: str) -> None:
    """Write by temporary file and rename, so that a full disk leaves the file whole; owner and mode are kept.

    The temporary file bears the name of the heal, so that undo finds one that a crash left behind.
    """
    owner = path.stat()
    temporary = temporary_name(path, identity)
    try:
        with open(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        if (owner.st_uid, owner.st_gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):
                os.chown(temporary, owner.st_uid, owner.st_gid)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def temporary_name(path: Path, identity: str) -> Path:
    """Where the new content of the file at `path` is written first, by the heal of that id."""
    return path.with_name(f".selfheal-{identity}")


def _stage(git: Git, paths: Sequence[str], copies: Sequence[Copy], folder: Path) -> None:
    """Make the copies the indexes; `paths` are the files with the fix that are in the working tree."""
    ready = [copy.ready(git, folder, paths) for copy in copies]
    # git reads the first of two when it makes the commit, and keeps the second: never the second without the first.
    for copy, file in zip(copies, ready, strict=True):
        copy.become(file)


def store_blobs(git: Git, rewrites: Sequence[Rewrite]) -> None:
    """Write what is to be staged into the user's object folder, to last."""
    for rewrite in rewrites:
        git.run("-c", "core.fsync=loose-object", "hash-object", "-w", "--stdin", "--no-filters", data=rewrite.after)
